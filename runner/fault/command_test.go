package fault_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/fault"
)

// TestWords has a shell read words again.
func TestWords(t *testing.T) {
	t.Parallel()
	words := []string{"plain/word-1.2,x=y", "", "a b", "it's", "$HOME", "`id`", "a\nb", "*", "~", "\\", "a;b", "#", "\"x\"", "é"}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\0' "+fault.Words(words...)).Output()
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || strings.Join(got, "|") != strings.Join(words, "|") {
		t.Errorf("a shell reads %q of %q: %v", got, fault.Words(words...), err)
	}
	if got := fault.Command("chmod", "600", "/a"); got != "`chmod 600 /a`" {
		t.Error(got)
	}
}
