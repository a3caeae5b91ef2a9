package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/sigstore/cosign/v2/pkg/cosign"

	"github.com/quavon/quavon/imagebuild/engine/enginetest"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
)

// TestBuildScripts runs testdata/build with a real Docker Engine, a registry in
// this process and real sandboxes.
func TestBuildScripts(t *testing.T) {
	t.Parallel()
	host := enginetest.Start(t)
	stateDir := statetest.Path(t)
	guest, runsc := sandboxtest.Guest(t), sandboxtest.Runsc(t)
	repo := it.Registry(t)
	pair, err := cosign.GenerateKeyPair(func(bool) ([]byte, error) { return []byte("correct horse"), nil })
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/build",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			follow(e)
			e.Setenv(state.EnvDir, filepath.Join(stateDir, filepath.Base(e.WorkDir)))
			e.Setenv(envGuest, guest)
			e.Setenv(envRunsc, runsc)
			e.Setenv("DOCKER_HOST", host)
			base := it.Push(t, repo, shellImage(t, "1.0"))
			e.Setenv("BASE1", base)
			e.Setenv("DIGEST1", base[strings.Index(base, "@")+1:])
			e.Setenv("BASE2", it.Push(t, repo, shellImage(t, "2.0")))
			e.Setenv("REGISTRY", repo.RegistryStr())
			if err := os.WriteFile(filepath.Join(e.WorkDir, "cosign.key"), pair.PrivateBytes, 0o600); err != nil {
				return err
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "interrupt": interruptAfter, "expand": expand},
	})
}

// shellImage is a base with a shell and one package.
func shellImage(t *testing.T, version string) v1.Image {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		need.Skip(t, "busybox-static is missing: %v", err)
	}
	entries := []it.Entry{it.Dir("bin"), {Name: "bin/busybox", Body: string(busybox), Mode: 0o755}}
	for _, applet := range []string{"sh", "cat", "sleep", "ls", "test"} {
		entries = append(entries, it.Entry{Type: '1', Name: "bin/" + applet, Link: "bin/busybox", Mode: 0o755})
	}
	status := fmt.Sprintf("Package: shell\nStatus: install ok installed\nArchitecture: all\nVersion: %s\n", version)
	return it.Image(t, v1.Config{}, it.Gzip(t, it.Tar(t, append(entries, it.File("var/lib/dpkg/status", status))...)))
}

// expand FILE replaces $NAME in a file by what the environment has.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(path, []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600))
}
