package commands

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/quavon/quavon/commands/iostreams"
	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
)

// TestLocalAtOnce: QD951 keeps the backend that it has opened for the checks after it, while
// QD953 looks at the images.
func TestLocalAtOnce(t *testing.T) {
	t.Setenv(state.EnvDir, statetest.Path(t))
	p := &program{
		LookupEnv: func(string) (string, bool) { return "", false }, Log: slog.New(slog.DiscardHandler),
		IO: &iostreams.Streams{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}},
	}
	s := &localSandbox{doctorOptions: &doctorOptions{program: p, Local: true, Smoke: true}}
	images, err := doctor.Find(s.checks(), "QD953")
	if err != nil {
		t.Fatal(err)
	}
	found := make(chan doctor.Finding)
	go func() { found <- images.Run(t.Context()) }()
	s.runner = &runner.Runner{}
	if f := <-found; f.State != doctor.Skip { // there is no lock
		t.Errorf("%s: %s", f.State, f.Message)
	}
}
