package egress

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/egress/token"
)

// The runner and the service speak over TCP. Every connection begins with one line of
// a fixed length: the protocol, a verb, a token.
//
// "session" opens a step's door. The service answers "ok" or why not, one line, with the certificate of
// the authority behind "ok" if the step has secrets; the door is open
// until the runner closes its side, and then the service tells what happened, as a
// line of JSON. "connect" is one connection of that step; what follows is the job's.
const (
	magic       = "quavon-egress/1 "
	verbSession = "session"
	verbConnect = "connect"
	lineSize    = len(magic) + len(verbSession) + 1 + token.Size + 1
)

func opening(verb string, t token.Token) []byte { return []byte(magic + verb + " " + string(t) + "\n") }

const (
	// openingTime is how long a caller has for its first line.
	openingTime = 5 * time.Second
	// checkEvery is how often a token is looked up while its door is open, and
	// blindTime how long that may fail before the door is closed.
	checkEvery = 2 * time.Second
	blindTime  = 20 * time.Second
)

// Service is the proxy for runners elsewhere.
type Service struct {
	Proxy  *proxy.Proxy
	Tokens token.Store
	Log    *slog.Logger

	mu    sync.Mutex
	doors map[token.Token]*proxy.Session
}

// Serve takes connections until ctx ends, and then cuts all of them.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel(errors.New("the egress service stops"))
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		conns.Go(func() { s.serve(ctx, c.(*net.TCPConn)) }) //nolint:errcheck,forcetypeassert // the listener is TCP
	}
}

// serve reads the first line. A caller without a token hears nothing.
func (s *Service) serve(ctx context.Context, c *net.TCPConn) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	var line [lineSize]byte
	_ = c.SetReadDeadline(time.Now().Add(openingTime)) // a closed connection fails below
	if _, err := io.ReadFull(c, line[:]); err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	t := token.Token(line[lineSize-1-token.Size : lineSize-1])
	switch string(line[:]) {
	case string(opening(verbConnect, t)):
		if door := s.door(t); door != nil {
			door.Serve(c)
			return
		}
		s.Log.Warn("egress refused", "reason", "token_unknown", "from", c.RemoteAddr().String())
	case string(opening(verbSession, t)):
		s.session(ctx, c, t)
	case string(opening(verbHealth, t)):
		s.health(ctx, c, t)
	}
}

func (s *Service) door(t token.Token) *proxy.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doors[t]
}

// session is the life of one step's door.
func (s *Service) session(ctx context.Context, c *net.TCPConn, t token.Token) {
	g, err := s.Tokens.Get(ctx, t)
	if err != nil {
		s.Log.Warn("egress refused", "reason", "token_unknown", "from", c.RemoteAddr().String(), "err", err)
		_, _ = io.WriteString(c, "the token is not known, or Valkey can't be reached\n")
		return
	}
	p, err := jobPolicy(g.Allow)
	if err != nil {
		_, _ = io.WriteString(c, "the token's list can't be read\n")
		return
	}
	grant := proxy.Grant{Job: g.Job, Step: g.Step, Policy: p, Moved: g.Moved}
	if err := unseal(&grant, t, g.Secrets); err != nil {
		_, _ = io.WriteString(c, "the token's secrets can't be read\n")
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	door := s.Proxy.Open(ctx, grant)
	if !s.add(t, door) {
		_, _ = io.WriteString(c, "the token is in use\n")
		return
	}
	defer s.remove(t)
	go s.watch(ctx, cancel, t)
	if _, err := io.WriteString(c, accepted(grant)); err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1)) // until the runner closes its side
	}
	s.remove(t)
	_ = json.NewEncoder(c).Encode(door.Close()) // the runner may have gone
}

// add makes a door known, unless the token has one.
func (s *Service) add(t token.Token, door *proxy.Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doors == nil {
		s.doors = map[token.Token]*proxy.Session{}
	}
	if s.doors[t] != nil {
		return false
	}
	s.doors[t] = door
	return true
}

func (s *Service) remove(t token.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.doors, t)
}

var errRevoked = errors.New("the token was revoked or has expired")

// watch ends a door whose token is gone, or can't be looked up for too long.
func (s *Service) watch(ctx context.Context, end context.CancelCauseFunc, t token.Token) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, err := s.Tokens.Get(ctx, t)
		if err == nil {
			last = time.Now()
			continue
		}
		if errors.Is(err, token.ErrUnknown) || time.Since(last) > blindTime {
			s.remove(t)
			end(errRevoked)
			return
		}
	}
}
