package imagebuild

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quavon/quavon/imagebuild"
	"github.com/quavon/quavon/imagebuild/base"
	"github.com/quavon/quavon/imagebuild/engine/enginetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
)

const certificates = "/etc/ssl/certs/ca-certificates.crt"

// TestOneImage builds the smallest shipped image as an operator does, and runs its
// tools. A Debian mirror keeps only the newest versions, so this takes today's:
// that the pinned ones are there no more is no fault of the code.
func TestOneImage(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "a Docker Engine needs root")
	}
	declaration, config := today(t)
	env := map[string]string{
		state.EnvDir: statetest.Path(t), "QUAVON_GUEST": sandboxtest.Guest(t), "QUAVON_RUNSC": sandboxtest.Runsc(t),
		"DOCKER_HOST": enginetest.Start(t, "host-net"), "DECLARATION": declaration, "CERTIFICATES": certificates, "BASE": config,
	}
	for _, script := range []string{"build", "node"} {
		t.Run(script, func(t *testing.T) { runScript(t, script, env) })
	}
}

// today unpacks the shipped declaration and pins what the mirror has today. config is
// the digest that the base must have whenever it is made again.
func today(t *testing.T) (declaration, config string) {
	t.Helper()
	declaration, done, err := imagebuild.Shipped(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := done(); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Dir(declaration)
	r, err := base.Read(filepath.Join(dir, "debian"))
	if err != nil {
		t.Fatal(err)
	}
	made, err := r.Make(t.Context(), "amd64", t.TempDir(), base.Options{Unpinned: true})
	if err != nil {
		need.Skip(t, "no base can be made here: %v", err)
	}
	if !slices.Equal(made.Packages, r.Pins["amd64"]) {
		t.Log("the mirror has moved on: pin anew with test/imagebuild/update.sh")
	}
	write(t, filepath.Join(dir, "debian", "amd64.txt"), strings.Join(made.Packages, "\n")+"\n")
	for wanted, pins := range map[string]string{"apt.in": "apt.txt", "fetch.in": "fetch.apt"} {
		raw, err := os.ReadFile(filepath.Join(dir, "node", wanted))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "node", pins), string(raw))
	}
	digest, err := made.Image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return declaration, digest.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestExampleLock reads the lock that `make images-build` wrote once.
func TestExampleLock(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/images.lock.json")
	if err != nil {
		t.Fatal(err)
	}
	l, err := lock.Parse("images.lock.json", raw)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range l.Images {
		names = append(names, i.Name)
	}
	if want := []string{"go", "guest", "node", "python", "scanners"}; !slices.Equal(names, want) {
		t.Errorf("images %q, want %q", names, want)
	}
	if again, err := l.Encode(); err != nil || string(again) != string(raw) {
		t.Errorf("the lock isn't written as it is read: %v", err)
	}
}
