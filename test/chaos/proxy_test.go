package chaos

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy stands between a process and Valkey, so that its connections can fail.
type proxy struct {
	socket, target string

	mu     sync.Mutex
	conns  map[net.Conn]bool
	frozen bool
	thaw   *sync.Cond
}

func startProxy(t *testing.T, socket, target string) *proxy {
	t.Helper()
	p := &proxy{socket: socket, target: target, conns: map[net.Conn]bool{}}
	p.thaw = sync.NewCond(&p.mu)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); p.cut() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	p.wait()
	s, err := net.DialTimeout("unix", p.target, time.Second)
	if err != nil {
		return
	}
	defer s.Close()
	p.mu.Lock()
	p.conns[c], p.conns[s] = true, true
	p.mu.Unlock()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{c, s}, {s, c}} {
		go func() { p.copy(pair[0], pair[1]); done <- struct{}{} }()
	}
	<-done
	p.mu.Lock()
	delete(p.conns, c)
	delete(p.conns, s)
	p.mu.Unlock()
}

func (p *proxy) copy(to io.Writer, from io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.wait()
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (p *proxy) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.frozen {
		p.thaw.Wait()
	}
}

// cut closes all connections, whatever is on its way.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// freeze lets nothing through for a while.
func (p *proxy) freeze(d time.Duration) {
	p.mu.Lock()
	p.frozen = true
	p.mu.Unlock()
	time.Sleep(d)
	p.mu.Lock()
	p.frozen = false
	p.thaw.Broadcast()
	p.mu.Unlock()
}
