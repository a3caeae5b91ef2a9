package runsc_test

import (
	"testing"

	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/conformance"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
)

// envRuntime passes the runtime on to the front ends that the suite starts.
const envRuntime = runsc.EnvBinary

var factory = conformance.Factory{
	Open: func(dir string) (sandbox.Backend, error) {
		d, err := state.Open(dir)
		if err != nil {
			return nil, err
		}
		binary, err := runsc.Find()
		if err != nil {
			return nil, err
		}
		return runsc.New(binary, d), nil
	},
	Config: func(t testing.TB, dir string) sandbox.Config {
		d, err := state.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		tree := sandboxtest.Root(t, d)
		return sandbox.Config{RootDir: tree.Dir, RootBinds: tree.Binds, Guest: sandboxtest.Guest(t)}
	},
}

func TestMain(m *testing.M) { conformance.Main(m, factory) }

func TestConformance(t *testing.T) {
	f := factory
	f.Programs = []string{sandboxtest.Runsc(t)}
	t.Setenv(envRuntime, f.Programs[0])
	conformance.Run(t, f)
}

// The same suite without privilege: limits by control group are refused there,
// everything else holds.
func TestConformanceRootless(t *testing.T) {
	if sandboxtest.AsUser(t) {
		TestConformance(t)
	}
}

// stressRuns is how many sandboxes run in a row, and then as many at once.
const stressRuns = 200

func TestStress(t *testing.T) {
	f := factory
	f.Programs = []string{sandboxtest.Runsc(t)}
	t.Setenv(envRuntime, f.Programs[0])
	runs := stressRuns
	if testing.Short() {
		runs = 40
	}
	conformance.Stress(t, f, runs)
}

func TestStressRootless(t *testing.T) {
	if sandboxtest.AsUser(t) {
		f := factory
		f.Programs = []string{sandboxtest.Runsc(t)}
		conformance.Stress(t, f, 40)
	}
}
