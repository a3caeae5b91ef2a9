// Package toolchain prepares the root that shows the host's own tools to a job:
// a small directory tree with mountpoints, the links /bin and /lib, and a copy of
// an allow list of /etc. /usr itself is attached, not copied. Trees are kept by the
// hash of what they were made from, so that a later run only compares file times.
package toolchain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
)

// formatVersion is part of every tree's key: raise it when the same host files
// lead to another tree.
const formatVersion = "2"

// Home is the job's home directory, User its login name.
const (
	Home = "/home/quavon"
	User = "quavon"
)

// Config says what to prepare.
type Config struct {
	// Store is a directory for prepared trees, made when it is missing, in one that
	// nobody else can write to.
	Store string
	// Host is the directory whose tools are shown; "" is "/".
	Host string
	// Mountpoints are clean absolute guest paths of directories that something
	// will be mounted on, besides the usual ones.
	Mountpoints []string
}

// Tree is a prepared root. It stays in the store at least until Close.
type Tree struct {
	// Dir is the tree's host path.
	Dir string
	// Binds are the host directories to attach read-only at their Target.
	Binds []job.Mount
	lock  *os.File
}

// Close lets the store remove the tree.
func (t *Tree) Close() error { return t.lock.Close() }

// Prepare returns the tree for this host, making it when it isn't there yet.
func Prepare(c Config) (*Tree, error) {
	if c.Host == "" {
		c.Host = "/"
	}
	lay, err := readLayout(c.Host)
	if err != nil {
		return nil, err
	}
	entries, err := scanEtc(filepath.Join(c.Host, "etc"))
	if err != nil {
		return nil, fault.Wrap(err, "can't read the host's /etc", "run `quavon run` as a user that can read /etc")
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fault.Wrap(err, "can't prepare the toolchain's root", "mount /proc")
	}
	spec := treeSpec{
		boot: string(boot), etc: filepath.Join(c.Host, "etc"),
		layout: lay, entries: entries, mountpoints: mountpoints(c.Mountpoints),
	}
	dir := filepath.Join(c.Store, spec.key())
	// Twice at most in practice: a tree can be removed between build and lock.
	for range 5 {
		lock, err := lockTree(dir)
		if err == nil {
			return &Tree{Dir: dir, Binds: lay.binds, lock: lock}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, storeFault(err, c.Store)
		}
		if err := build(c.Store, dir, spec); err != nil {
			return nil, storeFault(err, c.Store)
		}
	}
	return nil, storeFault(errors.New("the tree vanishes as soon as it is made"), c.Store)
}

func storeFault(err error, store string) error {
	return fault.Wrap(err, "can't prepare the toolchain's root", fmt.Sprintf("check that %s is writable and not full", store))
}

// mountpoints are the directories every tree has, and the caller's.
func mountpoints(more []string) []string {
	all := []string{
		"/proc", "/sys", "/dev", "/tmp", "/run", "/var/tmp", "/usr", "/opt", "/srv", "/mnt", "/root",
		Home, job.WorkspaceDir, "/cache", sandbox.GuestDir,
	}
	all = append(all, more...)
	slices.Sort(all)
	return slices.Compact(all)
}

// treeSpec is everything a tree is made from.
type treeSpec struct {
	// boot is the running kernel's id. A tree serves one boot only, because a crash
	// of the machine may leave files empty that were never synced.
	boot        string
	etc         string
	layout      layout
	entries     []entry
	mountpoints []string
}

// key names the tree; it changes whenever the tree would.
func (s treeSpec) key() string {
	h := sha256.New()
	var num []byte
	line := func(f string, args ...any) { fmt.Fprintf(h, f+"\x00", args...) } // a hash never fails to write
	line("format %s boot %s", formatVersion, s.boot)
	for _, l := range s.layout.links {
		line("link %s %s", l.name, l.target)
	}
	for _, b := range s.layout.binds {
		line("bind %s", b.Target)
	}
	for _, m := range s.mountpoints {
		line("dir %s", m)
	}
	for _, e := range s.entries {
		line("etc %s", e.rel)
		for _, n := range []int64{int64(e.mode), e.size, e.mtime} {
			num = binary.LittleEndian.AppendUint64(num[:0], uint64(n))
			h.Write(num)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}
