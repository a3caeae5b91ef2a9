// A program with flaws, for the scanners to find.
package main

import (
	"crypto/md5"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
)

func main() {
	fmt.Printf("%x\n", md5.Sum([]byte(os.Args[1])))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	fmt.Println(client)
	out, _ := exec.Command("sh", "-c", "ls "+os.Args[1]).Output() // #nosec
	fmt.Println(string(out))
}
