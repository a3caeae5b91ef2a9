package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

func writeBack(t *testing.T, d *Diff, b Base, keep bool) Report {
	t.Helper()
	r, err := d.WriteBack(context.Background(), b, keep)
	if err != nil {
		t.Fatalf("%v (hint: %s)", err, fault.Hint(err))
	}
	return r
}

// Any edits of any tree are written back exactly, empty directories included.
func TestWriteBackOfRandomEdits(t *testing.T) {
	t.Parallel()
	runs := 60
	if testing.Short() {
		runs = 10
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(seed), 5))
			j := newJob(t, "")
			for range 30 {
				edit(r, j.host)
			}
			j.restart()
			for range 1 + r.IntN(30) {
				edit(r, j.view)
			}
			before, want := tree(t, j.host, true), tree(t, j.view, true)
			d := j.diff()
			report := writeBack(t, d, j.base(), false)
			if diff := cmp.Diff(want, tree(t, j.host, true)); diff != "" {
				t.Fatal(diff)
			}
			if len(report.Skipped) > 0 || cmp.Diff(before, want) == "" && len(report.Written) > 0 {
				t.Errorf("%+v", report)
			}
		})
	}
}

func TestWriteBackOwnersAndModes(t *testing.T) {
	t.Parallel()
	j := newJob(t, "chown 1234:2345 .; echo x >edited; chown 77:88 edited; mkdir ro; chmod 555 ro")
	j.do(`echo y >edited; chmod 4755 edited; echo n >new; chmod 6711 new; mkdir -m 1777 dir; echo x >dir/f
		ln -s /etc/passwd link; echo x >ro/f; touch -d 2001-01-01 new; touch -d 2101-01-01 dir/f; mkdir -m 500 dir/locked; echo x >dir/locked/f`)
	writeBack(t, j.diff(), j.base(), false)
	for name, want := range map[string]string{
		"edited": "-rwxr-xr-x 77:88", "new": "-rwx--x--x 1234:2345", "dir": "drwxrwxrwx 1234:2345", "dir/f": "-rw-r--r-- 1234:2345",
		"link": "Lrwxrwxrwx 1234:2345", "ro": "dr-xr-xr-x 0:0", "ro/f": "-rw-r--r-- 1234:2345", "dir/locked": "dr-x------ 1234:2345",
	} {
		fi, err := os.Lstat(filepath.Join(j.host, name))
		must(t, err)
		st := fi.Sys().(*syscall.Stat_t)
		if got := fmt.Sprintf("%v %d:%d", fi.Mode(), st.Uid, st.Gid); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	old, _ := os.Stat(j.host + "/new")
	future, _ := os.Stat(j.host + "/dir/f")
	if old.ModTime().Year() != 2001 || future.ModTime().After(time.Now()) {
		t.Errorf("times %v and %v", old.ModTime(), future.ModTime())
	}
}

func TestWriteBackLeavesGitsOwnDataOut(t *testing.T) {
	t.Parallel()
	j := newJob(t, "git init -q . 2>/dev/null || mkdir .git; mkdir -p sub/.git gone/.git keep; echo x >gone/.git/c; echo k >keep/f")
	j.do(`echo evil >.git/config; mkdir -p sub/.GIT n; echo evil >sub/.git/hook; echo evil >sub/.GIT/config; rm -r gone; echo ok >ok
		echo k2 >keep/f; mkdir .quavon-write-x; echo x >.quavon-write-x/replaced; echo e >n/'.git .'; echo e >'n/GIT~1'; echo "e" >"n/.g$(printf '\342\200\214')it"`)
	before := tree(t, j.host, true)
	b := j.base()
	b.Protect = []string{"keep/"}
	report := writeBack(t, j.diff(), b, false)
	before["ok"], before["n/"] = "file ok\n", "directory"
	if d := cmp.Diff(before, tree(t, j.host, true)); d != "" {
		t.Error(d)
	}
	var skipped []string
	for _, s := range report.Skipped {
		skipped = append(skipped, s.Path)
	}
	want := []string{
		".git/config", ".quavon-write-x/", ".quavon-write-x/replaced", "gone/", "gone/.git/", "gone/.git/c",
		"keep/f", "n/.git .", "n/.g\u200cit", "n/GIT~1", "sub/.GIT/", "sub/.GIT/config", "sub/.git/hook",
	}
	if d := cmp.Diff(want, skipped); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]job.Change{{Path: "n/", Kind: job.Added}, {Path: "ok", Kind: job.Added}}, report.Written); d != "" {
		t.Error(d)
	}
}

