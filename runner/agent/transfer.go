package agent

import (
	"context"
	"errors"
	"io"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
)

// Bounds of one Put; what the sandbox may hold is its disk limit's business.
const (
	putBytes   = 1 << 50
	putEntries = 10_000_000
)

// tarPerEntry is the most bytes of a tar stream for one entry besides its
// content: headers, records with two long paths, padding.
const tarPerEntry = 16 << 10

// Put unpacks a tar stream below dir; all it makes belongs to uid and gid.
func (c *Client) Put(ctx context.Context, dir string, uid, gid int, tar io.Reader) error {
	s, err := c.conn.Open(&agentpb.Request{Op: &agentpb.Request_Put{Put: &agentpb.Put{
		Dir: dir, Uid: uint32(uid), Gid: uint32(gid), MaxBytes: putBytes, MaxEntries: putEntries,
	}}})
	if err != nil {
		return wrap("put files", err)
	}
	// Giving the stream up ends a wait for credit.
	stop := context.AfterFunc(ctx, func() { _ = s.Close(nil) })
	defer stop()
	w := s.Writer(wire.In)
	w.Bulk = true
	_, err = w.ReadFrom(tar)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil && !errors.Is(err, wire.ErrClosed) {
		return wrap("put files", errors.Join(err, s.Close(nil)))
	}
	_, err = outcome(ctx, s)
	return wrap("put files", err)
}

// Get writes the files that match to w, as a tar stream.
func (c *Client) Get(ctx context.Context, r GetRequest, w io.Writer) error {
	return wrap("get files", c.fetch(ctx, &agentpb.Request{Op: &agentpb.Request_Get{Get: &agentpb.Get{
		Dir: r.Dir, Globs: r.Globs, MaxBytes: r.MaxBytes, MaxEntries: int64(r.MaxEntries),
	}}}, r.MaxBytes, r.MaxEntries, w))
}

// Diff writes what changed in an overlay to w, as a tar stream.
func (c *Client) Diff(ctx context.Context, r DiffRequest, w io.Writer) error {
	return wrap("list changes", c.fetch(ctx, &agentpb.Request{Op: &agentpb.Request_Diff{Diff: &agentpb.Diff{
		Overlay: uint32(r.Overlay), Content: r.Content, MaxBytes: r.MaxBytes, MaxEntries: int64(r.MaxEntries),
	}}}, r.MaxBytes, r.MaxEntries, w))
}

// fetch copies what the agent answers to w, no more than the limits allow.
func (c *Client) fetch(ctx context.Context, req *agentpb.Request, maxBytes int64, maxEntries int, w io.Writer) error {
	s, err := c.conn.Open(req)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close(nil) })
	defer stop()
	capped := &capWriter{w: w, left: maxBytes + (int64(maxEntries)+64)*tarPerEntry}
	_, err = io.Copy(capped, s.Reader(wire.Out))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return errors.Join(err, s.Close(nil))
	}
	_, err = outcome(ctx, s)
	return err
}

// capWriter fails when more than left bytes are written.
type capWriter struct {
	w    io.Writer
	left int64
}

func (c *capWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		return 0, errTooMuch
	}
	c.left -= int64(len(p))
	return c.w.Write(p)
}
