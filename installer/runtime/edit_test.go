package runtime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/fault"
)

// TestEdit covers what the installer does on DJ-01 to DJ-16 and DJ-21 before anything is
// changed: it refuses a file with which dockerd doesn't start, with the place in it; what
// isn't ours stays, byte by byte.
func TestEdit(t *testing.T) {
	t.Parallel()
	lib := t.TempDir() // with runsc in it, which is looked at where somebody has changed the entry
	writeRunsc(t, filepath.Join(lib, "runsc"), []byte("x"))
	ours := `{"path": "` + lib + `/runsc/runsc", "runtimeArgs": ["--platform=systrap"]}`
	have := func(args ...string) *registered { return &registered{Path: lib + "/runsc/runsc", Args: args} }
	type file struct {
		text, lib string
		flags     []string
		have      *registered
	}
	for name, c := range map[string]struct {
		file
		want, hint string // want is the new text, "" when it stays, or what the error has
		refused    bool
	}{
		"DJ-01 hosts and -H": {file{text: `{"hosts":["unix:///var/run/docker.sock"]}`, flags: []string{"-H", "fd://"}}, "flags for the same: hosts", "one place", true},
		"DJ-01 hosts alone":  {file{text: `{"hosts":["x"]}`}, `{"hosts":["x"],"runtimes":{"runsc":` + ours + `}}`, "", false},
		"DJ-02 debug twice":  {file{text: `{"debug":true}`, flags: []string{"--debug"}}, "flags for the same: debug", "one place", true},
		"DJ-02 another runtime by flag": {
			file{text: `{"runtimes":{"a":{"path":"/a"}}}`, flags: []string{"--add-runtime", "b=/b"}},
			`{"runtimes":{"a":{"path":"/a"},"runsc":` + ours + `}}`, "", false,
		},
		"DJ-04 byte order mark": {file{text: "\xef\xbb\xbf{}"}, "{\n  \"runtimes\": {\n    \"runsc\": {\n      \"path\": \"" + lib + "/runsc/runsc\",\n" +
			"      \"runtimeArgs\": [\"--platform=systrap\"]\n    }\n  }\n}", "", false},
		"DJ-04 no UTF-8":        {file{text: "{\"a\":\"\xff\"}"}, "byte 6 is no UTF-8", "write it as UTF-8", true},
		"DJ-05 trailing comma":  {file{text: "{\n \"a\":1,\n}"}, "line 3, column 1", "correct that place", true},
		"DJ-08 comment":         {file{text: "{ // c\n}"}, "line 1, column 3: dockerd rejects comments too", "correct", true},
		"DJ-10 runtimes null":   {file{text: `{"runtimes":null}`}, `{"runtimes":{"runsc":` + ours + `}}`, "", false},
		"DJ-10 runtimes a list": {file{text: `{"runtimes":[]}`}, "line 1, column 13: runtimes is no object", "", true},
		"DJ-10 large number":    {file{text: `{"x":9007199254740993}`}, `{"x":9007199254740993,"runtimes":{"runsc":` + ours + `}}`, "", false},
		"DJ-11 a runtime runc":  {file{text: `{"runtimes":{"runc":{"path":"/x"}}}`}, `"runc": the name is reserved`, "correct", true},
		"DJ-12 default of NVIDIA": {
			file{text: `{"default-runtime":"nvidia","runtimes":{"nvidia":{"path":"/n"}}}`},
			`{"default-runtime":"nvidia","runtimes":{"nvidia":{"path":"/n"},"runsc":` + ours + `}}`, "", false,
		},
		"DJ-12 default of nobody": {file{text: `{"default-runtime":"kata"}`}, `default-runtime names "kata"`, "correct", true},
		"DJ-16 space in --lib":    {file{text: "{}", lib: "/opt/my lib"}, "through a shell", "without spaces", true},
		"DJ-16 command in --lib":  {file{text: "{}", lib: "/opt/x;id"}, "through a shell", "without spaces", true},
		"DJ-21 no path":           {file{text: `{"runtimes":{"x":{}}}`}, "neither path nor runtimeType", "correct", true},
		"DJ-21 both":              {file{text: `{"runtimes":{"x":{"path":"/x","runtimeType":"y"}}}`}, "both path and runtimeType", "correct", true},
		"DJ-21 type with args":    {file{text: `{"runtimes":{"x":{"runtimeType":"y","runtimeArgs":["z"]}}}`}, "takes no runtimeArgs", "correct", true},
		"DJ-21 path with options": {file{text: `{"runtimes":{"x":{"path":"/x","options":{}}}}`}, "takes no options", "correct", true},
		"ours already":            {file{text: `{"runtimes":{"runsc":` + ours + `}}`, have: have("--platform=systrap")}, "", "", false},
		"ours, changed by somebody": {
			file{text: strings.Replace(`{"runtimes":{"runsc":`+ours+`}}`, `"]`, `","--debug"]`, 1), have: have("--platform=systrap", "--debug")}, "", "", false,
		},
		"ours, weakened by somebody": {
			file{text: strings.Replace(`{"runtimes":{"runsc":`+ours+`}}`, `"]`, `","--network=host"]`, 1), have: have("--platform=systrap", "--network=host")},
			"weakens its sandboxes", "take that out", true,
		},
		"changed, and not loaded": {
			file{text: strings.Replace(`{"runtimes":{"runsc":`+ours+`}}`, `"]`, `","--debug"]`, 1), have: have("--platform=systrap")},
			"which dockerd doesn't have", "reload", true,
		},
		"another runsc, not loaded": {file{text: `{"runtimes":{"runsc":{"path":"/x"}}}`}, "which dockerd doesn't have", "reload", true},
	} {
		path := write(t, filepath.Join(t.TempDir(), "daemon.json"), []byte(c.text))
		r := &Runtime{Lib: lib}
		if c.lib != "" {
			r.Lib = c.lib
		}
		if c.have == nil {
			c.have = &registered{}
		}
		p := &plan{daemon: &daemon{args: c.flags}, path: path}
		err := r.edit(p, *c.have, c.have.Path != "")
		switch {
		case c.refused && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(fault.Hint(err), c.hint)):
			t.Errorf("%s: %v (%s), want %q (%q)", name, err, fault.Hint(err), c.want, c.hint)
		case !c.refused && (err != nil || string(p.after) != c.want):
			t.Errorf("%s: %v, %s", name, err, p.after)
		case !c.refused && p.after == nil && !p.want.same(*c.have):
			t.Errorf("%s: %v is wanted", name, p.want)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != c.text {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

// TestChangedMeanwhile: what somebody writes while gVisor is unpacked isn't written over.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "daemon.json")
	r := &Runtime{Lib: "/opt/quavon"}
	plan := func() *plan {
		p := &plan{daemon: &daemon{}, path: path}
		if err := r.edit(p, registered{}, false); err != nil || p.after == nil {
			t.Fatal(err)
		}
		return p
	}
	p := plan() // there is none
	if err := p.unchanged(); err != nil {
		t.Error(err)
	}
	write(t, path, nil)
	if err := p.unchanged(); err == nil {
		t.Error("a new file isn't seen")
	}
	p = plan()
	if err := p.unchanged(); err != nil {
		t.Error(err)
	}
	write(t, path, []byte(`{"debug":true}`))
	if err := p.unchanged(); err == nil || !strings.Contains(err.Error(), "was changed while") {
		t.Error(err)
	}
}

// TestMasked: a plan's difference has no password.
func TestMasked(t *testing.T) {
	t.Parallel()
	got := masked([]byte(`{"proxies":{"http-proxy":"http://me:hunter2@proxy:3128"},"x":"a@b"}`))
	if strings.Contains(got, "hunter2") || !strings.Contains(got, "proxy:3128") || !strings.Contains(got, "a@b") {
		t.Error(got)
	}
}
