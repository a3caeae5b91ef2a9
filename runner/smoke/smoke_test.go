package smoke_test

import (
	"os"
	"testing"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/smoke"
	"github.com/quavon/quavon/runner/state/statetest"
)

// productionRunner is a runner with the backend runsc as every job has it.
func productionRunner(t testing.TB) *runner.Runner {
	t.Helper()
	st := statetest.Dir(t)
	return &runner.Runner{
		Backend: runsc.New(sandboxtest.Runsc(t), st), Guest: sandboxtest.Guest(t), Store: st.Path("toolchain"), Spool: st.Path(),
	}
}

// bound is what the backend's runtime is.
func bound(t testing.TB, b sandbox.Backend) evidence.Bound {
	t.Helper()
	r, err := sandbox.AsIdentified(b).Runtime(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return evidence.Bound{RuntimeDigest: r.Digest, RuntimeArgs: r.Args}
}

// TestProductionRunsc shows that every probe holds where nothing is weakened.
func TestProductionRunsc(t *testing.T) {
	t.Parallel()
	r := productionRunner(t)
	allHold(t, smoke.For(r, ""), bound(t, r.Backend), true)
}

func allHold(t *testing.T, s *smoke.Suite, b evidence.Bound, full bool) {
	t.Helper()
	r, err := s.Run(t.Context(), smoke.Options{Full: full, Root: os.Geteuid() == 0, Bound: b})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range r.Results {
		t.Logf("%-16s %-14s %s", x.ID, x.Verdict, x.Why)
		if x.Verdict != smoke.Held && x.Verdict != smoke.NotApplicable {
			t.Errorf("%s: %s: %s", x.ID, x.Verdict, x.Why)
		}
	}
	t.Logf("%d held in %v", r.Count(smoke.Held), r.Took)
}