func TestWriteBackConflicts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ host, conflict string }{
		"edited":             {"echo other >f", "f"},
		"touched":            {"touch f", "f"},
		"time set back":      {"echo HOST >f; touch -d 2001-01-01 f", "f"},
		"removed":            {"rm f", "f"},
		"now a link":         {"ln -sf /etc/passwd f", "f"},
		"now a fifo":         {"rm f; mkfifo f", "f"},
		"now a dir":          {"rm f; mkdir f", "f"},
		"made too":           {"echo x >new", "new"},
		"deleted and edited": {"echo other >gone", "gone"},
		"parent is link":     {"mv d e; ln -s e d", "d/x"},
		"link planted":       {"ln -s /tmp made", "made/"},
		"file in dir":        {"echo x >swap/more", "swap"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "echo host >f; echo g >gone; mkdir d swap; echo x >d/x; echo x >swap/x")
			j.do("echo job >f; echo job >new; echo job >d/x; rm gone; mkdir made; echo x >made/x; rm -r swap; echo x >swap; echo fine >other")
			d := j.diff()
			sh(t, j.host, tc.host)
			before := tree(t, j.host, true)
			report, err := d.WriteBack(context.Background(), j.base(), false)
			if err == nil || fault.Hint(err) == "" || report.Written != nil || len(report.Conflicts) == 0 || report.Conflicts[0].Path != tc.conflict {
				t.Fatalf("%v, %+v", err, report)
			}
			if diff := cmp.Diff(before, tree(t, j.host, true)); diff != "" {
				t.Error("something was written:", diff)
			}
			writeBack(t, d, j.base(), true)
			after := tree(t, j.host, true)
			if after["other"] != "file fine\n" || after[tc.conflict] != before[tc.conflict] {
				t.Errorf("with conflicts kept: %v", after)
			}
		})
	}
}

// When a rename fails in the middle, what was done is taken back.
func TestWriteBackIsUndone(t *testing.T) {
	t.Parallel()
	j := newJob(t, "echo a >a; mkdir gone d; echo g >gone/g; chmod 750 gone; echo z >z; ln a hard")
	j.do("echo A >a; rm -r gone; echo n >new; mkdir n2; echo x >n2/x; ln -s x l; echo Z >z; echo H >hard; echo d >d/f")
	before := tree(t, j.host, true)
	h, err := openHost(j.base())
	must(t, err)
	defer h.Close()
	p := newPlan(h, j.base())
	must(t, p.check(context.Background(), j.diff().Entries))
	last := len(p.makes) - 1
	p.makes[last].was = p.makes[0].was // as if z had been replaced
	if err := p.apply(context.Background()); err == nil || !strings.Contains(err.Error(), "z: ") {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, tree(t, j.host, true)); diff != "" {
		t.Error(diff)
	}
	if fi, err := os.Stat(j.host + "/gone"); err != nil || fi.Mode().Perm() != 0o750 {
		t.Errorf("%v, %v", fi, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("stop")
	cancel(stop)
	if err := p.apply(ctx); !errors.Is(err, stop) {
		t.Error(err)
	}
	if diff := cmp.Diff(before, tree(t, j.host, true)); diff != "" {
		t.Error(diff)
	}
}

func TestWriteBackAfterAnInterruptedOne(t *testing.T) {
	t.Parallel()
	j := newJob(t, "mkdir -m 700 .quavon-write-1; echo x >.quavon-write-1/0")
	j.do("echo n >new")
	writeBack(t, j.diff(), j.base(), false)
	if _, err := os.Stat(j.host + "/.quavon-write-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("what was only prepared is still there")
	}
	sh(t, j.host, "rm new; mkdir -m 700 .quavon-write-2; mkdir .quavon-write-2/replaced; echo mine >.quavon-write-2/replaced/0")
	_, err := j.diff().WriteBack(context.Background(), j.base(), false)
	if err == nil || !strings.Contains(fault.Hint(err), ".quavon-write-2/replaced") {
		t.Errorf("%v", err)
	}
}

func TestWriteBackElsewhere(t *testing.T) {
	t.Parallel()
	j := newJob(t, "mkdir mnt")
	j.do("echo x >mnt/x")
	d := j.diff()
	must(t, syscall.Mount("tmpfs", j.host+"/mnt", "tmpfs", 0, ""))
	defer syscall.Unmount(j.host+"/mnt", syscall.MNT_DETACH)
	report, err := d.WriteBack(context.Background(), j.base(), false)
	if err == nil || len(report.Conflicts) != 1 || report.Conflicts[0].Why != whyOtherDisk {
		t.Errorf("%v, %+v", err, report)
	}
}
