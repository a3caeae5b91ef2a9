package compose

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
)

// answers are an engine with a container of the project for each directory, a network, a
// volume and an image, and remember what was removed.
type answers struct {
	dirs []string
	// images are the digests of those that it has.
	images []string
	mu     sync.Mutex
	gone   []string
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path[strings.Index(r.URL.Path[1:], "/")+1:]
	give := func(v any) { w.Header().Set("Content-Type", "application/json"); _ = json.NewEncoder(w).Encode(v) }
	id := func(i int) string { return strings.Repeat(string(rune('a'+i)), 64) }
	labels := func(dir string) map[string]string {
		return map[string]string{labelProject: Project, labelService: "s-" + filepath.Base(dir), labelDir: dir}
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/_ping"):
		w.Header().Set("Api-Version", "1.45")
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodDelete:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.gone = append(a.gone, path[:min(len(path), 24)])
		if strings.HasPrefix(path, "/images/") {
			give([]any{})
		}
	case path == "/containers/json":
		list := []any{}
		for i, dir := range a.dirs {
			list = append(list, map[string]any{"Id": id(i), "Labels": labels(dir)})
		}
		give(list)
	case strings.HasPrefix(path, "/containers/"):
		for i, dir := range a.dirs {
			if strings.Contains(path, id(i)) {
				give(map[string]any{"Id": id(i), "Config": map[string]any{"Labels": labels(dir)}, "State": map[string]any{"Status": "running"}})
			}
		}
	case path == "/networks":
		give([]any{map[string]any{"Id": "n1", "Name": "quavon_valkey"}})
	case path == "/volumes":
		give(map[string]any{"Volumes": []any{map[string]any{"Name": "quavon_valkey"}}})
	case strings.HasPrefix(path, "/images/") && slices.Contains(a.images, strings.TrimSuffix(path[len("/images/"):], "/json")):
		give(map[string]any{"Id": strings.TrimSuffix(path[len("/images/"):], "/json"), "RootFS": map[string]any{"Layers": []string{layer}}})
	default:
		http.NotFound(w, r)
	}
}

// layer is all that the images have.
var layer = "sha256:" + strings.Repeat("f", 64)

// stackAt is an installation in a directory, with an engine that has services of some.
func stackAt(t *testing.T, dir string, dirs ...string) (*stack, *answers) {
	t.Helper()
	a := &answers{dirs: dirs}
	return &stack{Options: Options{Target: &phase.Target{Dir: dir, Socket: dockertest.Fake(t, a)}}}, a
}

type quiet struct{ said []string }

func (q *quiet) Line(text string) { q.said = append(q.said, text) }
func (*quiet) Status(...string)   {}

// TestOthersServices: the services of another directory, which have the same project, are
// neither replaced nor removed, nor is what they need.
func TestOthersServices(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	at := func(name string) string { return filepath.Join(base, name) }
	if err := os.MkdirAll(at("ours"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(at("theirs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("ours", at("link")); err != nil {
		t.Fatal(err)
	}
	ours, theirs := "/containers/"+strings.Repeat("a", 12), "/containers/"+strings.Repeat("b", 12)
	rest := []string{"/networks/n1", "/volumes/quavon_valkey", "/images/quavon/box:1"}
	for _, c := range []struct {
		name    string
		dirs    []string
		refused bool
		gone    []string
	}{
		{"none", nil, false, rest},
		{"ours", []string{at("ours")}, false, append([]string{ours}, rest...)},
		{"ours by another name", []string{at("link")}, false, append([]string{ours}, rest...)},
		{"of a directory that was moved", []string{at("was")}, false, append([]string{ours}, rest...)},
		{"ours and theirs", []string{at("ours"), at("theirs")}, true, []string{ours}},
		{"theirs", []string{at("theirs")}, true, nil},
		{"two of one's", []string{at("ours"), at("ours")}, false, append([]string{ours, theirs}, rest...)},
	} {
		s, a := stackAt(t, at("ours"), c.dirs...)
		err := s.alone(t.Context())
		if (err != nil) != c.refused || err != nil && !strings.Contains(fault.Hint(err), "--dir "+at("theirs")) {
			t.Errorf("%s: %v (%s)", c.name, err, fault.Hint(err))
		}
		show := &quiet{}
		if err := (&services{s}).Undo(t.Context(), phase.Act{Name: actServices, Data: map[string]string{"containers": "1"}}, phase.Purge, show); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := (&images{s}).Undo(t.Context(), phase.Act{Name: actImage, Key: "quavon/box:1"}, phase.Purge, show); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		// Volumes are asked for twice: the guests' are these, too, to this engine.
		gone := a.gone
		if i := slices.Index(gone, rest[1]); i >= 0 && c.refused {
			gone = slices.Delete(gone, i, i+1)
		}
		gone = slices.Compact(gone)
		if d := cmp.Diff(c.gone, gone, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s, removed: %s", c.name, d)
		}
		if c.refused != (len(show.said) > 0) {
			t.Errorf("%s: %q", c.name, show.said)
		}
	}
}

// TestOwnFile: a compose file that quavon didn't write is not written over.
func TestOwnFile(t *testing.T) {
	t.Parallel()
	s := &services{&stack{Options: Options{Target: &phase.Target{Dir: t.TempDir()}}}}
	if err := s.ownFile(); err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		"services: {web: {image: mine}}\n": false, "": false,
		"# Written by `quavon install`, which overwrites it. Your own changes belong into\nname: quavon\n": true,
	} {
		if err := os.WriteFile(s.Target.Compose(), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := s.ownFile(); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
