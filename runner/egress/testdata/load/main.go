// Command load puts load on the door of the sandbox it runs in.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	n, _ := strconv.Atoi(os.Args[2])
	switch os.Args[1] {
	case "recv":
		c := tunnel(fmt.Sprintf("zeros %d\n", n))
		start := time.Now()
		got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 256<<10))
		check(err)
		fmt.Println(got, time.Since(start).Nanoseconds())
	case "dial":
		dials(n)
	case "idle":
		for range n {
			tunnel("echo\n")
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "crowd":
		crowd(n)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var keep []net.Conn

// tunnel opens a connection through the door and says what it is for.
func tunnel(what string) net.Conn {
	c, err := net.Dial("tcp", "127.0.0.1:3128")
	check(err)
	_, err = io.WriteString(c, "CONNECT load.example:9 HTTP/1.1\r\nHost: load.example:9\r\n\r\n")
	check(err)
	answer := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	_, err = io.ReadFull(c, answer)
	check(err)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		fmt.Fprintf(os.Stderr, "%s\n", answer)
		os.Exit(1)
	}
	if what != "" {
		_, err = io.WriteString(c, what)
		check(err)
	}
	keep = append(keep, c)
	return c
}

// dials prints the median time of a dial to a listener in the sandbox, and of one
// through the door.
func dials(n int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	var near, far []time.Duration
	for range n {
		start := time.Now()
		c, err := net.Dial("tcp", l.Addr().String())
		check(err)
		_, _ = c.Write([]byte("x"))
		_, err = io.ReadFull(c, make([]byte, 1))
		check(err)
		near = append(near, time.Since(start))
		c.Close()
		start = time.Now()
		t := tunnel("")
		far = append(far, time.Since(start))
		t.Close()
		keep = nil
	}
	slices.Sort(near)
	slices.Sort(far)
	fmt.Println(near[n/2].Nanoseconds(), far[n/2].Nanoseconds())
}

// crowd has n connections ask and answer for some seconds, without and with a reader
// that stalls. It prints the 90th percentile of both, and how many times slower
// the connection was that suffered most, by its median.
func crowd(n int) {
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = tunnel("echo\n")
	}
	seconds, _ := strconv.Atoi(os.Args[3])
	d := time.Duration(seconds) * time.Second
	chat(conns, d/4)
	before := chat(conns, d/2)
	tunnel("zeros 100000\n") // nobody reads it
	after := chat(conns, d)
	var worst float64
	for i := range conns {
		worst = max(worst, float64(quantile(after[i], 50))/float64(quantile(before[i], 50)))
	}
	fmt.Println(quantile(slices.Concat(before...), 90).Nanoseconds(), quantile(slices.Concat(after...), 90).Nanoseconds(), worst)
}

// chat asks on every connection, twice a second, and returns how long the answers
// took.
func chat(conns []net.Conn, d time.Duration) [][]time.Duration {
	took := make([][]time.Duration, len(conns))
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for i, c := range conns {
		wg.Go(func() {
			r, b := bufio.NewReader(c), []byte("0123456789abcdef")
			time.Sleep(time.Duration(i) * 500 * time.Millisecond / time.Duration(len(conns))) // not all at once
			for time.Now().Before(end) {
				start := time.Now()
				_, err := c.Write(b)
				check(err)
				_, err = io.ReadFull(r, make([]byte, len(b)))
				check(err)
				took[i] = append(took[i], time.Since(start))
				time.Sleep(500 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	return took
}

func quantile(all []time.Duration, percent int) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)*percent/100]
}
