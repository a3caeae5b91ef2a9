package imagebuild_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild"
	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/imagebuild/engine"
	"github.com/quavon/quavon/imagebuild/engine/enginetest"
	"github.com/quavon/quavon/runner/image"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/test/need"
)

// project is a directory with a declaration, built by one engine.
type project struct {
	t     *testing.T
	dir   string
	host  string
	repo  name.Repository
	store *image.Store
	// set changes the builder of one run.
	set func(*imagebuild.Builder)
}

const dpkgStatus = "Package: busybox\nStatus: install ok installed\nArchitecture: all\nVersion: %s\n"

// pushBase stores a small base with a shell in the registry.
func pushBase(t *testing.T, repo name.Repository, version string) string {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	need.That(t, err == nil, "busybox-static")
	entries := []it.Entry{it.Dir("bin"), {Name: "bin/busybox", Body: string(busybox), Mode: 0o755}}
	for _, applet := range []string{"sh", "cat", "date", "sleep", "mkdir"} {
		entries = append(entries, it.Entry{Type: '1', Name: "bin/" + applet, Link: "bin/busybox", Mode: 0o755})
	}
	entries = append(entries, it.File("var/lib/dpkg/status", fmt.Sprintf(dpkgStatus, version)))
	return it.Push(t, repo, it.Image(t, v1.Config{}, it.Gzip(t, it.Tar(t, entries...))))
}

func newProject(t *testing.T, host string) *project {
	t.Helper()
	store, err := image.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &project{t: t, dir: t.TempDir(), host: host, repo: it.Registry(t), store: store}
	p.declare(pushBase(t, p.repo, "1"))
	p.write("tools/Dockerfile", "ARG BASE\nFROM $BASE\nCOPY hello /\nRUN date +%N >/when\n")
	p.write("tools/hello", "hello\n")
	return p
}

func (p *project) declare(base string) {
	p.write("images.yaml", fmt.Sprintf(`schemaVersion: 1
bases:
  busybox: {ref: %q}
images:
  brought: {ref: %[1]q, platforms: [%[2]s]}
  tools:
    context: tools
    bases: {BASE: busybox}
    platforms: [%[2]s, linux/riscv64]
    artefacts: [{kind: ext4, free: 1MiB}]
`, base, source.Host()))
}

func (p *project) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) lockFile() string { return filepath.Join(p.dir, lock.DefaultName) }

func (p *project) read(name string) string {
	p.t.Helper()
	raw, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(raw)
}

func (p *project) builder() *imagebuild.Builder {
	p.t.Helper()
	d, err := declare.Read(filepath.Join(p.dir, "images.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	b := &imagebuild.Builder{
		Declaration: d, Lock: p.lockFile(), Store: p.store, Version: "test",
		Connect: func(ctx context.Context) (*engine.Engine, error) { return engine.Connect(ctx, p.host) },
	}
	if p.set != nil {
		p.set(b)
	}
	p.t.Cleanup(func() { _ = b.Close() })
	return b
}

func (p *project) engine() *engine.Engine {
	p.t.Helper()
	e, err := engine.Connect(p.t.Context(), p.host)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = e.Close() })
	return e
}

func (p *project) run(trial bool, names ...string) *imagebuild.Result {
	p.t.Helper()
	r, err := p.builder().Run(p.t.Context(), names, trial)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *project) stale() []imagebuild.Stale {
	p.t.Helper()
	stale, err := p.builder().Check(p.t.Context(), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return stale
}

func TestBuild(t *testing.T) {
	t.Parallel()
	host := enginetest.Start(t)
	for name, test := range map[string]func(*testing.T, *project){
		"again": again, "trial": trial, "base changes": baseChanges, "lost": lost, "tidy": tidy, "names": names, "failed": failed, "cancelled": cancelled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newProject(t, host))
		})
	}
}

