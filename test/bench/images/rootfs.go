package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// rootfs compares what makes file systems of tars, in memory so that no disk hides
// the difference.
type rootfs struct {
	*images
	// tar2ext4 is hcsshim's program.
	tar2ext4 string
	self     string
}

// bigFiles is how many files the big tar has, some 3.6 GB of them.
const (
	bigFiles = 100_000
	bigRuns  = 2
)

// rootfs runs the parts for file systems; they want some 16 GiB below /dev/shm.
func (b *images) rootfs(ctx context.Context, runs int, only, tar2ext4 string) (kept bool, err error) {
	dir, err := os.MkdirTemp("/dev/shm", "quavon-bench-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	states, err := os.MkdirTemp("/var/lib", "quavon-bench-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(states)) }()
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	files := &images{bin: b.bin, base: filepath.Join(dir, "base.tar"), dir: dir, states: states}
	r := &rootfs{images: files, tar2ext4: tar2ext4, self: self}
	if err := copyFile(b.base, r.base); err != nil {
		return false, err
	}
	if err := r.layouts(); err != nil {
		return false, err
	}
	kept = true
	for _, part := range []struct {
		name string
		run  func() (bool, error)
	}{
		{"rootfs", func() (bool, error) { return r.tars(ctx, runs, "base.tar", 4) }},
		{"rootfs", func() (bool, error) { return r.packed(ctx, runs) }},
		{"big", func() (bool, error) { return r.big(ctx) }},
	} {
		if only != "" && only != part.name {
			continue
		}
		ok, err := part.run()
		if err != nil {
			return false, err
		}
		kept = kept && ok
	}
	return kept, nil
}

// layouts makes images of the base, packed.
func (r *rootfs) layouts() error {
	if err := r.pack(r.base, r.path("base.tar.gz")); err != nil {
		return err
	}
	return errors.Join(
		layout(r.path("gzip"), blob{r.path("base.tar.gz"), r.base, "+gzip"}),
		layout(r.path("plain"), blob{r.base, r.base, ""}))
}

// child is this program again, so that every arm is a process.
func (r *rootfs) child(name, what string, args ...string) *arm {
	return &arm{name: name, before: fresh(r.path("out")), run: func(ctx context.Context) error {
		_, err := r.command(ctx, r.self, append([]string{"-child", what}, args...)...)
		return err
	}}
}

// tars compares ways from one tar to a file system. mke2fs has to be so many times
// slower.
func (r *rootfs) tars(ctx context.Context, runs int, name string, mke2fs float64) (bool, error) {
	tar, out := r.path(name), r.path("out/image")
	ours := r.child(name+": our ext4", "ext4", tar, out)
	bound := r.child(name+": read it, write its data", "bound", tar, out)
	untar := &arm{name: name + ": tar -x, mke2fs -d", before: fresh(r.path("out")), run: func(ctx context.Context) error {
		return r.untar(ctx, tar, r.path("out/tree"), out)
	}}
	hcsshim := &arm{name: name + ": hcsshim's tar2ext4", before: fresh(r.path("out")), run: func(ctx context.Context) error {
		_, err := r.command(ctx, r.tar2ext4, "-i", tar, "-o", out)
		return err
	}}
	if err := measure(ctx, runs, ours, bound, untar, hcsshim); err != nil {
		return false, err
	}
	kept := promise("times the bound", ratio(ours, bound), "≤", 1.6)
	kept = promise("times faster than tar -x, mke2fs -d", ratio(untar, ours), "≥", mke2fs) && kept
	return promise("times faster than tar2ext4", ratio(hcsshim, ours), "≥", 2) && kept, fresh(r.path("out"))()
}

func (r *rootfs) untar(ctx context.Context, tar, tree, out string) error {
	if err := os.Mkdir(tree, 0o755); err != nil { //nolint:gosec // a root is open to all
		return err
	}
	if _, err := r.command(ctx, "tar", "-xpf", tar, "-C", tree); err != nil {
		return err
	}
	st, err := os.Stat(tar)
	if err != nil {
		return err
	}
	_, err = r.command(ctx, "mke2fs", "-q", "-t", "ext4", "-d", tree, out, fmt.Sprintf("%dM", st.Size()*5/4>>20+64))
	return err
}

// build is the whole command: digests checked, the result read back and recorded.
func (r *rootfs) build(name, from, kind string) *arm {
	return &arm{name: name, before: fresh(r.path("out")), run: func(ctx context.Context) error {
		_, err := r.quavon(ctx, "state", "build", "rootfs", r.path(from), "-o", r.path("out/image"), "--format", kind)
		return err
	}}
}

// packed compares the whole command with decompression alone.
func (r *rootfs) packed(ctx context.Context, runs int) (bool, error) {
	ext4, erofs := r.build("quavon build rootfs, gzip", "gzip", "ext4"), r.build("quavon build rootfs, gzip, erofs", "gzip", "erofs")
	plain := r.build("quavon build rootfs, plain", "plain", "ext4")
	alone := r.child("decompress it, with the same library", "gunzip", r.path("base.tar.gz"))
	again := r.build("quavon build rootfs, again", "gzip", "ext4")
	again.before = nil
	if err := measure(ctx, runs, plain, erofs, ext4, again, alone); err != nil {
		return false, err
	}
	kept := promise("times decompression alone", ratio(ext4, alone), "≤", 1.3)
	return promise("ms to find it already there", ms(again.median()), "≤", 1000) && kept, nil
}

// big is the same for a big tree, and looks at the memory it takes.
func (r *rootfs) big(ctx context.Context) (bool, error) {
	// A process of its own makes it: the peak of a later one starts with its parent's.
	if err := r.child("", "big", r.path("big.tar")).run(ctx); err != nil {
		return false, err
	}
	kept, err := r.tars(ctx, bigRuns, "big.tar", 6)
	if err != nil {
		return false, err
	}
	if err := layout(r.path("big"), blob{r.path("big.tar"), r.path("big.tar"), ""}); err != nil {
		return false, err
	}
	for _, kind := range []string{"ext4", "erofs"} {
		if err := fresh(r.path("out"))(); err != nil {
			return false, err
		}
		state, err := r.quavon(ctx, "state", "build", "rootfs", r.path("big"), "-o", r.path("out/image"), "--format", kind)
		if err != nil {
			return false, err
		}
		usage, _ := state.SysUsage().(*syscall.Rusage)
		bound := 64 + float64(bigFiles)*300/(1<<20)
		kept = promise(fmt.Sprintf("MiB at most, %s, %d entries", kind, bigFiles), float64(usage.Maxrss)/1024, "≤", bound) && kept
	}
	return kept, nil
}
