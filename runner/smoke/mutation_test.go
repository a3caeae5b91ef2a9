package smoke_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/smoke"
	"github.com/quavon/quavon/runner/smoke/weak"
	"github.com/quavon/quavon/test/need"
)

// atOnce is how many weakened sandboxes are tested at the same time.
const atOnce = 4

// breaks lists what an arm must break, by the catalogue's own word.
func breaks(arm string) []string {
	var ids []string
	for _, e := range smoke.Catalogue() {
		if slices.Contains(e.Weak, arm) {
			ids = append(ids, e.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// asked are the probes that are made in an arm: all that share a sandbox, and of those
// with sandboxes of their own the ones that must be broken. QUAVON_TEST_MUTATIONS=all
// makes the others too.
func asked(arm string) []string {
	var ids []string
	for _, e := range smoke.Catalogue() {
		if e.Alone == nil || slices.Contains(e.Weak, arm) || os.Getenv("QUAVON_TEST_MUTATIONS") == "all" {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// TestMutations runs the probes in every weakened sandbox: exactly those are broken
// that the catalogue says.
func TestMutations(t *testing.T) {
	need.That(t, os.Geteuid() == 0, "root, who alone weakens sandboxes") // as the limits and namespaces they lack
	slots := make(chan struct{}, atOnce)
	for _, a := range weak.Arms {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			broken := brokenIn(t, weakened(t, a.Name), asked(a.Name))
			want := slices.DeleteFunc(breaks(a.Name), func(id string) bool { return id == "B4-compat" && !has32(t) })
			if !slices.Equal(broken, want) {
				t.Errorf("broken  %v\nmust be %v", broken, want)
			}
		})
	}
}

// has32 says whether this machine's kernel answers system calls of 32 bits: without, no
// sandbox that shares it can.
func has32(t *testing.T) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), sandboxtest.Guest(t), probe.SubCommand, "B4-compat", "int80-getpid")
	cmd.Stdin = strings.NewReader(`{"nonce":"n"}` + "\n")
	out, err := cmd.Output()
	var l probe.Line
	if err = errors.Join(err, json.Unmarshal(out, &l)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return l.Errno == ""
}

// brokenIn makes probes, by the same program as everywhere, and lists those that are
// broken.
func brokenIn(t *testing.T, s *smoke.Suite, ids []string) (broken []string) {
	t.Helper()
	r, err := s.Run(t.Context(), smoke.Options{Full: true, Root: true, Only: ids, Bound: bound(t, productionRunner(t).Backend)})
	if err != nil {
		t.Fatal(err)
	}
	if guest := digest(t, sandboxtest.Guest(t)); r.Guest != guest {
		t.Errorf("the probes were made by %s, not by %s", r.Guest, guest)
	}
	for _, x := range r.Results {
		t.Logf("%-16s %-14s %s", x.ID, x.Verdict, x.Why)
		if x.Verdict == smoke.Broken {
			broken = append(broken, x.ID)
		}
	}
	slices.Sort(broken)
	return broken
}

// Every probe is broken somewhere, and every weakened sandbox breaks something.
func TestEachProbeCanFail(t *testing.T) {
	arms := map[string]bool{}
	for _, a := range weak.Arms {
		arms[a.Name] = true
		if breaks(a.Name) == nil {
			t.Errorf("no probe sees what is weak in %s", a.Name)
		}
	}
	for _, e := range smoke.Catalogue() {
		if len(e.Weak) == 0 {
			t.Errorf("%s is not broken in any weakened sandbox", e.ID)
		}
		for _, w := range e.Weak {
			if !arms[w] {
				t.Errorf("%s: there is no weakened sandbox %q", e.ID, w)
			}
		}
	}
}

// digest is a program's, as reports have it.
func digest(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}

func fields(s string) func(func(string) bool) { return strings.FieldsSeq(s) }
