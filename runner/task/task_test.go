package task

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

func good() Task {
	return Task{
		Spec: job.Spec{
			ID: "a", Root: job.Root{Kind: job.RootHost}, Steps: []job.Step{{Argv: []string{"true"}}},
			Collect: []string{"out/**"}, Changes: job.ChangesContent,
		},
		Workspace: true, RepoPath: "sub/dir/", Outbox: &Outbox{Path: "a/outbox", Kinds: []string{"note"}},
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	payload, err := good().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(payload); err != nil {
		t.Fatalf("a good task: %v", err)
	}
	for name, edit := range map[string]func(*Task){
		"mounts":                   func(t *Task) { t.Spec.Mounts = []job.Mount{{Source: "/etc", Target: "/data", Mode: "ro"}} },
		"no steps":                 func(t *Task) { t.Spec.Steps = nil },
		"terminal":                 func(t *Task) { t.Spec.Steps[0].TTY = true },
		"files without workspace":  func(t *Task) { t.Workspace, t.Spec.Changes = false, "" },
		"patch without workspace":  func(t *Task) { t.Workspace, t.Spec.Collect, t.Outbox = false, nil, nil },
		"place leaves":             func(t *Task) { t.RepoPath = "../" },
		"place absolute":           func(t *Task) { t.RepoPath = "/etc/" },
		"place without slash":      func(t *Task) { t.RepoPath = "a" },
		"outbox leaves":            func(t *Task) { t.Outbox.Path = "../x" },
		"outbox is a pattern":      func(t *Task) { t.Outbox.Path = "**" },
		"outbox kind":              func(t *Task) { t.Outbox.Kinds = []string{"A b"} },
		"outbox is the workspace":  func(t *Task) { t.Outbox.Path = "." },
		"outbox is absolute":       func(t *Task) { t.Outbox.Path = "/etc/passwd" },
		"outbox has a zero byte":   func(t *Task) { t.Outbox.Path = "a\x00b" },
		"outbox isn't clean":       func(t *Task) { t.Outbox.Path = "a//b" },
		"outbox with no path":      func(t *Task) { t.Outbox.Path = "" },
		"image by tag":             func(t *Task) { t.Spec.Root = job.Root{Kind: job.RootImage, Image: "debian:12"} },
		"root without a kind":      func(t *Task) { t.Spec.Root.Kind = "" },
		"limit without any sense":  func(t *Task) { t.Spec.Limits.Memory = 1 },
		"network of another world": func(t *Task) { t.Spec.Steps[0].Network = "host" },
	} {
		bad := good()
		edit(&bad)
		payload, err := bad.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(payload); fault.Code(err) != string(job.ReasonRejected) || fault.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"no JSON": "x", "nothing": "", "unknown field": strings.Replace(string(payload), "{", `{"privileged":true,`, 1), "two": string(payload) + "{}",
	} {
		if _, err := Decode([]byte(text)); fault.Code(err) != string(job.ReasonRejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	long := `{"kind":"note","text":"` + strings.Repeat("a", maxOutboxLine) + `"}`
	for name, c := range map[string]struct {
		text    string
		kinds   []string
		lines   int
		refused string
	}{
		"good":              {text: `{"kind":"note"}` + "\n" + ` {"kind":"fact","n":1} ` + "\n", lines: 2},
		"no newline":        {text: `{"kind":"note"}`, lines: 1},
		"empty lines":       {text: "\n\n" + `{"kind":"note"}` + "\n \n", lines: 1},
		"empty":             {text: ""},
		"not wanted":        {text: `{"kind":"fact"}` + "\n" + `{"kind":"note"}`, kinds: []string{"note"}, lines: 1, refused: "1 nobody asked"},
		"no kind":           {text: `{"Kind":1}` + "\n" + `{}`, refused: "1 its \"kind\" 2 its \"kind\""},
		"no object":         {text: "x\n[1]\nnull\n1\n\"a\"", refused: "1 it is not a JSON 2 it is not a JSON 3 it is not a JSON 4 it is not a JSON 5 it is not a JSON"},
		"no UTF-8":          {text: "{\"kind\":\"note\",\"a\":\"\xff\"}\n" + `{"kind":"note"}`, lines: 1, refused: "1 it is not UTF-8"},
		"two on a line":     {text: `{"kind":"note"}{"kind":"note"}`, refused: "1 it is not a JSON"},
		"long":              {text: long + "\n" + `{"kind":"note"}`, lines: 1, refused: "1 it has more than"},
		"too many":          {text: strings.Repeat(`{"kind":"note"}`+"\n", maxOutboxLines+5), lines: maxOutboxLines, refused: "1001 the outbox has"},
		"exactly as many":   {text: strings.Repeat(`{"kind":"note"}`+"\n", maxOutboxLines), lines: maxOutboxLines},
		"too much":          {text: strings.Repeat(`{"kind":"note","a":"`+strings.Repeat("b", 60<<10)+"\"}\n", 20), lines: 17, refused: "18 the outbox has"},
		"carriage returns":  {text: "{\"kind\":\"note\"}\r\n", lines: 1},
		"a kind that isn't": {text: `{"kind":"../x"}`, refused: "1 its \"kind\""},
	} {
		o := Outbox{Path: "x", Kinds: c.kinds}
		lines, refused := o.Read(strings.NewReader(c.text))
		got := ""
		for _, r := range refused {
			got += fmt.Sprintf("%d %s; ", r.Line, r.Why)
		}
		if len(lines) != c.lines || !inOrder(got, c.refused) || c.refused == "" && got != "" {
			t.Errorf("%s: %d lines, refused %q; want %d, %q", name, len(lines), got, c.lines, c.refused)
		}
	}
}

// inOrder says whether each "N why" of want begins a part of got.
func inOrder(got, want string) bool {
	parts := strings.Split(got, "; ")
	for i, w := range splitNumbers(want) {
		if i >= len(parts) || !strings.HasPrefix(parts[i], w) {
			return false
		}
	}
	return true
}

func splitNumbers(s string) (list []string) {
	for _, word := range strings.Fields(s) {
		if word[0] >= '0' && word[0] <= '9' {
			list = append(list, word)
		} else {
			list[len(list)-1] += " " + word
		}
	}
	return list
}

func FuzzOutbox(f *testing.F) {
	f.Add([]byte(`{"kind":"note"}` + "\nx\n\n{}"))
	f.Add([]byte(strings.Repeat("a", maxOutboxLine+2)))
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, refused := (&Outbox{Path: "x"}).Read(strings.NewReader(string(text)))
		if len(lines) > maxOutboxLines || len(refused) > maxRefused {
			t.Fatalf("%d lines, %d refused", len(lines), len(refused))
		}
		for _, l := range lines {
			var kind struct{ Kind string }
			if err := json.Unmarshal(l, &kind); err != nil || !validKind.MatchString(kind.Kind) {
				t.Fatalf("taken: %q", l)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	payload, _ := good().Encode()
	f.Add(payload)
	f.Add([]byte(`{"spec":{}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		task, err := Decode(payload)
		if err != nil {
			return
		}
		if len(task.Spec.Mounts) > 0 {
			t.Fatal("mounts")
		}
		if err := task.ForWorkspace("/snapshot").Validate(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestReportIsBounded(t *testing.T) {
	t.Parallel()
	r := Report{Result: job.Result{ID: "a"}}
	for i := range 100_000 {
		r.Changes = append(r.Changes, job.Change{Path: fmt.Sprintf("%0100d", i), Kind: job.Added})
	}
	payload, err := r.Encode()
	if err != nil || len(payload) > 2*maxChanges {
		t.Fatalf("%d bytes, %v", len(payload), err)
	}
	back, err := DecodeReport(payload)
	if err != nil || len(back.Changes)+back.ChangesCut != 100_000 || back.ChangesCut == 0 {
		t.Errorf("%d changes and %d cut, %v", len(back.Changes), back.ChangesCut, err)
	}
}
