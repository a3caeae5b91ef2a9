package scan

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// stream is what the driver writes: the list of runs, then their files.
func stream(t testing.TB, index string, outputs map[string]string, order ...string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(name, text string) {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	add("runs.json", index)
	for _, name := range order {
		add(name, outputs[name])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// said is a stream of one scanner that has printed out and exited with its code for
// success, all others skipped.
func said(t testing.TB, name, out string) *bytes.Buffer {
	t.Helper()
	skipped, err := json.Marshal(Names())
	if err != nil {
		t.Fatal(err)
	}
	index := `{"runs":[{"tool":"` + name + `","dir":"/w","exit":0,"files":0,"wall":1.5,"cpu":1}],"skipped":` + string(skipped) + `}`
	return stream(t, index, map[string]string{"0.out": out}, "0.out")
}

// recorded is what the real scanners said of a directory with flaws, see testdata.
func recorded(t testing.TB) *bytes.Buffer {
	t.Helper()
	files, outputs := []string{}, map[string]string{}
	names, err := filepath.Glob("testdata/recorded/*.*")
	if err != nil {
		t.Fatal(err)
	}
	index := ""
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(name)
		if base == "runs.json" {
			index = string(text)
			continue
		}
		files, outputs[base] = append(files, base), string(text)
	}
	return stream(t, index, outputs, files...)
}

func read(t testing.TB, b *bytes.Buffer) *Report {
	t.Helper()
	r, err := Read(b, Options{Root: "/w"}, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Report) toolNamed(name string) Tool {
	for _, t := range r.Tools {
		if t.Name == name {
			return t
		}
	}
	return Tool{}
}

var schema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile("testdata/sarif-schema-2.1.0.json")
})

// validSARIF returns the report's SARIF form, which keeps to OASIS's schema.
func validSARIF(t testing.TB, r *Report) []byte {
	t.Helper()
	s, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteSARIF(&b, "sha256:abc"); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(doc); err != nil {
		t.Fatalf("%v in\n%s", err, b.Bytes())
	}
	return b.Bytes()
}
