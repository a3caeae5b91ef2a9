package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	fastgzip "github.com/klauspost/compress/gzip"
)

// images is what the parts of the benchmark share.
type images struct {
	bin, base, dir string
	// states is where state directories go, not below a directory that others write to.
	states string
}

// prepare makes the layouts that are imported, and unpacks the root.
func (b *images) prepare(ctx context.Context) error {
	if _, err := os.Stat(b.base); err != nil {
		return err
	}
	if err := b.pack(b.base, b.path("debian.tar.gz")); err != nil {
		return err
	}
	if err := many(b.path("many.tar"), manyEntries); err != nil {
		return err
	}
	if err := b.pack(b.path("many.tar"), b.path("many.tar.gz")); err != nil {
		return err
	}
	for name, blob := range map[string]blob{
		"gzip":  {b.path("debian.tar.gz"), b.base, "+gzip"},
		"plain": {b.base, b.base, ""},
		"many":  {b.path("many.tar.gz"), b.path("many.tar"), "+gzip"},
	} {
		if err := layout(b.path(name), blob); err != nil {
			return err
		}
	}
	if err := os.Mkdir(b.path("root"), 0o755); err != nil { //nolint:gosec // a root is open to all
		return err
	}
	if _, err := b.command(ctx, "tar", "-xf", b.base, "-C", b.path("root")); err != nil {
		return err
	}
	_, err := b.quavon(ctx, "state", "images", "import", "--name", "debian", b.path("gzip"))
	return err
}

// imports takes the image in again and again.
func (b *images) imports(ctx context.Context, runs int) (bool, error) {
	in := func(name string) *arm {
		return &arm{name: "quavon images import, " + name, before: fresh(b.path("again")), run: func(ctx context.Context) error {
			_, err := b.quavon(ctx, "again", "images", "import", b.path(name))
			return err
		}}
	}
	packed, plain := in("gzip"), in("plain")
	ungzip := &arm{name: "decompress it, with the same library", run: func(context.Context) error {
		return unpack(b.path("debian.tar.gz"))
	}}
	gzipd := &arm{name: "gzip -dc", run: func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, "gzip", "-dc", b.path("debian.tar.gz"))
		cmd.Stdout = io.Discard
		return cmd.Run()
	}}
	untar := &arm{name: "tar -x", before: fresh(b.path("untar")), run: func(ctx context.Context) error {
		_, err := b.command(ctx, "tar", "-xf", b.base, "-C", b.path("untar"))
		return err
	}}
	if err := measure(ctx, runs, packed, ungzip, gzipd, plain, untar); err != nil {
		return false, err
	}
	kept := promise("times decompression alone", ratio(packed, ungzip), "≤", 1.3)
	return promise("times tar -x, for a plain layer", ratio(plain, untar), "≤", 1.0) && kept, nil
}

// manyEntries is enough for memory by the entry to show.
const manyEntries = 200_000

// memory looks at the peak of imports.
func (b *images) memory(ctx context.Context, _ int) (bool, error) {
	kept := true
	for name, entries := range map[string]int{"gzip": 8_700, "many": manyEntries} {
		if err := fresh(b.path("again"))(); err != nil {
			return false, err
		}
		state, err := b.quavon(ctx, "again", "images", "import", b.path(name))
		if err != nil {
			return false, err
		}
		usage, _ := state.SysUsage().(*syscall.Rusage)
		bound := 64 + float64(entries)*300/(1<<20)
		kept = promise(fmt.Sprintf("MiB at most, with %d entries", entries), float64(usage.Maxrss)/1024, "≤", bound) && kept
	}
	return kept, nil
}

// use runs jobs in the image and in the directory.
func (b *images) use(ctx context.Context, runs int) (bool, error) {
	image := func(name string, argv ...string) *arm {
		return &arm{name: "quavon run --image, " + name, run: func(ctx context.Context) error {
			_, err := b.quavon(ctx, "state", append([]string{"run", "--image", "debian", "-w", "none", "--"}, argv...)...)
			return err
		}}
	}
	directory := func(name string, argv ...string) (*arm, error) {
		bundle := b.path("bundle-" + name)
		n := 0
		return &arm{name: "stock runsc run, directory, " + name, run: func(ctx context.Context) error {
			n++
			_, err := b.command(ctx, filepath.Join(b.bin, "runsc"), "--root="+b.path("runsc"), "--platform=systrap", "--network=none",
				"run", "--bundle="+bundle, fmt.Sprintf("bench-%s-%d", name, n))
			return err
		}}, writeBundle(bundle, b.path("root"), argv)
	}
	start := image("true", "/bin/true")
	bareStart, err1 := directory("true", "/bin/true")
	find := []string{"/usr/bin/find", "/usr"}
	read := image("find", find...)
	bareRead, err2 := directory("find", find...)
	if err := errors.Join(err1, err2); err != nil {
		return false, err
	}
	if err := measure(ctx, runs, start, bareStart, read, bareRead); err != nil {
		return false, err
	}
	kept := promise("times stock runsc with a directory, start", ratio(start, bareStart), "≤", 1.15)
	return promise("times as fast as a directory, find /usr", ratio(bareRead, read), "≥", 1.3) && kept, nil
}

// quavon runs it with a state directory of the benchmark's own.
func (b *images) quavon(ctx context.Context, state string, args ...string) (*os.ProcessState, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "quavon"), args...)
	cmd.Env = append(os.Environ(), "QUAVON_STATE_DIR="+filepath.Join(b.states, state))
	return run(cmd)
}

func (b *images) command(ctx context.Context, name string, args ...string) (*os.ProcessState, error) {
	return run(exec.CommandContext(ctx, name, args...))
}

// run runs cmd with pipes, as runsc needs, and puts stderr into the error.
func run(cmd *exec.Cmd) (*os.ProcessState, error) {
	_, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, exit.Stderr)
	}
	return cmd.ProcessState, err
}

func writeBundle(dir, root string, argv []string) error {
	spec := map[string]any{
		"ociVersion": "1.1.0",
		"process": map[string]any{
			"args": argv, "cwd": "/", "env": []string{"PATH=/usr/bin:/bin"}, "user": map[string]int{"uid": 0, "gid": 0},
		},
		"root":   map[string]any{"path": root},
		"mounts": []map[string]any{{"destination": "/proc", "type": "proc", "source": "proc"}},
		"linux": map[string]any{"namespaces": []map[string]string{
			{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"},
		}},
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600)
}

// unpack decompresses a file and nothing else.
func unpack(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := fastgzip.NewReader(bufio.NewReaderSize(f, 64<<10))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r) //nolint:gosec // our own file
	return err
}

func (b *images) pack(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	w := gzip.NewWriter(out)
	if _, err := io.Copy(w, in); err != nil {
		return err
	}
	return errors.Join(w.Close(), out.Close())
}

// many writes a tar of n small files with names of usual length.
func many(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := bufio.NewWriterSize(f, 1<<20)
	w := tar.NewWriter(buf)
	for i := range n {
		h := &tar.Header{Typeflag: tar.TypeReg, Mode: 0o644, Size: 5}
		h.Name = fmt.Sprintf("usr/lib/node_modules/dir%04d/some-file-%06d.txt", i/500, i)
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "hello"); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), buf.Flush(), f.Close())
}