// again builds once, and then nothing.
func again(t *testing.T, p *project) {
	r := p.run(false)
	if r.Made != 2 || !r.Changed {
		t.Fatalf("the first run made %d", r.Made)
	}
	img, pl := r.After.Find("tools", source.Host())
	if img == nil || img.Source != lock.SourceDockerDaemon || img.Ref != "quavon/tools" || len(pl.DiffIDs) != 3 || len(pl.Base) != 1 ||
		len(pl.Artefacts) != 1 || pl.SBOM == nil || pl.Size == 0 || img.SourceDigest == "" {
		t.Errorf("locked: %+v", img)
	}
	first := p.read(lock.DefaultName)
	var told []string
	p.set = func(b *imagebuild.Builder) { b.Events = func(e imagebuild.Event) { told = append(told, e.Text) } }
	r = p.run(false)
	if r.Made != 0 || r.Changed || len(told) > 0 { // it does nothing that would be worth a word
		t.Errorf("the second run made %d, changed: %v: %q", r.Made, r.Changed, told)
	}
	p.set = nil
	if d := cmp.Diff(first, p.read(lock.DefaultName)); d != "" {
		t.Error(d)
	}
	if stale := p.stale(); len(stale) > 0 {
		t.Errorf("stale: %v", stale)
	}
	record, err := p.store.Find("tools")
	if err != nil || record.Config.String() != pl.Config {
		t.Errorf("in the store: %v, %v", record, err)
	}
	if !strings.Contains(p.read(pl.SBOM.Path), "pkg:deb/unknown/busybox@1?arch=all") {
		t.Error("the list of packages lacks one")
	}
	if left, _ := os.ReadDir(p.store.Scratch()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// trial shows an upgrade, which the next run takes over as it was shown.
func trial(t *testing.T, p *project) {
	p.run(false)
	first := p.read(lock.DefaultName)
	p.write("tools/hello", "hello again\n")
	if stale := p.stale(); len(stale) != 1 || stale[0].Image != "tools" || !strings.Contains(stale[0].Why, "other sources") {
		t.Errorf("stale: %v", stale)
	}
	r := p.run(true)
	if first != p.read(lock.DefaultName) || r.Made != 1 {
		t.Errorf("a trial changed the lock, or made %d", r.Made)
	}
	_, shown := r.After.Find("tools", source.Host())
	if record, err := p.store.Find("tools"); err != nil || record.Config.String() == shown.Config {
		t.Errorf("a trial took the name: %v", err)
	}
	r = p.run(false)
	_, got := r.After.Find("tools", source.Host())
	if r.Made != 0 || !r.Changed || got.Config != shown.Config {
		t.Errorf("made %d, changed %v, config %s, shown was %s", r.Made, r.Changed, got.Config, shown.Config)
	}
	if p.read(lock.DefaultName+imagebuild.Previous) != first {
		t.Error("the previous lock wasn't kept")
	}
	if record, err := p.store.Find("tools"); err != nil || record.Config.String() != got.Config {
		t.Errorf("the name: %v", err)
	}
	p.write("tools/hello", "hello\n") // back again
	if r = p.run(false); r.Made != 0 || p.read(lock.DefaultName) != first {
		t.Errorf("going back made %d", r.Made)
	}
}

func baseChanges(t *testing.T, p *project) {
	before := p.run(false).After
	p.declare(pushBase(t, p.repo, "2"))
	r := p.run(true)
	if r.Made != 2 {
		t.Errorf("made %d", r.Made)
	}
	changes, err := p.builder().Diff(before, r.After)
	if err != nil || len(changes) != 2 {
		t.Fatalf("got %+v, %v", changes, err)
	}
	for _, c := range changes {
		if len(c.Packages) != 1 || c.Packages[0].Old != "1" || c.Packages[0].New != "2" || len(c.Fields) == 0 {
			t.Errorf("%+v", c)
		}
	}
}

// lost takes away what the lock names, one after the other.
func lost(t *testing.T, p *project) {
	_, first := p.run(false).After.Find("tools", source.Host())
	if err := os.Remove(filepath.Join(p.dir, first.Artefacts[0].Path)); err != nil {
		t.Fatal(err)
	}
	r := p.run(false)
	if r.Made != 0 || r.Changed {
		t.Errorf("without the file system: made %d, changed %v", r.Made, r.Changed)
	}
	if info, err := os.Stat(filepath.Join(p.dir, first.Artefacts[0].Path)); err != nil || info.Size() != first.Artefacts[0].Size {
		t.Errorf("it wasn't made again: %v", err)
	}
	record, err := p.store.Find(first.Config)
	if err == nil {
		err = p.store.Remove(t.Context(), record)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := p.run(false); r.Made != 1 {
		t.Errorf("without the image in the store: made %d", r.Made)
	}
}

// tidy keeps the files of two locks, and no more.
func tidy(t *testing.T, p *project) {
	var locked []*lock.Platform
	for i := range 3 {
		p.write("tools/hello", fmt.Sprintf("hello %d\n", i))
		_, pl := p.run(false).After.Find("tools", source.Host())
		locked = append(locked, pl)
	}
	e := p.engine()
	for i, pl := range locked {
		_, err1 := os.Stat(filepath.Join(p.dir, pl.SBOM.Path))
		_, err2 := os.Stat(filepath.Join(p.dir, pl.Artefacts[0].Path))
		_, err3 := e.Inspect(t.Context(), imagebuild.Tag("tools", pl.Config))
		for _, err := range []error{err1, err2, err3} {
			if (err == nil) != (i > 0) {
				t.Errorf("lock %d: %v", i, err)
			}
		}
	}
}

// names builds one image, and leaves the others in the lock as they are.
func names(t *testing.T, p *project) {
	if r := p.run(false, "brought"); r.Made != 1 || len(r.After.Images) != 1 {
		t.Errorf("made %d", r.Made)
	}
	if r := p.run(false, "tools"); r.Made != 1 || len(r.After.Images) != 2 {
		t.Errorf("made %d", r.Made)
	}
	if _, err := p.builder().Run(t.Context(), []string{"other"}, false); err == nil || !strings.Contains(err.Error(), "no image other") {
		t.Errorf("an image that isn't declared: %v", err)
	}
	p.write("images.yaml", strings.Replace(p.read("images.yaml"), "  brought:", "  renamed:", 1))
	r := p.run(false)
	var list []string
	for _, img := range r.After.Images {
		list = append(list, img.Name)
	}
	if d := cmp.Diff([]string{"renamed", "tools"}, list); d != "" {
		t.Error(d)
	}
}

func failed(t *testing.T, p *project) {
	for text, want := range map[string]string{
		"ARG BASE\nFROM $BASE\nRUN exec 2>&1; echo no luck; cat /none\n": "no luck\ncat: can't open '/none'",
		"FROM debian:12\n": "tools/Dockerfile:1: the image debian:12 is not pinned",
	} {
		p.write("tools/Dockerfile", text)
		_, err := p.builder().Run(t.Context(), nil, false)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := os.Stat(p.lockFile()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a lock of what failed: %v", err)
	}
}

// cancelled ends a build in the middle, which leaves nothing.
func cancelled(t *testing.T, p *project) {
	p.write("tools/Dockerfile", "ARG BASE\nFROM $BASE\nRUN echo begun; sleep 600\n")
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	p.set = func(b *imagebuild.Builder) {
		b.Events = func(e imagebuild.Event) {
			if e.Log == "begun" {
				cancel(why)
			}
		}
	}
	if _, err := p.builder().Run(ctx, nil, false); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	for _, dir := range []string{p.dir, p.store.Scratch()} {
		left, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range left {
			if n := f.Name(); n != "images.yaml" && n != "tools" && n != imagebuild.FilesDir {
				t.Errorf("left behind: %s", n)
			}
		}
	}
}
