package daemonjson

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/sandbox/docker/dockerd/dockerdtest"
)

var ours = Entry{Path: "/usr/local/lib/quavon/runsc/runsc", Args: []string{"--platform=systrap"}}

// TestCases covers the files of cases DJ-04 to DJ-21: which are refused and why, which
// dockerd would refuse although it says otherwise, which take our runtime.
func TestCases(t *testing.T) {
	t.Parallel()
	const reserved = `runtime "runc": the name is reserved`
	want := map[string]string{
		"args": "", "argsstr": "runtimeArgs is no list", "arr": "line 1, column 1: the value is no object", "badtype": "",
		"badutf8": "byte 16 is no UTF-8", "big": "", "bom": "", "both": "both path and runtimeType",
		"comment": "line 1, column 3: dockerd rejects comments too", "defok": "", "defundef": `names "nope"`, "empty": "",
		"emptyrt": "neither path nor runtimeType", "feat": "", "hosts": "", "nest": "", "nopath": "", "null": "",
		"nullrt": "neither path nor runtimeType", "opts": "", "pathargs_type": "takes no runtimeArgs", "pathopts": "path takes no options",
		"runcres": reserved, "runtimesarr": "line 1, column 13: runtimes is no object", "runtimesnull": "", "stock": "",
		"str": "the value is no object", "trailbrace": "line 1, column 15: something follows", "trailcomma": "line 1, column 15",
		"u16be": "", "u16le": "", "u16le_nobom": "line 1, column 2", "unknown": "", "unkrtkey": "", "x": "", "y": "",
	}
	files, err := dockerdtest.Files()
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d files, %d wanted: %v", len(files), len(want), err)
	}
	for name, data := range files {
		got := ""
		f, err := Parse(data)
		if err != nil {
			got = err.Error()
		} else if wrong := f.Refusals(nil); len(wrong) > 0 {
			got = strings.Join(wrong, "; ")
		}
		if (want[name] == "") != (got == "") || !strings.Contains(got, want[name]) {
			t.Errorf("%s: %q, want %q", name, got, want[name])
		}
		if err != nil {
			continue
		}
		if err := f.SetRuntime("ours", ours); err != nil || !f.Has("ours", ours) {
			t.Errorf("%s: can't be edited: %v", name, err)
		}
	}
}

func TestSetRuntime(t *testing.T) {
	t.Parallel()
	const entry = `{
      "path": "/usr/local/lib/quavon/runsc/runsc",
      "runtimeArgs": ["--platform=systrap"]
    }`
	fresh := "{\n  \"runtimes\": {\n    \"runsc\": " + entry + "\n  }\n}"
	short := `{"path": "/usr/local/lib/quavon/runsc/runsc", "runtimeArgs": ["--platform=systrap"]}`
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", fresh + "\n"},
		{"white space", " \n\n", fresh + "\n"},
		{"null", "null", fresh + "\n"},
		{"empty object", "\n{}\n\n", "\n" + fresh + "\n\n"},
		{"one line", `{"debug":true}`, `{"debug":true,"runtimes":{"runsc":` + short + `}}`},
		{"one line with spaces", `{ "a": 1, "debug": true }`, `{ "a": 1, "debug": true, "runtimes":{"runsc":` + short + `} }`},
		{"lines", "{\n  \"debug\": true\n}\n", "{\n  \"debug\": true,\n  \"runtimes\": {\n    \"runsc\": " + entry + "\n  }\n}\n"},
		{
			"CRLF", "{\r\n  \"debug\": true\r\n}\r\n",
			strings.ReplaceAll("{\n  \"debug\": true,\n  \"runtimes\": {\n    \"runsc\": "+entry+"\n  }\n}\n", "\n", "\r\n"),
		},
		{
			"tabs, other runtimes, odd numbers", "{\n\t\"x\": 9007199254740993,\n\t\"runtimes\": {\n\t\t\"a\": {\"path\": \"/&<>\"}\n\t}}",
			"{\n\t\"x\": 9007199254740993,\n\t\"runtimes\": {\n\t\t\"a\": {\"path\": \"/&<>\"},\n\t\t\"runsc\": {\n" +
				"\t\t\t\"path\": \"/usr/local/lib/quavon/runsc/runsc\",\n\t\t\t\"runtimeArgs\": [\"--platform=systrap\"]\n\t\t}\n\t}}",
		},
		{"runtimes null", "{\n  \"runtimes\": null\n}", fresh},
		{"runtimes empty", "{\n  \"runtimes\": {}\n}", fresh},
		{
			"two runtimes", `{"runtimes":{"a":{"path":"/a"}},"runtimes":{"b":{"path":"/b"}}}`,
			`{"runtimes":{"a":{"path":"/a"}},"runtimes":{"b":{"path":"/b"},"runsc":` + short + `}}`,
		},
		{"another entry", `{"runtimes":{"runsc":{"path":"/x"}},"a":1}`, `{"runtimes":{"runsc":` + short + `},"a":1}`},
		{"there already", `{"runtimes":{"runsc":` + short + `}}`, `{"runtimes":{"runsc":` + short + `}}`},
		{"escaped key", `{"runtime\u0073":{"a":{"path":"/a"}}}`, `{"runtime\u0073":{"a":{"path":"/a"},"runsc":` + short + `}}`},
		{"byte order mark", "\xEF\xBB\xBF{\"a\":1}", `{"a":1,"runtimes":{"runsc":` + short + `}}`},
	} {
		f, err := Parse([]byte(c.in))
		if err == nil {
			err = f.SetRuntime("runsc", ours)
		}
		if err != nil || string(f.Bytes()) != c.want {
			t.Errorf("%s: %v\n got %q\nwant %q", c.name, err, f.Bytes(), c.want)
		}
	}
}

