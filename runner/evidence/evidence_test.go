package evidence_test

import (
	"slices"
	"testing"

	"github.com/quavon/quavon/runner/evidence"
)

func TestEqual(t *testing.T) {
	t.Parallel()
	was := evidence.Bound{BootID: "b", Kernel: "k", RuntimeDigest: "d", RuntimeArgs: []string{"-a"}, LockDigest: "l", PolicyDigest: "p"}
	same := was
	same.RuntimeArgs = slices.Clone(was.RuntimeArgs)
	if !was.Equal(same) {
		t.Error("the same isn't equal")
	}
	for name, change := range map[string]func(*evidence.Bound){
		"boot":    func(b *evidence.Bound) { b.BootID = "x" },
		"kernel":  func(b *evidence.Bound) { b.Kernel = "x" },
		"runtime": func(b *evidence.Bound) { b.RuntimeDigest = "x" },
		"args":    func(b *evidence.Bound) { b.RuntimeArgs = []string{"-a", "-b"} },
		"lock":    func(b *evidence.Bound) { b.LockDigest = "" },
		"policy":  func(b *evidence.Bound) { b.PolicyDigest = "x" },
	} {
		now := was
		if change(&now); was.Equal(now) {
			t.Errorf("%s: it is still the same", name)
		}
	}
}
