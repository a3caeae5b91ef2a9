package host

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/sandbox/docker/dockerd/dockerdtest"
)

// starts is what dockerd 26.1.5 did at a real start with a file: up, or
// what of it must be named.
var starts = map[string]string{
	"args": "up", "argsstr": "runtimeArgs", "arr": "no object", "badtype": "debug", "badutf8": "byte", "big": "up", "bom": "up",
	"both": "both path and runtimeType", "comment": "comments", "defok": "up", "defundef": "nope", "empty": "up",
	"emptyrt": "neither", "feat": "up", "hosts": "up", "nopath": "up", "null": "up", "nullrt": "neither",
	"opts": "up", "pathargs_type": "takes no runtimeArgs", "pathopts": "takes no options", "runcres": "reserved",
	"runtimesarr": "no object", "runtimesnull": "up", "stock": "up", "str": "no object", "trailbrace": "follows",
	"trailcomma": "line 1, column 15", "u16be": "up", "u16le": "up", "u16le_nobom": "line 1", "unkrtkey": "up", "x": "up", "y": "up",
	// Known only to dockerd --validate, which the fake host has say OK.
	"unknown": "up", "nest": "up",
}

func TestDaemonFiles(t *testing.T) {
	t.Parallel()
	files, err := dockerdtest.Files()
	if err != nil || len(files) != len(starts) {
		t.Errorf("%d files, %d expectations: %v", len(files), len(starts), err)
	}
	for name, data := range files {
		h := load(t, new(txtar.Archive))
		h.files[daemonPath] = string(data)
		got := h.config().daemonJSON(t.Context())
		text := got.Message + strings.Join(got.Details, "\n")
		switch want := starts[name]; {
		case want == "":
			t.Errorf("%s: no expectation", name)
		case want == "up" && got.State != doctor.Pass:
			t.Errorf("%s: %s %s, though dockerd starts", name, got.State, text)
		case want != "up" && (got.State != doctor.Fail || !strings.Contains(text, want)):
			t.Errorf("%s: %s %q, want a failure with %q", name, got.State, text, want)
		}
	}
}

func FuzzDaemonFile(f *testing.F) {
	files, err := dockerdtest.Files()
	if err != nil {
		f.Fatal(err)
	}
	for _, data := range files {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if d, err := parseDaemonFile(data); err == nil {
			d.refused(nil)
		} else if err.Error() == "" {
			t.Error("an error without words")
		}
	})
}