// TestEntryRefused covers cases DJ-11 and DJ-16.
func TestEntryRefused(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]Entry{
		"runc": ours, "io.containerd.x.v1": ours, "": ours, "a": {Path: "/tmp/a b/runsc"}, "b": {Path: "/r", Args: []string{"x;id"}},
		"c": {Path: "/r", Args: []string{"--x=$HOME"}}, "d": {},
	} {
		if err := new(File).SetRuntime(name, e); err == nil {
			t.Errorf("%q %v: taken", name, e)
		}
	}
}

func TestDoubleEntry(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte("{\"runtimes\": {\n\"runsc\": {\"path\": \"/a\"},\n\"runsc\": {\"path\": \"/b\"}}}"))
	if err == nil || !strings.Contains(err.Error(), `line 3, column 1: the runtime "runsc" is there already, in line 2`) {
		t.Error(err)
	}
}

// TestTwice covers cases DJ-01 and DJ-02.
func TestTwice(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(`{"hosts":["x"],"debug":true,"data-root":"/x","runtimes":{"tls":{}},"icc":false,` +
		`"default-ulimits":{"nofile":{}},"proxies":{"http-proxy":"x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := f.Twice([]string{
		"-H", "fd://", "-D", "--data-root=/y", "--add-runtime", "runsc=/r", "--iccx", "--tls",
		"--default-ulimit=nofile=1", "--http-proxy", "y",
	})
	if !reflect.DeepEqual(got, []string{"hosts", "debug", "data-root", "default-ulimits", "http-proxy"}) {
		t.Error(got)
	}
}

// TestRevert covers case DJ-14.
func TestRevert(t *testing.T) {
	t.Parallel()
	set := func(in string) string {
		f, err := Parse([]byte(in))
		if err != nil || f.SetRuntime("runsc", ours) != nil {
			t.Fatal(err)
		}
		return string(f.Bytes())
	}
	for _, c := range []struct {
		name, before string
		change       func(string) string
		want         string
		ok           bool
	}{
		{"one line", `{"debug":true}`, same, `{"debug":true}`, true},
		{"lines", "{\n  \"debug\": true\n}\n", same, "{\n  \"debug\": true\n}\n", true},
		{"file of ours", "", same, "", true},
		{
			"key added since", "{\n  \"debug\": true\n}\n", func(s string) string { return strings.Replace(s, "{", "{\n  \"icc\": false,", 1) },
			"{\n  \"icc\": false,\n  \"debug\": true\n}\n", true,
		},
		{
			"runtime added since", `{"debug":true}`, func(s string) string { return strings.Replace(s, `"runtimes":{`, `"runtimes":{"x":{"path":"/x"},`, 1) },
			`{"debug":true,"runtimes":{"x":{"path":"/x"}}}`, true,
		},
		{"entry leads elsewhere", `{"a":1}`, func(s string) string { return strings.Replace(s, "/usr/local/lib", "/opt", 1) }, "", false},
		{"removed since", `{"a":1}`, func(string) string { return `{"a": 1}` }, `{"a": 1}`, true},
		{"empty runtimes stay", `{"runtimes":{}}`, same, `{"runtimes":{}}`, true},
	} {
		var before []byte
		if c.before != "" {
			before = []byte(c.before)
		}
		after := set(c.before)
		next, ok, err := Revert("runsc", before, []byte(after), []byte(c.change(after)))
		if err != nil || ok != c.ok || string(next) != c.want {
			t.Errorf("%s: %v, %v\n got %q\nwant %q", c.name, err, ok, next, c.want)
		}
	}
}

// TestRevertRefuses: what somebody relies on isn't taken away behind their back.
func TestRevertRefuses(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(`{"a":1}`))
	if err == nil {
		err = f.SetRuntime("runsc", ours)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, now, want string }{
		"more arguments":  {"systrap", "kvm", "somebody has changed the runtime runsc"},
		"default runtime": {`"a":1`, `"a":1,"default-runtime":"runsc"`, "default-runtime names runsc"},
		"broken":          {`"a":1`, `"a":1,,`, "line 1, column 8"},
	} {
		now := strings.Replace(string(f.Bytes()), c.old, c.now, 1)
		next, ok, err := Revert("runsc", []byte(`{"a":1}`), f.Bytes(), []byte(now))
		if ok || next != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q %v %v", name, next, ok, err)
		}
	}
}

func same(s string) string { return s }

// TestRandomFiles: in whatever file, every other key keeps its bytes and its place,
// and taking the runtime out again gives the file that was there.
func TestRandomFiles(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 1))
	for range 20000 {
		text := randomObject(r, 0)
		checkEdit(t, []byte(text))
	}
}

func checkEdit(t *testing.T, data []byte) {
	t.Helper()
	f, err := Parse(data)
	if err != nil {
		return
	}
	before := f.others()
	had, _ := f.Runtime("runsc")
	if err := f.SetRuntime("runsc", ours); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	out := f.Bytes()
	if !json.Valid(out) || !f.Has("runsc", ours) || !reflect.DeepEqual(before, f.others()) {
		t.Fatalf("%q became %q", data, out)
	}
	if had != nil || f.Converted != "" {
		return
	}
	next, ok, err := Revert("runsc", data, out, out)
	if err != nil || !ok {
		t.Fatalf("%q can't be taken out of %q: %v", data, out, err)
	}
	again, err := Parse(next)
	if err != nil || !reflect.DeepEqual(before, again.others()) {
		t.Fatalf("%q became %q and then %q", data, out, next)
	}
	if len(before) > 0 && !strings.Contains(string(data), "runtimes") && string(next) != string(data) {
		t.Fatalf("%q came back as %q", data, next)
	}
}

func randomObject(r *rand.Rand, depth int) string {
	ws := func() string { return []string{"", " ", "\n", "\n  ", "\t", "\r\n    "}[r.IntN(6)] }
	var b strings.Builder
	b.WriteString(ws() + "{" + ws())
	n := r.IntN(4)
	for i := range n {
		key := []string{"debug", "runtimes", "a", "é", `q\"{`, "default-runtime", "x,y", `\u0072`}[r.IntN(8)]
		value := []string{"true", "null", "9007199254740993", "-1.50e+3", `"a\\"`, `"}{,\""`, "[1, {\"a\":[]}]", `"&<>"`}[r.IntN(8)]
		if depth < 3 && r.IntN(2) == 0 {
			value = randomObject(r, depth+1)
		}
		fmt.Fprintf(&b, "\"%s\"%s:%s%s%s", key, ws(), ws(), value, ws())
		if i < n-1 {
			b.WriteString("," + ws())
		}
	}
	b.WriteString("}" + ws())
	return b.String()
}

func FuzzEdit(f *testing.F) {
	files, err := dockerdtest.Files()
	if err != nil {
		f.Fatal(err)
	}
	for _, data := range files {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkEdit(t, data)
		if file, err := Parse(data); err == nil {
			file.Refusals(nil)
		}
	})
}
