// Package egresstest has what tests of the way out share.
package egresstest

import (
	"errors"
	"net"
	"strings"
	"testing"
)

// Pair are the two ends of a connection over loopback. They end with the test.
func Pair(t testing.TB) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here, err1 := net.Dial("tcp", l.Addr().String())
	there, err2 := l.Accept()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); there.Close() })
	return here.(*net.TCPConn), there.(*net.TCPConn)
}

// Unchunked is a response's body without the lines around chunks that have no line ends.
func Unchunked(response string) string {
	_, body, _ := strings.Cut(response, "\r\n\r\n")
	var b strings.Builder
	for i, line := range strings.Split(body, "\r\n") {
		if i%2 == 1 {
			b.WriteString(line)
		}
	}
	return b.String()
}
