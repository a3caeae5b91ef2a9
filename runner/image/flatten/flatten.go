// Package flatten turns the layers of an image into one tree. Each layer's tar
// is read once: headers go into a compact Tree, file contents into a Data sink
// that says where it put them. Trees are then merged bottom up, so whiteouts,
// type changes and hard links across layers are settled on records alone, and
// no name from a layer ever reaches the host's file system. Symbolic links are
// data: they are kept as they are and never followed.
package flatten

import (
	"fmt"
	"io"
	"sync/atomic"
)

// Data stores file contents.
type Data interface {
	// Append stores the next size bytes of r and returns where they begin. The
	// error is *TooBigError when a limit is hit.
	Append(r io.Reader, size int64) (off int64, err error)
}

// Limits bound an image, all its layers together.
type Limits struct {
	// Entries counts names, with directories implied by a path.
	Entries int64
	// Stream is in bytes: the plain tar of all layers.
	Stream int64
	// Logical is in bytes: the sizes of all files, holes included.
	Logical int64
	// Written is in bytes: what the files take on disk, holes left out.
	Written int64
}

// DefaultLimits fit the largest images in daily use many times over.
var DefaultLimits = Limits{Entries: 4 << 20, Stream: 128 << 30, Logical: 64 << 30, Written: 64 << 30}

// Budget is what is left of the limits; layers read in parallel share one.
type Budget struct{ entries, stream, logical, written atomic.Int64 }

// NewBudget is a budget of which nothing is spent.
func NewBudget(l Limits) *Budget {
	b := new(Budget)
	b.entries.Store(l.Entries)
	b.stream.Store(l.Stream)
	b.logical.Store(l.Logical)
	b.written.Store(l.Written)
	return b
}

// SpendWritten is for a Data sink, before it writes n bytes.
func (b *Budget) SpendWritten(n int64) error {
	return spend(&b.written, n, "the content of its files")
}

// TooBigError says which limit an image exceeds.
type TooBigError struct{ Limit string }

func (e *TooBigError) Error() string { return "the image exceeds the limit on " + e.Limit }

func spend(left *atomic.Int64, n int64, limit string) error {
	if n > 0 && left.Add(-n) < 0 {
		return &TooBigError{limit}
	}
	return nil
}

// EntryError is an entry that can't be part of an image.
type EntryError struct {
	// Layer counts from 0, the bottom.
	Layer int
	// Name is the entry's name as the tar has it, any bytes.
	Name string
	Err  error
}

func (e *EntryError) Error() string {
	return fmt.Sprintf("layer %d: entry %s: %v", e.Layer, quote(e.Name), e.Err)
}

// Unwrap returns the reason.
func (e *EntryError) Unwrap() error { return e.Err }

// quote makes a hostile name fit for a message.
func quote(name string) string {
	const most = 200
	if len(name) > most {
		return fmt.Sprintf("%q… (%d bytes)", name[:most], len(name))
	}
	return fmt.Sprintf("%q", name)
}

// Report is what was left out of the tree or changed on the way.
type Report struct {
	// DevNodes counts device nodes below /dev, which the sandbox makes itself.
	DevNodes int64 `json:"dev_nodes,omitempty"`
	// OtherNodes counts device nodes elsewhere.
	OtherNodes int64 `json:"other_nodes,omitempty"`
	// Names are the first of OtherNodes and of the files with capabilities.
	Names []string `json:"names,omitempty"`
	// Xattrs counts attributes that aren't kept, by name.
	Xattrs map[string]int64 `json:"xattrs,omitempty"`
	// Capabilities and Setuid count files that have them, in all layers.
	Capabilities int64 `json:"capabilities,omitempty"`
	Setuid       int64 `json:"setuid,omitempty"`
	// Implied counts directories that no entry describes: root's, 0755.
	Implied int64 `json:"implied,omitempty"`
	// Globals counts PAX global headers, which describe no file.
	Globals int64 `json:"globals,omitempty"`
}

// maxXattrNames bounds Report.Xattrs: a layer can invent names without end.
const maxXattrNames = 64

// maxNames bounds Report.Names.
const maxNames = 100

func (r *Report) name(name string) {
	if len(r.Names) < maxNames {
		r.Names = append(r.Names, quote(name))
	}
}

func (r *Report) dropXattr(name string, n int64) {
	if r.Xattrs == nil {
		r.Xattrs = make(map[string]int64)
	}
	if _, known := r.Xattrs[name]; !known && len(r.Xattrs) >= maxXattrNames {
		name = "others"
	}
	r.Xattrs[name] += n
}

// Add adds another layer's report.
func (r *Report) Add(o *Report) {
	r.DevNodes += o.DevNodes
	r.OtherNodes += o.OtherNodes
	r.Capabilities += o.Capabilities
	r.Setuid += o.Setuid
	r.Implied += o.Implied
	r.Globals += o.Globals
	r.Names = append(r.Names, o.Names[:min(len(o.Names), maxNames-len(r.Names))]...)
	for name, n := range o.Xattrs {
		r.dropXattr(name, n)
	}
}
