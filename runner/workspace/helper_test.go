package workspace

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quavon/quavon/runner/guest/files"
	"github.com/quavon/quavon/test/need"
)

var plenty = Limits{Bytes: 1 << 30, Entries: 1 << 20}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// jobRun is a host directory with a kernel overlay in place of a sandbox.
type jobRun struct {
	t testing.TB
	// host is what the user has, view what the job sees.
	host, view, spool string
	overlay           files.Overlay
	started           time.Time
}

// newJob makes the host directory with a shell script and shows it to a job.
func newJob(t testing.TB, script string) *jobRun {
	t.Helper()
	need.That(t, os.Geteuid() == 0, "root, to mount an overlay")
	base := t.TempDir()
	must(t, syscall.Mount("tmpfs", base, "tmpfs", 0, "mode=0755"))
	t.Cleanup(func() { syscall.Unmount(base, syscall.MNT_DETACH) })
	j := &jobRun{t: t, host: base + "/host", view: base + "/view", spool: base + "/spool"}
	for _, d := range []string{j.host, j.view, j.spool, base + "/upper", base + "/work"} {
		must(t, os.Mkdir(d, 0o755))
	}
	sh(t, j.host, script)
	j.overlay = files.Overlay{Lower: j.host, Upper: base + "/upper", Target: j.view}
	j.start()
	return j
}

// start shows the host directory, as it is now, to the job.
func (j *jobRun) start() {
	j.t.Helper()
	opts := "redirect_dir=off,metacopy=off,index=off,lowerdir=" + j.host + ",upperdir=" + j.overlay.Upper + ",workdir=" + filepath.Dir(j.host) + "/work"
	must(j.t, syscall.Mount("overlay", j.view, "overlay", 0, opts))
	j.t.Cleanup(func() { syscall.Unmount(j.view, syscall.MNT_DETACH) })
	j.started = time.Now()
}

// restart is start after the host directory was changed.
func (j *jobRun) restart() {
	j.t.Helper()
	must(j.t, syscall.Unmount(j.view, syscall.MNT_DETACH))
	j.start()
}

// do runs a script as the job would.
func (j *jobRun) do(script string) { j.t.Helper(); sh(j.t, j.view, script) }

func (j *jobRun) base() Base { return Base{Dir: j.host, Since: j.started} }

// diff takes the changes as a run would.
func (j *jobRun) diff() *Diff {
	j.t.Helper()
	var buf bytes.Buffer
	must(j.t, files.Diff(j.overlay, true, &buf, files.Limits(plenty)))
	d, err := Read(context.Background(), &buf, j.spool, plenty)
	must(j.t, err)
	j.t.Cleanup(func() { d.Close() })
	return d
}

func sh(t testing.TB, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, script)
	}
}

// tree maps paths to what git would keep of them, plus directories when asked.
func tree(t testing.TB, dir string, dirs bool) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, dir+"/")
		if err != nil || path == dir {
			return err
		}
		if rel == ".git" {
			return fs.SkipDir
		}
		fi, err := e.Info()
		must(t, err)
		mode, _ := modeOf(fi)
		switch {
		case mode.isFile():
			b, err := os.ReadFile(path)
			must(t, err)
			all[rel] = map[Mode]string{ModeFile: "file ", ModeExec: "executable "}[mode] + string(b)
		case mode == ModeLink:
			link, err := os.Readlink(path)
			must(t, err)
			all[rel] = "link " + link
		case mode == ModeDir && dirs:
			all[rel+"/"] = "directory"
		}
		return nil
	}))
	return all
}
