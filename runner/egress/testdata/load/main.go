// Command load puts load on the door of the sandbox it runs in.
package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	n, _ := strconv.Atoi(os.Args[2])
	switch os.Args[1] {
	case "figures":
		figures(n)
	case "dial":
		dials(n)
	case "idle":
		for range n {
			tunnel("echo\n")
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "near":
		near()
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

// figures moves n MiB six ways in turn and prints for each how many nanoseconds it
// took: to stdout and from stdin, which is what the agent's channel carries; in and
// out through the door; and to and from another process in this sandbox, which is
// what a socket carries here.
func figures(n int) {
	near := exec.Command(os.Args[0], "near", "0")
	out, err := near.StdoutPipe()
	check(err)
	check(near.Start())
	addr, err := bufio.NewReader(out).ReadString('\n')
	check(err)
	loopback := func(what string) net.Conn {
		c, err := net.Dial("tcp", strings.TrimSpace(addr))
		check(err)
		_, err = io.WriteString(c, what)
		check(err)
		return c
	}
	zeros, sink := fmt.Sprintf("zeros %d\n", n), fmt.Sprintf("sink %d\n", n)
	for _, way := range []func(){
		func() { fill(os.Stdout, n) },
		func() { drain(os.Stdin, n) },
		func() { drain(tunnel(zeros), n) },
		func() { upload(tunnel(sink), n) },
		func() { drain(loopback(zeros), n) },
		func() { upload(loopback(sink), n) },
	} {
		start := time.Now()
		way()
		fmt.Fprint(os.Stderr, time.Since(start).Nanoseconds(), " ")
	}
	check(near.Process.Kill())
}

// upload returns when all has arrived.
func upload(c net.Conn, n int) {
	fill(c, n)
	_, err := io.ReadFull(c, make([]byte, 1))
	check(err)
}

func fill(w io.Writer, n int) {
	for zeros := make([]byte, 1<<20); n > 0; n-- {
		_, err := w.Write(zeros)
		check(err)
	}
}

func drain(r io.Reader, n int) {
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(r, int64(n)<<20), make([]byte, 256<<10))
	check(err)
}

// near serves one connection after the other, as the far server does.
func near() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(l.Addr())
	for {
		c, err := l.Accept()
		check(err)
		r := bufio.NewReaderSize(c, 64)
		line, err := r.ReadString('\n')
		check(err)
		var n int
		if _, err := fmt.Sscanf(line, "zeros %d", &n); err == nil {
			fill(c, n)
		} else if _, err := fmt.Sscanf(line, "sink %d", &n); err == nil {
			drain(r, n)
			_, err = c.Write([]byte{1})
			check(err)
		}
		c.Close()
	}
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

// crowd has n connections ask and answer for some seconds, twice without and once
// with a reader that stalls. It prints the 50th, 90th and 99th percentile and the
// longest of all answers without and with it, and how many times slower by their
// medians the worst connection was: the second time without it, and with it.
func crowd(n int) {
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = tunnel("echo\n")
	}
	seconds, _ := strconv.Atoi(os.Args[3])
	d := time.Duration(seconds) * time.Second
	chat(conns, d/4)
	before, again := chat(conns, d/2), chat(conns, d/2)
	tunnel("zeros 100000\n") // nobody reads it
	during := chat(conns, d)
	var noise, worst float64
	without := make([][]time.Duration, n)
	for i := range conns {
		without[i] = slices.Concat(before[i], again[i])
		noise = max(noise, slower(again[i], before[i]))
		worst = max(worst, slower(during[i], without[i]))
	}
	for _, all := range [][]time.Duration{slices.Concat(without...), slices.Concat(during...)} {
		for _, percent := range []int{50, 90, 99, 100} {
			fmt.Print(quantile(all, percent).Nanoseconds(), " ")
		}
	}
	fmt.Println(noise, worst)
}

// slower is how many times longer the median of a is than that of b.
func slower(a, b []time.Duration) float64 {
	return float64(quantile(a, 50)) / float64(quantile(b, 50))
}

// chat asks on every connection, twice a second on average, and returns how long the
// answers took. When is left to chance: in step, a connection would share its moments
// with the same others each time, and its median would be of those.
func chat(conns []net.Conn, d time.Duration) [][]time.Duration {
	took := make([][]time.Duration, len(conns))
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for i, c := range conns {
		wg.Go(func() {
			r, b := bufio.NewReader(c), []byte("0123456789abcdef")
			for time.Sleep(pause()); time.Now().Before(end); time.Sleep(pause()) {
				start := time.Now()
				_, err := c.Write(b)
				check(err)
				_, err = io.ReadFull(r, make([]byte, len(b)))
				check(err)
				took[i] = append(took[i], time.Since(start))
			}
		})
	}
	wg.Wait()
	return took
}

func pause() time.Duration { return rand.N(time.Second) }

func quantile(all []time.Duration, percent int) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)*percent/100, len(all)-1)]
}
