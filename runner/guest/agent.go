package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/guest/files"
)

// agent answers the host's requests.
type agent struct {
	conn   *wire.Conn
	reaper *reaper
	door   door

	mu       sync.Mutex
	stage    stage
	overlays []files.Overlay
	commands map[*command]struct{} // those that run
	watching bool
	killing  int // killAlls under way
	killed   sync.Cond
}

// stage says how far the job's view is arranged.
type stage int

const (
	stageFresh stage = iota
	stageSetup
	stageReady
	stageFailed
)

func newAgent() *agent {
	a := &agent{reaper: newReaper(), commands: map[*command]struct{}{}}
	a.killed.L = &a.mu
	return a
}

// accept takes a request; it is called by the connection's reader.
func (a *agent) accept(s *wire.Stream, req *agentpb.Request) {
	if exec := req.GetExec(); exec != nil {
		c := newCommand(a, s, exec)
		s.OnControl(c.control)
		s.OnClose(c.cancel)
		go c.run()
		return
	}
	go a.answer(s, req)
}

// answer serves a request that is not a command.
func (a *agent) answer(s *wire.Stream, req *agentpb.Request) {
	reply, err := a.do(s, req)
	if err != nil {
		reply = failure(err)
	}
	_ = s.Close(reply) // the connection's end is noticed by its reader
	if req.GetShutdown() != nil {
		a.conn.Close()
	}
}

func (a *agent) do(s *wire.Stream, req *agentpb.Request) (*agentpb.Reply, error) {
	switch op := req.GetOp().(type) {
	case *agentpb.Request_Setup:
		return done(a.setUp(op.Setup))
	case *agentpb.Request_Shutdown:
		return done(nil)
	case *agentpb.Request_Put:
		if n, ok := lowerNumber(op.Put.GetDir()); ok {
			return done(a.load(s, n, op.Put))
		}
	}
	if err := a.isReady(); err != nil {
		return nil, err
	}
	switch op := req.GetOp().(type) {
	case *agentpb.Request_Put:
		return done(a.put(s, op.Put))
	case *agentpb.Request_Get:
		return done(a.get(s, op.Get))
	case *agentpb.Request_Diff:
		return done(a.diff(s, op.Diff))
	case *agentpb.Request_Stat:
		return stat(op.Stat)
	case *agentpb.Request_Door:
		return done(a.door.set(op.Door.GetOpen()))
	case *agentpb.Request_KillAll:
		return done(a.killAll(time.Duration(op.KillAll.GetGraceNs())))
	}
	return nil, errors.New("this agent doesn't know the request")
}

func done(err error) (*agentpb.Reply, error) { return &agentpb.Reply{}, err }

// isReady fails until the job's view is arranged: before, the agent still holds
// the capability to mount.
func (a *agent) isReady() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stage != stageReady {
		return errors.New("the sandbox isn't set up")
	}
	return nil
}

func limits(maxBytes, maxEntries int64) files.Limits {
	return files.Limits{Bytes: maxBytes, Entries: int(maxEntries)}
}

func (a *agent) put(s *wire.Stream, r *agentpb.Put) error {
	return files.Put(r.GetDir(), int(r.GetUid()), int(r.GetGid()), s.Reader(wire.In), limits(r.GetMaxBytes(), r.GetMaxEntries()))
}

func (a *agent) get(s *wire.Stream, r *agentpb.Get) error {
	w := s.Writer(wire.Out)
	err := files.Get(r.GetDir(), r.GetGlobs(), w, limits(r.GetMaxBytes(), r.GetMaxEntries()))
	return errors.Join(err, w.Close())
}

func (a *agent) diff(s *wire.Stream, r *agentpb.Diff) error {
	a.mu.Lock()
	if int64(r.GetOverlay()) >= int64(len(a.overlays)) {
		a.mu.Unlock()
		return fmt.Errorf("there is no overlay %d", r.GetOverlay())
	}
	o := a.overlays[r.GetOverlay()]
	a.mu.Unlock()
	w := s.Writer(wire.Out)
	err := files.Diff(o, r.GetContent(), w, limits(r.GetMaxBytes(), r.GetMaxEntries()))
	return errors.Join(err, w.Close())
}

func stat(r *agentpb.Stat) (*agentpb.Reply, error) {
	if len(r.GetPath()) > wire.MaxPath {
		return nil, fs.ErrInvalid
	}
	fi, err := files.Stat(r.GetPath())
	if err != nil {
		return nil, err
	}
	return &agentpb.Reply{Info: &agentpb.FileInfo{
		Path: fi.Path, Size: fi.Size, Mode: uint32(fi.Mode), Uid: fi.UID, Gid: fi.GID,
		MtimeNs: fi.ModTime.UnixNano(), Link: fi.Link,
	}}, nil
}
