package docker

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// Case GV-09.
func TestJudgeArgs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, weak, unknown string }{
		{"--platform=systrap -debug --overlay2=root:self,size=1g", "", ""},
		{"--platform systrap --network none", "", ""},
		{"--platform=ptrace", "--platform=ptrace", ""},
		{"--network host --debug", "--network host", ""},
		{"-net-raw --allow-suid=false", "-net-raw", ""},
		{"--allow-suid=TRUE --ignore-cgroups=1", "--allow-suid=TRUE --ignore-cgroups=1", ""},
		{"--profile", "--profile", ""},
		{"--host-uds", "--host-uds", ""},
		{"--overlay", "", "--overlay"},
		// A word that is no flag ends the flags: what follows counts for nothing.
		{"--debug run --platform=systrap", "", "run --platform=systrap"},
		{"-- --network=host", "", "-- --network=host"},
		{"---network=host", "", "---network=host"},
	} {
		weak, unknown := JudgeArgs(strings.Fields(c.args))
		if got := strings.Join(weak, " "); got != c.weak {
			t.Errorf("%s: weak %q, want %q", c.args, got, c.weak)
		}
		if got := strings.Join(unknown, " "); got != c.unknown {
			t.Errorf("%s: unknown %q, want %q", c.args, got, c.unknown)
		}
	}
}

// TestFlagsAreGVisors compares the list with what the runsc of this tree says of its
// own flags, so that a new release which drops or renames one is noticed.
func TestFlagsAreGVisors(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), sandboxtest.Runsc(t), "flags").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var theirs []string
	for _, m := range regexp.MustCompile(`(?m)^  -(\S+)`).FindAllStringSubmatch(string(out), -1) {
		theirs = append(theirs, m[1])
	}
	for name := range gvisorFlags {
		if !slices.Contains(theirs, name) {
			t.Errorf("runsc has no flag %s", name)
		}
	}
}
