package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/job"
)

func TestDiffOfEachChange(t *testing.T) {
	t.Parallel()
	o := mount(t, func(dir string) {
		for _, f := range []string{"same", "touched", "edited", "gone", "chmod", "exec", "d/keep", "d/x", "gone-dir/a", "gone-dir/b/c", "again/old", "to-dir", "to-link", "dir-to-file/x", "hard", "fifo", ".git/config"} {
			write(t, filepath.Join(dir, f), "old "+f)
		}
		must(t, os.Symlink("same", dir+"/link"))
		must(t, os.Symlink("same", dir+"/link-touched"))
	})
	script := `
		touch touched; echo more >edited; rm gone; chmod 600 chmod; chmod 755 exec
		rm d/x; echo n >d/new; rm -r gone-dir; rm -r again; mkdir again; echo n >again/young
		rm to-dir; mkdir to-dir; echo n >to-dir/x; ln -sfn elsewhere to-link
		rm -r dir-to-file; echo n >dir-to-file; ln -sfn edited link; touch -h link-touched
		mkdir -p empty/deep; ln hard hard2; rm fifo; mkfifo fifo; mkfifo fifo2
		echo evil >.git/config; printf n >"$(printf 'b\377d\n')"; echo secret >locked; chmod 0 locked
		truncate -s 1M sparse`
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = o.Target
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o.Protect = []string{".git"}
	got := map[string]job.ChangeKind{}
	all := diff(t, o, true)
	for name, r := range all {
		got[name] = r.kind()
	}
	want := map[string]job.ChangeKind{
		"edited": job.Modified, "gone": job.Deleted, "exec": job.Modified, "d/x": job.Deleted, "d/new": job.Added,
		"gone-dir/": job.Deleted, "gone-dir/a": job.Deleted, "gone-dir/b/": job.Deleted, "gone-dir/b/c": job.Deleted,
		"again/old": job.Deleted, "again/young": job.Added, "to-dir": job.Deleted, "to-dir/": job.Added, "to-dir/x": job.Added,
		"to-link": job.Modified, "dir-to-file/": job.Deleted, "dir-to-file/x": job.Deleted, "dir-to-file": job.Added,
		"link": job.Modified, "empty/": job.Added, "empty/deep/": job.Added, "hard2": job.Added, "fifo": job.Deleted,
		"b\xffd": job.Added, "locked": job.Added, "sparse": job.Added,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	sum := sha256.Sum256([]byte("old edited"))
	pax := all["edited"].header.PAXRecords
	if pax[agent.PAXOldSHA256] != hex.EncodeToString(sum[:]) || pax[agent.PAXOldSize] != "10" || pax[agent.PAXOldMode] != "100644" {
		t.Errorf("records of the old file: %v", pax)
	}
	if all["hard2"].content != "old hard" || all["locked"].content != "secret\n" || all["to-link"].header.Linkname != "elsewhere" {
		t.Error("content of hard2, locked or to-link is wrong")
	}
	for name, r := range diff(t, o, false) {
		if r.content != "" || r.kind() != want[name] || r.header.PAXRecords[agent.PAXOldSHA256] != "" {
			t.Errorf("%q without content: %v, %d bytes", name, r.header, len(r.content))
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("missing without content: %v", want)
	}
}

// A mount on top of the overlay is no change of the overlay.
func TestDiffLeavesOtherMountsOut(t *testing.T) {
	t.Parallel()
	o := mount(t, func(dir string) { write(t, dir+"/d/sub/file", "x") })
	write(t, o.Target+"/d/sub/new", "y")
	sub := o.Target + "/d/sub"
	must(t, syscall.Mount("tmpfs", sub, "tmpfs", 0, ""))
	defer syscall.Unmount(sub, syscall.MNT_DETACH)
	if got := diff(t, o, true); len(got) != 0 {
		t.Errorf("changes below a mount: %v", got)
	}
}

func TestDiffLimits(t *testing.T) {
	t.Parallel()
	o := mount(t, func(string) {})
	write(t, o.Target+"/a", "12345")
	write(t, o.Target+"/b", "12345")
	for _, tc := range []struct {
		lim  Limits
		what string
	}{
		{Limits{Bytes: 10, Entries: 2}, ""},
		{Limits{Bytes: 9, Entries: 2}, "bytes"},
		{Limits{Bytes: 10, Entries: 1}, "entries"},
	} {
		err := Diff(o, true, &bytes.Buffer{}, tc.lim)
		var limit *LimitError
		if tc.what == "" && err != nil {
			t.Errorf("%+v: %v", tc.lim, err)
		}
		if tc.what != "" && (!errors.As(err, &limit) || limit.What != tc.what || limit.Path != "b") {
			t.Errorf("%+v: got %v, want a limit on %s at b", tc.lim, err, tc.what)
		}
	}
}

// Any sequence of operations gives the changes that comparing both trees in
// full gives.
func TestDiffEqualsFullComparison(t *testing.T) {
	t.Parallel()
	runs := 60
	if testing.Short() {
		runs = 10
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(seed), 7))
			o := mount(t, func(dir string) {
				for range 40 {
					mutate(r, dir)
				}
			})
			before := tree(t, o.Lower)
			for range 1 + r.IntN(60) {
				mutate(r, o.Target)
			}
			after := tree(t, o.Target)
			checkDiff(t, before, after, diff(t, o, true))
		})
	}
}

// checkDiff compares a diff's entries with what two trees say.
func checkDiff(t *testing.T, before, after map[string]string, got map[string]record) {
	t.Helper()
	want := map[string]string{}
	for path, desc := range after {
		switch old, was := before[path]; {
		case !was:
			want[path] = string(job.Added) + " " + desc
		case old != desc:
			want[path] = string(job.Modified) + " " + desc
		}
	}
	for path := range before {
		if _, is := after[path]; !is {
			want[path] = string(job.Deleted)
		}
	}
	have := map[string]string{}
	for path, r := range got {
		have[path] = string(r.kind())
		if r.kind() != job.Deleted {
			have[path] += " " + describe(r)
		}
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Error(d)
	}
}

// describe gives an entry the form that tree gives a file.
func describe(r record) string {
	switch {
	case r.header.FileInfo().IsDir():
		return "directory"
	case r.header.Linkname != "":
		return "link " + r.header.Linkname
	case r.header.Mode&0o100 != 0:
		return "executable " + r.content
	}
	return "file " + r.content
}

// mutate does one random thing to a tree; what the kernel refuses is no matter.
// Few names make collisions, replacements and type changes likely.
func mutate(r *rand.Rand, dir string) {
	pick := func() string {
		parts := []string{dir}
		for range 1 + r.IntN(3) {
			parts = append(parts, []string{"a", "b", "a-b", "a.b", "c", "ü\xff"}[r.IntN(6)])
		}
		return strings.Join(parts, "/")
	}
	p, q := pick(), pick()
	switch r.IntN(12) {
	case 0, 1, 2:
		os.MkdirAll(filepath.Dir(p), 0o755)
		os.WriteFile(p, []byte(fmt.Sprint(r.IntN(3))), 0o644)
	case 3, 4:
		os.MkdirAll(p, 0o755)
	case 5:
		os.Remove(p)
	case 6:
		os.RemoveAll(p)
	case 7:
		os.Rename(p, q)
	case 8:
		os.Chmod(p, []os.FileMode{0o644, 0o755, 0o600}[r.IntN(3)])
	case 9:
		os.Remove(p)
		os.Symlink(filepath.Base(q), p)
	case 10:
		os.Link(p, q)
	case 11:
		exec.Command("mv", "-T", p, q).Run() // copies where the kernel won't rename
	}
}
