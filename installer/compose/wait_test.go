package compose

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/pkg/stdcopy"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
)

// patient is an engine with one service in a state, and a log.
type patient struct {
	answers
	state    map[string]any
	restarts int
}

func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/logs"):
		_, _ = stdcopy.NewStdWriter(w, stdcopy.Stderr).Write([]byte("its last words\n"))
	case strings.HasSuffix(r.URL.Path, strings.Repeat("a", 64)+"/json"):
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"Id": strings.Repeat("a", 64), "RestartCount": p.restarts, "State": p.state,
			"Config": map[string]any{"Labels": map[string]string{labelProject: Project, labelService: "valkey"}},
		})
	default:
		p.answers.ServeHTTP(w, r)
	}
}

// shown remembers what is kept and what is going on.
type shown struct{ quiet }

func (s *shown) Status(lines ...string) { s.said = append(s.said, lines...) }

// TestWait: it ends when services are healthy, when one won't be, and when its time is over;
// it shows what each does, in the end with what that has printed.
func TestWait(t *testing.T) {
	t.Parallel()
	health := func(status string) map[string]any {
		return map[string]any{"Status": "running", "Health": map[string]any{
			"Status": status, "Log": []any{map[string]any{"Output": "no answer\nyet"}},
		}}
	}
	const story = "\n  | its last words"
	for _, c := range []struct {
		name     string
		state    map[string]any
		restarts int
		want     string
		says     string
	}{
		{"healthy", health("healthy"), 0, "", "valkey: healthy after "},
		{"no check", map[string]any{"Status": "running"}, 0, "", "valkey: running after "},
		{"late", health("starting"), 0, "services aren't healthy after 1ms: valkey is starting: no answer yet" + story, "valkey: starting: no answer yet ("},
		{"unhealthy", health("unhealthy"), 0, "valkey does not come up: valkey is unhealthy: no answer yet" + story, ""},
		{"ended", map[string]any{"Status": "exited", "ExitCode": 3}, 0, "valkey is exited with code 3" + story, ""},
		{"again and again", map[string]any{"Status": "restarting", "ExitCode": 1}, 4, "with code 1, started 5 times" + story, ""},
		{"once again", map[string]any{"Status": "restarting", "ExitCode": 1}, 1, "services aren't healthy after 1ms", "started 2 times ("},
	} {
		p := &patient{answers: answers{dirs: []string{"/a"}}, state: c.state, restarts: c.restarts}
		s := &stack{Options: Options{Target: &phase.Target{Socket: dockertest.Fake(t, p)}, Timeout: time.Millisecond}}
		saw := &shown{}
		err := (&wait{s}).Apply(t.Context(), nil, saw)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || fault.Hint(err) == "") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if text := strings.Join(saw.said, "; "); !strings.Contains(text, c.says) {
			t.Errorf("%s: it shows %q, want %q", c.name, text, c.says)
		}
	}
	e, err := connect(t.Context(), dockertest.Fake(t, &answers{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.await(t.Context(), []string{Valkey}, time.Minute, &quiet{}); err == nil || !strings.Contains(err.Error(), "no container: valkey") {
		t.Errorf("without a container: %v", err)
	}
}
