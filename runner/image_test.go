package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/workspace"
	"github.com/quavon/quavon/test/need"
)

// addImage puts an image of busybox into the bench's store.
func (b *bench) addImage(t *testing.T, c v1.Config, more ...it.Entry) string {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		need.Skip(t, "busybox-static is missing: %v", err)
	}
	entries := []it.Entry{it.Dir("bin"), {Name: "bin/busybox", Body: string(busybox), Mode: 0o755}}
	for _, applet := range []string{"sh", "cat", "echo", "id", "env", "ls", "touch", "mkdir", "rm", "stat", "grep", "chown", "ps", "pwd", "ln", "chroot", "mount", "dd"} {
		entries = append(entries, it.Link("bin/"+applet, "bin/busybox"))
	}
	entries = append(entries, it.Dir("etc"), it.File("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/app:/bin/sh\n"),
		it.Dir("root"), it.Entry{Type: '5', Name: "app", Mode: 0o755, UID: 1000, GID: 1000}, it.File("etc/given", "given\n"))
	img := it.Image(t, c, it.Gzip(t, it.Tar(t, append(entries, more...)...)))
	src, err := source.File(t.Context(), it.Layout(t, img), source.Select{Platform: source.Host()}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if b.Images == nil {
		if b.Images, err = image.OpenStore(filepath.Join(t.TempDir(), "images")); err != nil {
			t.Fatal(err)
		}
	}
	r, _, err := b.Images.Import(t.Context(), src, image.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Config.String()
}

// inImage runs scripts in an image and returns what they print.
func (b *bench) inImage(t *testing.T, root job.Root, mounts []job.Mount, scripts ...string) string {
	t.Helper()
	s := b.spec(scripts...)
	s.Root, s.Mounts = root, mounts
	res, err := b.run(t.Context(), s)
	if err != nil || res.Exit != 0 {
		t.Fatalf("result %+v, %v; stdout %q, stderr %q", res, err, b.stdout.String(), b.stderr.String())
	}
	return b.stdout.String()
}

func TestImageUserAndEnvironment(t *testing.T) {
	t.Parallel()
	const show = `id -u; id -g; echo $HOME; echo $PATH; echo $A; pwd; touch /etc/new 2>/dev/null && echo root writes; touch $HOME/x && echo home; cat /etc/hosts | grep -c localhost`
	usual := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for name, c := range map[string]struct {
		config v1.Config
		user   string
		want   string
	}{
		"root":             {v1.Config{}, "", "0 0 /root " + usual + "  / root writes home 2"},
		"a user":           {v1.Config{User: "app", WorkingDir: "/app", Env: []string{"A=b", "PATH=/bin"}}, "", "1000 1000 /app /bin b /app home 2"},
		"another":          {v1.Config{User: "app", WorkingDir: "/made/for/it"}, "4000:50", "4000 50 /home/quavon " + usual + "  /made/for/it home 2"},
		"root, told so":    {v1.Config{User: "app"}, "root", "0 0 /root " + usual + "  / root writes home 2"},
		"the usual job id": {v1.Config{}, "60000:60000", "60000 60000 /home/quavon " + usual + "  / home 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			id := b.addImage(t, c.config)
			got := b.inImage(t, job.Root{Kind: job.RootImage, Image: id, User: c.user}, nil, show)
			if got := strings.ReplaceAll(strings.TrimSpace(got), "\n", " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestImageRootStaysClean writes all over the root; the next job sees nothing of it.
func TestImageRootStaysClean(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	root := job.Root{Kind: job.RootImage, Image: b.addImage(t, v1.Config{})}
	b.inImage(t, root, nil, `echo changed >/etc/given; rm -r /app; mkdir -p /opt/x/y; echo z >/opt/x/y/z; ln -s / /l; cat /etc/given`)
	b.stdout.Reset()
	if got := b.inImage(t, root, nil, `cat /etc/given; ls -d /app /opt /l 2>/dev/null; ls /`); got != "given\n/app\napp\nbin\ncache\ndev\netc\nhome\nproc\nroot\nrun\nsys\ntmp\nvar\nworkspace\n" {
		t.Errorf("got %q", got)
	}
	r, err := b.Images.Find(root.Image)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Images.Verify(t.Context(), r, true); err != nil {
		t.Error(err)
	}
}

// TestImageJobIsConfined tries to get out of the root that the agent made.
func TestImageJobIsConfined(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	root := job.Root{Kind: job.RootImage, Image: b.addImage(t, v1.Config{})}
	got := b.inImage(t, root, nil, `
		grep -E 'Cap(Eff|Prm|Bnd|Inh|Amb)' /proc/self/status | grep -vc 0000000000000000
		ls /.quavon >/dev/null 2>&1 || echo closed
		ls /proc/1/root/ >/dev/null 2>&1 || echo no other root
		cat /proc/1/environ >/dev/null 2>&1 || echo no environment
		chroot / true 2>/dev/null || echo no chroot
		mount -t tmpfs t /tmp 2>/dev/null || echo no mount
		chown 1000 /etc/given 2>/dev/null || echo no chown
		cat /proc/1/fd/1 >/dev/null 2>&1 || echo no stream
		grep -c quavon /proc/mounts`)
	want := "0\nclosed\nno other root\nno environment\nno chroot\nno mount\nno chown\nno stream\n"
	if !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Log(got)
}

// TestImageWorkspace changes the workspace as the image's user, whoever that is.
func TestImageWorkspace(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"0", "1000:1000", "60000:60000"} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if err := os.Chown(b.dir, 4711, 4711); err != nil {
				t.Fatal(err)
			}
			root := job.Root{Kind: job.RootImage, Image: b.addImage(t, v1.Config{WorkingDir: "/app"}), User: user}
			s := b.spec(`pwd; echo more >>new && stat -c %u . && ls`)
			s.Root, s.Changes = root, job.ChangesList
			var changed []string
			res, err := b.run(t.Context(), s)
			if err != nil || res.Exit != 0 {
				t.Fatalf("%+v, %v, %s", res, err, b.stderr.String())
			}
			for _, c := range res.Changes {
				changed = append(changed, c.Path)
			}
			uid, _, _ := strings.Cut(user, ":")
			if got := b.stdout.String(); got != "/workspace\n"+uid+"\ngiven\nnew\n" || strings.Join(changed, " ") != "new" {
				t.Errorf("got %q, changed %v", got, changed)
			}
			_ = workspace.Diff{}
		})
	}
}

// TestImageLimits fills the disk by way of the root.
func TestImageLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.spec(`dd if=/dev/zero of=/etc/big bs=1M count=64 2>/dev/null; echo $?`)
	s.Root, s.Mounts = job.Root{Kind: job.RootImage, Image: b.addImage(t, v1.Config{})}, nil
	s.Limits.Disk = 16 << 20
	res, err := b.run(t.Context(), s)
	if err != nil || b.stdout.String() != "1\n" || len(res.LimitsHit) != 1 || res.LimitsHit[0] != string(job.ReasonLimitDisk) {
		t.Errorf("%+v, %v, %q", res, err, b.stdout.String())
	}
}

func TestImageRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.addImage(t, v1.Config{})
	agent := b.addImage(t, v1.Config{User: "65533"})
	for name, c := range map[string]struct {
		root job.Root
		code job.Reason
	}{
		"unknown":            {job.Root{Image: "sha256:" + strings.Repeat("0", 64)}, job.ReasonImageUnknown},
		"no such user":       {job.Root{Image: id, User: "nobody"}, job.ReasonRejected},
		"the agent's id":     {job.Root{Image: agent}, job.ReasonRejected},
		"the agent's group":  {job.Root{Image: id, User: "0:65533"}, job.ReasonRejected},
		"no user, no digest": {job.Root{Image: "busybox"}, job.ReasonRejected},
	} {
		t.Run(name, func(t *testing.T) {
			s := b.spec("true")
			s.Root = c.root
			s.Root.Kind = job.RootImage
			_, err := b.run(t.Context(), s)
			if fault.Code(err) != string(c.code) || fault.Hint(err) == "" {
				t.Errorf("got %v (%s), want %s", err, fault.Code(err), c.code)
			}
		})
	}
}
