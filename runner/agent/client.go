package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// handshakeTime bounds the wait for the agent's first frame, the sandbox's start
// included.
const handshakeTime = 30 * time.Second

// Client speaks to one agent. Its methods are safe for concurrent use. All fail
// once the byte stream has ended.
type Client struct {
	conn   *wire.Conn
	served chan struct{}
	door   door
}

// Dial shakes hands with the agent on rw and takes it over. Closing rw must end
// a pending Read. On failure rw is closed.
func Dial(ctx context.Context, rw io.ReadWriteCloser) (*Client, error) {
	c := &Client{served: make(chan struct{})}
	c.conn = wire.New(rw, wire.Config{Side: wire.Host, Version: ProtocolVersion, Build: build(), Accept: c.door.accept})
	go func() {
		defer close(c.served)
		_ = c.conn.Serve() // conn.Err has it
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTime, errNoAnswer)
	defer cancel()
	if err := c.conn.Handshake(ctx); err != nil {
		c.Close()
		return nil, handshakeFault(err)
	}
	return c, nil
}

var errNoAnswer = fmt.Errorf("no answer within %s", handshakeTime)

// handshakeFault says what to do about an agent that can't be talked to.
func handshakeFault(err error) error {
	var version *wire.VersionError
	var broken *wire.Violation
	const what = "talk to quavon-guest"
	hint := "see why the sandbox ended, from what the runtime said; `quavon version` shows which runtime that is"
	switch {
	case errors.As(err, &version):
		hint = fmt.Sprintf("use the quavon-guest built together with this quavon (here %s, there %s): run make, or install both again",
			build(), clean(version.Build))
	case errors.As(err, &broken):
		hint = "what runs in the sandbox isn't quavon-guest: check the path of the guest binary"
	case errors.Is(err, errNoAnswer):
		hint = "the sandbox started but its agent is silent: is the machine overloaded? Try again"
	}
	return fault.Wrap(err, what, hint).WithCode(string(job.ReasonSandboxUnavailable))
}

// Close ends the connection; the agent ends with it.
func (c *Client) Close() {
	c.conn.Close()
	<-c.served
}

// Done is closed when the connection to the agent has ended.
func (c *Client) Done() <-chan struct{} { return c.conn.Done() }

// Ping waits for the agent to answer.
func (c *Client) Ping(ctx context.Context) error { return wrap("ping", c.conn.Ping(ctx)) }

// Setup arranges the job's view of the file system. It is called once, first.
func (c *Client) Setup(ctx context.Context, s Setup) error {
	req := &agentpb.Setup{WritableRoot: s.WritableRoot}
	for _, p := range s.Points {
		req.Points = append(req.Points, &agentpb.Point{
			Path: p.Path, Mode: posixMode(p.Mode), Uid: p.UID, Gid: p.GID, Body: []byte(p.Body), Renew: p.Renew, Follow: p.Follow,
		})
	}
	for _, o := range s.Overlays {
		req.Overlays = append(req.Overlays, &agentpb.Overlay{Lower: o.Lower, Target: o.Target, Protect: o.Protect, Mask: o.Mask})
	}
	for _, b := range s.Binds {
		req.Binds = append(req.Binds, &agentpb.Bind{Source: b.Source, Target: b.Target})
	}
	for _, d := range s.Dirs {
		req.Dirs = append(req.Dirs, &agentpb.Dir{Path: d.Path, Mode: posixMode(d.Mode), Uid: d.UID, Gid: d.GID})
	}
	_, err := c.call(ctx, &agentpb.Request{Op: &agentpb.Request_Setup{Setup: req}})
	return wrap("setup", err)
}

// Stat describes one path; a symbolic link is not followed.
func (c *Client) Stat(ctx context.Context, path string) (FileInfo, error) {
	reply, err := c.call(ctx, &agentpb.Request{Op: &agentpb.Request_Stat{Stat: &agentpb.Stat{Path: path}}})
	if err != nil {
		return FileInfo{}, wrap("stat", err)
	}
	fi := reply.GetInfo()
	if fi == nil || len(fi.GetPath()) > wire.MaxPath || len(fi.GetLink()) > wire.MaxPath || fi.GetSize() < 0 {
		return FileInfo{}, wrap("stat", errBadReply)
	}
	return FileInfo{
		Path: fi.GetPath(), Size: fi.GetSize(), Mode: fs.FileMode(fi.GetMode()), UID: fi.GetUid(), GID: fi.GetGid(),
		ModTime: time.Unix(0, fi.GetMtimeNs()), Link: fi.GetLink(),
	}, nil
}

// KillAll ends every process of the job: SIGTERM, then SIGKILL after grace. It
// returns once only the agent is left.
func (c *Client) KillAll(ctx context.Context, grace time.Duration) error {
	_, err := c.call(ctx, &agentpb.Request{Op: &agentpb.Request_KillAll{KillAll: &agentpb.KillAll{GraceNs: int64(grace)}}})
	return wrap("end the job's processes", err)
}

// Shutdown makes the agent leave, which ends the sandbox.
func (c *Client) Shutdown(ctx context.Context) error {
	_, err := c.call(ctx, &agentpb.Request{Op: &agentpb.Request_Shutdown{Shutdown: &agentpb.Shutdown{}}})
	if errors.Is(err, wire.ErrPeerGone) {
		return nil // it left before its answer was read
	}
	return wrap("shut down", err)
}

// call sends a request without content and waits for its outcome.
func (c *Client) call(ctx context.Context, req *agentpb.Request) (*agentpb.Reply, error) {
	s, err := c.conn.Open(req)
	if err != nil {
		return nil, err
	}
	return outcome(ctx, s)
}

// outcome waits until the agent has closed the stream, then closes it too.
func outcome(ctx context.Context, s *wire.Stream) (*agentpb.Reply, error) {
	select {
	case <-s.Done():
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), s.Close(nil))
	}
	reply, err := s.Reply()
	if err != nil {
		return nil, err
	}
	return reply, errors.Join(remote(reply), s.Close(nil))
}
