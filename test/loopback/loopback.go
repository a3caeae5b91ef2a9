// Package loopback gives tests addresses of this host's that nobody else uses: on 127.0.0.1
// others take ports that a test has just let go, and knock at those that it listens on.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Host is an address of 127.0.0.0/8, another one each time.
func Host() string { return fmt.Sprintf("127.%d.%d.%d", 1+rand.N(250), rand.N(250), 1+rand.N(250)) }

// Free is a host and a port at which nobody listens.
func Free(t testing.TB) (host, port string) {
	t.Helper()
	l, err := net.Listen("tcp", Host()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}
