// Package egresstest has what tests of the way out share.
package egresstest

import (
	"errors"
	"net"
	"slices"
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

// WithExtension adds an empty extension to a ClientHello in one record.
func WithExtension(hello []byte, kind uint16) []byte {
	b := slices.Clone(hello)
	at := 5 + 4 + 2 + 32
	at += 1 + int(b[at])
	at += 2 + int(b[at])<<8 + int(b[at+1])
	at += 1 + int(b[at])
	grow := func(i int) {
		n := int(b[i])<<8 + int(b[i+1]) + 4
		b[i], b[i+1] = byte(n>>8), byte(n)
	}
	grow(3)  // the record
	grow(7)  // the message, whose length has three bytes
	grow(at) // the extensions
	return append(b, byte(kind>>8), byte(kind), 0, 0)
}
