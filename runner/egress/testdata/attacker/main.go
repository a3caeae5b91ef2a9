// Command attacker tries what it is told to by its arguments, or else on its stdin, one
// JSON object a line, and answers each with a line. It runs inside a sandbox.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// attempt is one thing to try.
type attempt struct {
	// Dial is "network address", Send what to write then; "" is the door.
	Dial string
	Send []byte
	// Pieces cuts Send, with a pause between.
	Pieces int
	// Then is sent after the answer to Send.
	Then []byte
	// TLS makes a handshake with this server name after the answer, and asks for
	// /control.
	TLS string
	// Inside is sent in that TLS instead, to a server that SSL_CERT_FILE vouches for; with
	// Protos for ALPN.
	Inside []byte
	Protos []string
	// Frames are sent behind that, once the answer to it switches to WebSocket.
	Frames []frame
	// Raw opens a raw socket.
	Raw bool
	// Env tells the environment. Stay leaves a process that holds a connection to the
	// door; Stays counts those that are left.
	Env, Stay, Stays bool
}

// frame is one of WebSocket. First has FIN, reserved bits and the opcode; without Key it
// isn't masked.
type frame struct {
	First     byte
	Text, Key []byte
}

// outcome is what came back.
type outcome struct {
	Answer []byte
	Err    string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == staying {
		hold()
	}
	for _, arg := range os.Args[1:] {
		answer([]byte(arg))
	}
	if len(os.Args) > 1 {
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		answer(in.Bytes())
	}
}

func answer(line []byte) {
	var a attempt
	if err := json.Unmarshal(line, &a); err != nil {
		os.Exit(3)
	}
	text, err := try(a)
	o := outcome{Answer: []byte(text)}
	if err != nil {
		o.Err = err.Error()
	}
	if json.NewEncoder(os.Stdout).Encode(o) != nil {
		os.Exit(4)
	}
}

const door = "127.0.0.1:3128"

func try(a attempt) (string, error) {
	switch {
	case a.Raw:
		return raw()
	case a.Env:
		return strings.Join(os.Environ(), "\n"), nil
	case a.Stay:
		return stay()
	case a.Stays:
		return stays()
	}
	network, address := "tcp", door
	if a.Dial != "" {
		network, address, _ = strings.Cut(a.Dial, " ")
	}
	c, err := net.DialTimeout(network, address, 3*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	patience := 5 * time.Second
	if network == "udp" {
		patience = 300 * time.Millisecond
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	if err := send(c, resolve(a.Send), a.Pieces); err != nil {
		return "", err
	}
	if a.TLS != "" || len(a.Then) > 0 {
		return second(c, a)
	}
	return read(c)
}

func send(c net.Conn, b []byte, pieces int) error {
	size := len(b)
	if pieces > 1 {
		size = len(b)/pieces + 1
	}
	for len(b) > 0 {
		n := min(size, len(b))
		if _, err := c.Write(b[:n]); err != nil {
			return err
		}
		if b = b[n:]; len(b) > 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	return nil
}

// second goes on behind the answer to CONNECT.
func second(c net.Conn, a attempt) (string, error) {
	head := make([]byte, 4096)
	n, err := c.Read(head)
	if a.Send[0] == 5 && err == nil { // SOCKS answers the greeting and the request, with 2 and 10 bytes
		var more int
		more, err = io.ReadFull(c, head[n:12])
		n += more
	}
	if err != nil || !strings.HasPrefix(string(head[:n]), "HTTP/1.1 200") && !strings.HasPrefix(string(head[:n]), "\x05\x00\x05\x00") {
		return string(head[:n]), err
	}
	if len(a.Then) > 0 {
		if err := send(c, a.Then, a.Pieces); err != nil {
			return "", err
		}
		return read(c)
	}
	if len(a.Inside) > 0 {
		return inside(c, a)
	}
	t := tls.Client(c, &tls.Config{ServerName: a.TLS, InsecureSkipVerify: true})
	if err := t.Handshake(); err != nil {
		return "", err
	}
	if _, err := io.WriteString(t, "GET /control HTTP/1.1\r\nHost: "+a.TLS+"\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	return read(t)
}

// resolve puts the placeholder of the job's secret in place of @TOKEN@, and its halves in
// place of @HALF@ and @REST@.
func resolve(b []byte) []byte {
	token := os.Getenv("TOKEN")
	half := len(token) / 2
	return []byte(strings.NewReplacer("@TOKEN@", token, "@HALF@", token[:half], "@REST@", token[half:]).Replace(string(b)))
}

// inside speaks TLS as a client does that checks certificates.
func inside(c net.Conn, a attempt) (string, error) {
	roots := x509.NewCertPool()
	bundle, err := os.ReadFile(os.Getenv("SSL_CERT_FILE"))
	if err != nil {
		return "", err
	}
	roots.AppendCertsFromPEM(bundle)
	t := tls.Client(c, &tls.Config{ServerName: a.TLS, RootCAs: roots, NextProtos: a.Protos})
	if err := t.Handshake(); err != nil {
		return "", err
	}
	if len(a.Frames) > 0 {
		return frames(t, a)
	}
	if err := send(t, resolve(a.Inside), a.Pieces); err != nil {
		return "", err
	}
	return read(t)
}

// frames speaks WebSocket. What comes back has the answer to the handshake in front.
func frames(c net.Conn, a attempt) (string, error) {
	if _, err := c.Write(resolve(a.Inside)); err != nil {
		return "", err
	}
	var head []byte
	for b := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, b...) {
		if _, err := c.Read(b); err != nil {
			return string(head), err
		}
	}
	if bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
		for _, f := range a.Frames {
			if send(c, f.bytes(), a.Pieces) != nil {
				break // why is still to be read
			}
		}
	}
	rest, err := read(c)
	return string(head) + rest, err
}

func (f frame) bytes() []byte {
	text := resolve(f.Text)
	mask := byte(0)
	if f.Key != nil {
		mask = 0x80
	}
	b := []byte{f.First, mask | byte(min(len(text), 126))}
	if len(text) > 125 {
		b = append(b, byte(len(text)>>8), byte(len(text)))
	}
	b = append(b, f.Key...)
	for i, c := range text {
		if f.Key != nil {
			c ^= f.Key[i%4]
		}
		b = append(b, c)
	}
	return b
}

func read(c net.Conn) (string, error) {
	b, err := io.ReadAll(io.LimitReader(c, 32<<10))
	return string(b), err
}

func raw() (string, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP)
	if err != nil {
		return "", err
	}
	return "a raw socket", syscall.Close(fd)
}
