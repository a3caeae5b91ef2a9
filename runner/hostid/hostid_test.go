package hostid_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/hostid"
)

func TestNames(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[0-9a-f]{16}$`)
	for what, id := range map[string]string{"host": hostid.ID(), "boot": hostid.Boot()} {
		if !form.MatchString(id) {
			t.Errorf("%s: %q", what, id)
		}
	}
	if hostid.ID() != hostid.ID() || hostid.Boot() != hostid.Boot() || hostid.ID() == hostid.Boot() {
		t.Error("the names change, or are the same")
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || strings.Contains(string(boot), hostid.Boot()) {
		t.Error("the name gives the boot id away", err)
	}
}
