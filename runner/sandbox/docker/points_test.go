package docker_test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"maps"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
)

// listPoints shows the places that every root has, and tries those that are for all.
const listPoints = `b=/bin/busybox
$b pwd
$b stat -c '%n %F %a %u:%g' /tmp /var/tmp /workspace /cache /home/quavon /run /etc/hosts /etc/hostname
for d in /tmp /var/tmp; do $b touch $d/new 2>/dev/null && echo $d is writable; done
$b cat /tmp/kept /var/kept /data/kept 2>/dev/null
$b grep -c localhost /etc/hosts`

// TestPoints compares what jobs find in images that lack things, or have them otherwise,
// on the backends that have images of their own and on the one whose roots we make.
func TestPoints(t *testing.T) {
	dockertest.Require(t, engine, engineErr)
	binary, err := os.ReadFile("/bin/busybox")
	if err != nil {
		need.Skip(t, "busybox-static is missing: %v", err)
	}
	usual := map[string]string{
		"/tmp": "directory 1777 0:0", "/var/tmp": "directory 1777 0:0", "/workspace": "directory 755 0:0", "/cache": "directory 755 0:0",
		"/home/quavon": "directory 700 4711:4712", "/run": "directory 755 0:0", "/etc/hosts": "regular file 644 0:0", "/etc/hostname": "regular file 644 0:0",
	}
	both := "/tmp is writable\n/var/tmp is writable\n"
	for name, c := range map[string]struct {
		config v1.Config
		has    []imagetest.Entry
		other  map[string]string
		// dir is where the step starts, "" for "/".
		dir, says string
	}{
		"bare": {config: v1.Config{WorkingDir: "/made/for/it"}, dir: "/made/for/it", says: both},
		"own": {
			has: []imagetest.Entry{
				{Type: '5', Name: "tmp", Mode: 0o750, UID: 1000, GID: 5},
				imagetest.File("tmp/kept", "kept in tmp\n"),
				{Type: '5', Name: "cache", Mode: 0o711, UID: 7},
				imagetest.Dir("var"), imagetest.File("var/kept", "kept in var\n"),
			},
			other: map[string]string{"/tmp": "directory 750 1000:5", "/cache": "directory 711 7:0"},
			says:  "/var/tmp is writable\nkept in var\n",
		},
		"all may": {
			has:   []imagetest.Entry{{Type: '5', Name: "tmp", Mode: 0o777}, imagetest.File("tmp/kept", "kept in tmp\n")},
			other: map[string]string{"/tmp": "directory 777 0:0"}, says: both + "kept in tmp\n",
		},
		"links": {
			config: v1.Config{WorkingDir: "/via/it/"}, dir: "/data/it",
			has: []imagetest.Entry{
				imagetest.Dir("data"), imagetest.File("data/kept", "kept in data\n"), imagetest.Symlink("tmp", "data"), imagetest.Symlink("cache", "/data"), imagetest.Symlink("via", "data"),
				imagetest.File("run", "in the way\n"),
			},
			says: both + "kept in data\n",
		},
	} {
		want := maps.Clone(usual)
		maps.Copy(want, c.other)
		c.config.User = "4711:4712"
		entries := append([]imagetest.Entry{imagetest.Dir("bin"), {Name: "bin/busybox", Body: string(binary), Mode: 0o755}}, c.has...)
		img := imagetest.Image(t, c.config, imagetest.Gzip(t, imagetest.Tar(t, entries...)))
		l := engine.Add(t, img)
		for backend, open := range map[string]func(*testing.T) *runner.Runner{
			docker.Runsc: func(t *testing.T) *runner.Runner { return &newBench(t, docker.Runsc, guarded(t, l, "runsc"), l).Runner },
			docker.Runc:  func(t *testing.T) *runner.Runner { return &newBench(t, docker.Runc, engine.Host, l).Runner },
			runsc.Name:   func(t *testing.T) *runner.Runner { return onStore(t, img) },
		} {
			t.Run(name+" "+backend, func(t *testing.T) {
				t.Parallel()
				got, said := pointsOf(t, open(t), l)
				if !maps.Equal(got, want) {
					t.Errorf("got  %v\nwant %v", got, want)
				}
				if want := cmp.Or(c.dir, "/") + "\n" + c.says + "2\n"; said != want {
					t.Errorf("got %q, want %q", said, want)
				}
			})
		}
	}
}

// onStore is a runner that makes the root of an image itself.
func onStore(t *testing.T, img v1.Image) *runner.Runner {
	t.Helper()
	src, err := source.File(t.Context(), imagetest.Layout(t, img), source.Select{Platform: source.Host()}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	d := statetest.Dir(t)
	store, err := image.OpenStore(d.Path("images"))
	if err == nil {
		_, _, err = store.Import(t.Context(), src, image.ImportOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return &runner.Runner{Backend: runsc.New(sandboxtest.Runsc(t), d), Guest: sandboxtest.Guest(t), Images: store, Spool: d.Path()}
}

// pointsOf runs listPoints: what is at each place, and what else was said.
func pointsOf(t *testing.T, r *runner.Runner, l *lock.File) (at map[string]string, said string) {
	t.Helper()
	var out, errOut bytes.Buffer
	res, err := r.Run(t.Context(), job.Spec{
		ID: "points-" + strings.ToLower(rand.Text()[:12]), Root: job.Root{Kind: job.RootImage, Image: l.Images[0].Platforms[0].Config},
		Steps:  []job.Step{{Argv: []string{"/bin/busybox", "sh", "-c", listPoints}}},
		Limits: job.Limits{Memory: 512 << 20, Pids: 100, Disk: 64 << 20},
	}, runner.Streams{Stdout: &out, Stderr: &errOut})
	if err != nil || res.Exit != 0 {
		t.Fatalf("%+v, %v\n%s%s", res, err, out.String(), errOut.String())
	}
	at = map[string]string{}
	for line := range strings.Lines(out.String()) {
		path, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if strings.HasPrefix(path, "/") && what != "" && !strings.HasPrefix(what, "is ") {
			at[path] = what
			continue
		}
		said += line
	}
	return at, said
}
