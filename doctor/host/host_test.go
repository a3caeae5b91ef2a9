package host

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/quavon/quavon/doctor"
)

func TestRegistry(t *testing.T) {
	t.Parallel()
	if err := doctor.Validate(Checks(load(t, new(txtar.Archive)).config())); err != nil {
		t.Fatal(err)
	}
}

// TestGoodHost shows that every check can pass.
func TestGoodHost(t *testing.T) {
	t.Parallel()
	for _, r := range doctor.Run(t.Context(), Checks(load(t, new(txtar.Archive)).config()), nil).Results {
		if r.State != doctor.Pass {
			t.Errorf("%s (%s) on a good host: %s %s %q", r.Code, r.Name, r.State, r.Message, r.Details)
		}
	}
}

// TestStates shows each other state of each check, on a host that differs from the
// good one by what the case says.
func TestStates(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			over, want := readCase(t, file)
			checks := Checks(load(t, over).config())
			c, err := doctor.Find(checks, want["code"])
			if err != nil {
				t.Fatal(err)
			}
			got := doctor.Run(t.Context(), []*doctor.Check{alone(c)}, nil).Results[0]
			if string(got.State) != want["state"] {
				t.Errorf("%s, want %s: %s %q", got.State, want["state"], got.Message, got.Details)
			}
			text := got.Message + "\n" + strings.Join(got.Details, "\n")
			if want["says"] == "" || !strings.Contains(text, want["says"]) {
				t.Errorf("says %q, want %q", text, want["says"])
			}
			if !strings.Contains(got.Fix, want["fix"]) {
				t.Errorf("fix %q, want %q", got.Fix, want["fix"])
			}
			if (got.State == doctor.Fail || got.State == doctor.Warn) && got.Fix == "" {
				t.Error("there is no fix")
			}
		})
	}
}

// alone is a check whose needs are taken for met.
func alone(c *doctor.Check) *doctor.Check {
	one := *c
	one.Needs = nil
	return &one
}

// TestEveryCheckCanFail keeps a check from being one that can't.
func TestEveryCheckCanFail(t *testing.T) {
	t.Parallel()
	broken := map[string]bool{}
	files, _ := filepath.Glob("testdata/cases/*.txtar")
	for _, file := range files {
		if _, want := readCase(t, file); want["state"] == "fail" || want["state"] == "warn" {
			broken[want["code"]] = true
		}
	}
	for _, c := range Checks(Config{}) {
		if !broken[c.Code] {
			t.Errorf("no case in testdata shows %s (%s) failing", c.Code, c.Name)
		}
	}
}
