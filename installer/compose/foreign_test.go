package compose

import (
	"encoding/json"
	"maps"
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
	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

// answers are an engine with a container of the project for each directory, a network,
// volumes and an image, and remember what was removed.
type answers struct {
	dirs []string
	// volumes are the project's, each with whose it says it is.
	volumes map[string]string
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
		delete(a.volumes, strings.TrimPrefix(path, "/volumes/"))
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
		list := []any{}
		for _, name := range slices.Sorted(maps.Keys(a.volumes)) {
			labels := map[string]string{}
			if a.volumes[name] != "" {
				labels[labelInstallation] = a.volumes[name]
			}
			list = append(list, map[string]any{"Name": name, "Labels": labels})
		}
		if strings.Contains(r.URL.Query().Get("filters"), object.LabelRole) {
			list = nil // it has no guests
		}
		give(map[string]any{"Volumes": list})
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
	a := &answers{dirs: dirs, volumes: map[string]string{"quavon_valkey": dir}}
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
		if d := cmp.Diff(c.gone, a.gone, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s, removed: %s", c.name, d)
		}
		if c.refused != (len(show.said) > 0) {
			t.Errorf("%s: %q", c.name, show.said)
		}
	}
}

// TestWhoseVolumes: a purge removes the volumes of its own installation and tells of the
// others; while an installation keeps some here, another doesn't come to its data.
func TestWhoseVolumes(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	ours, theirs, moved := filepath.Join(base, "ours"), filepath.Join(base, "theirs"), filepath.Join(base, "moved")
	for _, dir := range []string{ours, filepath.Join(theirs, ".quavon")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("ours", filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	first := map[string]string{"containers": "0", "volumes": "0"}
	for _, c := range []struct {
		name, owner string
		how         phase.How
		data        map[string]string
		stays       bool
		refused     string
		said        string
	}{
		{"one's own", ours, phase.Purge, nil, false, "", ""},
		{"one's own, kept", ours, phase.Uninstall, nil, true, "", ""},
		{"one's own by another name", filepath.Join(base, "link"), phase.Purge, nil, false, "", ""},
		{"another's", theirs, phase.Purge, nil, true, "purge --dir " + theirs, "in " + theirs + " stay: quavon_valkey"},
		{"of a directory that is gone", moved, phase.Purge, nil, true, "", "was in " + moved + " stay; when nobody needs them: docker volume rm quavon_valkey"},
		{"nobody's", "", phase.Purge, nil, true, "", "stay; when nobody needs them: docker volume rm quavon_valkey"},
		{"a first installation's that failed", ours, phase.Failed, first, false, "", ""},
		{"a first installation's that failed, by an override", "", phase.Failed, first, false, "", ""},
		{"another's since", theirs, phase.Failed, first, true, "purge --dir " + theirs, "in " + theirs + " stay"},
	} {
		s, a := stackAt(t, ours)
		a.volumes["quavon_valkey"] = c.owner
		err := s.alone(t.Context())
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(fault.Hint(err), c.refused) {
			t.Errorf("%s: %v (%s)", c.name, err, fault.Hint(err))
		}
		show := &quiet{}
		if err := (&services{s}).Undo(t.Context(), phase.Act{Name: actServices, Data: c.data}, c.how, show); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if _, there := a.volumes["quavon_valkey"]; there != c.stays {
			t.Errorf("%s: it stays: %v", c.name, there)
		}
		if said := strings.Join(show.said, "; "); !strings.Contains(said, c.said) || c.said == "" && said != "" {
			t.Errorf("%s: %q", c.name, said)
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
