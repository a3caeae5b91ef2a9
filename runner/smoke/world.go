package smoke

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/sandbox"
)

// World is what a sandbox must not reach, with live listeners that tell what came:
// on the addresses of this host, and in a network namespace of its own in which every
// address there is leads to them. Nothing of it is seen on the host's network but the
// first, and nothing in it leaves the host.
type World struct {
	sightings
	ns      *os.File // nil without root
	closers []func() error
	// hosts are the addresses of this host, and the port of the listeners there.
	hosts []netip.Addr
	port  uint16
	// abstract is the name of a listening socket that has no file.
	abstract string
}

// servicePorts are what servers of an operator listen on, in the world.
var servicePorts = []uint16{22, 53, 80, 443, 853, 2375, 2376, sandbox.DoorPort, 5432, 6379, 9090, 10250}

// datagramPorts are the world's for UDP.
var datagramPorts = []uint16{53, 123, 443}

// maxHosts bounds how many of the host's addresses are listened on.
const maxHosts = 6

// NewWorld makes a world. Without root it has only the host's own addresses.
func NewWorld(name string) (*World, error) {
	w := &World{abstract: "@quavon-world-" + name}
	err := w.listenHere()
	if err == nil && os.Geteuid() == 0 {
		err = w.listenThere()
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close ends the listeners and the namespace.
func (w *World) Close() error {
	var errs []error
	for _, f := range w.closers {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// Path is the network namespace's, "" without one.
func (w *World) Path() string {
	if w.ns == nil {
		return ""
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), w.ns.Fd())
}

// Inside runs f on a thread in the world's namespace.
func (w *World) Inside(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(w.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the world's network: %w", err)
		}
		return f()
	})
}

// onThread runs f on a thread that ends with it, so that f may change it.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// listenHere listens on the host's own addresses.
func (w *World) listenHere() error {
	w.hosts = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() && len(w.hosts) < maxHosts {
			w.hosts = append(w.hosts, p.Addr())
		}
	}
	var live []netip.Addr
	for _, a := range w.hosts {
		if err := w.listenAt(netip.AddrPortFrom(a, w.port)); err == nil {
			live = append(live, a)
		}
	}
	w.hosts = live
	if len(live) == 0 {
		return errors.New("no address of this host can be listened on")
	}
	l, err := net.Listen("unix", w.abstract)
	if err != nil {
		return err
	}
	w.serve(l)
	return nil
}

// listenAt listens for TCP and UDP on one address; the first chooses the port.
func (w *World) listenAt(at netip.AddrPort) error {
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		return err
	}
	w.serve(l)
	if w.port == 0 {
		w.port = uint16(l.Addr().(*net.TCPAddr).Port) //nolint:errcheck,forcetypeassert,gosec // it is TCP's
	}
	return w.listenDatagrams(net.JoinHostPort(at.Addr().String(), strconv.Itoa(int(w.port))))
}

func (w *World) listenDatagrams(address string) error {
	p, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	w.closers = append(w.closers, p.Close)
	go w.readDatagrams(p)
	return nil
}

// listenThere makes the namespace and listens there.
func (w *World) listenThere() error {
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		var err error
		w.ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return err
	}
	w.closers = append(w.closers, w.ns.Close)
	return w.Inside(func() error {
		if err := everyAddressIsLocal(); err != nil {
			return fmt.Errorf("route every address to this namespace: %w", err)
		}
		return w.listenEverywhere()
	})
}

func (w *World) listenEverywhere() error {
	for _, port := range append([]uint16{w.port}, servicePorts...) {
		l, err := net.Listen("tcp", ":"+strconv.Itoa(int(port)))
		if err != nil {
			return err
		}
		w.serve(l)
	}
	for _, port := range append([]uint16{w.port}, datagramPorts...) {
		if err := w.listenDatagrams(":" + strconv.Itoa(int(port))); err != nil {
			return err
		}
	}
	l, err := net.Listen("unix", w.abstract)
	if err == nil {
		w.serve(l)
	}
	return err
}

// serve notes what connections say, and answers.
func (w *World) serve(l net.Listener) {
	w.closers = append(w.closers, l.Close)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.hear(c)
		}
	}()
}

// hearTime bounds how long a connection may keep silent.
const hearTime = 10 * time.Second

func (w *World) hear(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(hearTime)) // a closed connection fails below
	var buf [2048]byte
	n, _ := c.Read(buf[:]) // what came before an error counts
	w.see(buf[:n])
	_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhi\n"))
}

func (w *World) readDatagrams(p net.PacketConn) {
	var buf [2048]byte
	for {
		n, _, err := p.ReadFrom(buf[:])
		if err != nil {
			return
		}
		w.see(buf[:n])
	}
}

// World is the test's world, made when it is first needed.
func (b *Bench) World() (*World, error) {
	if b.Suite.World != nil {
		return b.Suite.World, nil
	}
	if b.world == nil {
		w, err := NewWorld(b.Nonce)
		if err != nil {
			return nil, fmt.Errorf("make listeners: %w", err)
		}
		b.world = w
		b.Cleanup(w.Close)
	}
	return b.world, nil
}

// waitFor asks until the answer is yes or time is over.
func waitFor(ctx context.Context, limit time.Duration, ask func() bool) bool {
	deadline := time.Now().Add(limit)
	for !ask() {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}
