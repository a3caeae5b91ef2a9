package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/sandbox"
)

// door is the way out of the sandbox while the host allows one: a listening
// socket, and a stream to the host for each connection.
type door struct {
	conn *wire.Conn

	mu       sync.Mutex
	listener *os.File // nil while the door is closed
	conns    map[*passage]struct{}
	running  sync.WaitGroup
}

// passage is one connection through the door.
type passage struct {
	sock   *os.File
	stream *wire.Stream
}

// set opens or closes the door.
func (d *door) set(open bool) error {
	if open {
		return d.open()
	}
	d.close()
	return nil
}

func (d *door) open() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener != nil {
		return errors.New("the door is open already")
	}
	listener, err := listen()
	if err != nil {
		return fmt.Errorf("listen on %s: %w", sandbox.Door, err)
	}
	d.listener, d.conns = listener, map[*passage]struct{}{}
	d.running.Go(func() { d.serve(listener) })
	return nil
}

// close ends the listening and cuts all connections.
func (d *door) close() {
	d.mu.Lock()
	if d.listener != nil {
		d.listener.Close()
		d.listener = nil
	}
	for p := range d.conns {
		p.cut()
	}
	d.mu.Unlock()
	d.running.Wait()
}

// serve takes connections until the listener is closed.
func (d *door) serve(listener *os.File) {
	for {
		sock, err := accept(listener)
		if err != nil {
			return
		}
		d.admit(sock)
	}
}

// admit opens a stream for a connection. One that is too many is closed again.
func (d *door) admit(sock *os.File) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener == nil {
		sock.Close()
		return
	}
	stream, err := d.conn.Open(&agentpb.Request{Op: &agentpb.Request_Connect{Connect: &agentpb.Connect{}}})
	if err != nil {
		sock.Close()
		return
	}
	p := &passage{sock, stream}
	d.conns[p] = struct{}{}
	d.running.Go(func() {
		p.carry()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.conns, p)
	})
}

// carry moves bytes both ways until the host closes the stream, the job both
// directions, or either is lost.
func (p *passage) carry() {
	defer p.cut()
	out := make(chan struct{})
	go func() {
		defer close(out)
		p.send()
	}()
	_, err := p.stream.Reader(wire.Out).(io.WriterTo).WriteTo(p.sock) //nolint:errcheck,forcetypeassert // see wire.Stream.Reader
	if err == nil {
		_ = shutdown(p.sock) // the job may have left already
		<-p.stream.Done()    // the host ends the stream when it has what the job sends
	}
	p.cut()
	<-out
}

// send moves what the job sends. When that fails, the host hears that it wasn't
// the whole.
func (p *passage) send() {
	raw, err := p.sock.SyscallConn()
	if err != nil {
		return
	}
	w := p.stream.Writer(wire.In)
	if err := w.ReadFromConn(raw, func(int) error { return nil }); err != nil {
		_ = p.stream.Close(nil) // the connection's end is noticed by its reader
		return
	}
	_ = w.Close()
}

// cut ends both sides.
func (p *passage) cut() {
	_ = p.stream.Close(nil)
	p.sock.Close()
}

// listen makes the listening socket. It doesn't take the net package, which is
// larger than the rest of the agent.
func listen() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	// A door closed a moment ago leaves connections in TIME_WAIT.
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: sandbox.DoorPort, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "door"), nil
}

// accept waits for the next connection. An error is the listener's end.
func accept(listener *os.File) (*os.File, error) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return nil, err
	}
	for {
		var fd int
		rawErr := raw.Read(func(l uintptr) bool {
			fd, _, err = unix.Accept4(int(l), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return !errors.Is(err, unix.EAGAIN)
		})
		if rawErr != nil {
			return nil, rawErr
		}
		if err != nil { // the connection is lost already, or there are too many
			time.Sleep(time.Millisecond)
			continue
		}
		// Small packets must not wait for more; without it they are only slower.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		return os.NewFile(uintptr(fd), "connection"), nil
	}
}

// shutdown tells the job that nothing more comes.
func shutdown(sock *os.File) error {
	return control(sock, func(fd int) error { return syscall.Shutdown(fd, syscall.SHUT_WR) })
}
