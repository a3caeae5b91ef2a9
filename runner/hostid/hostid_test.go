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
	id, boot := hostid.ID(), hostid.Boot()
	if hostid.ID() != id || hostid.Boot() != boot || id == boot {
		t.Error("the names change, or are the same")
	}
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || strings.Contains(string(content), boot) {
		t.Error("the name gives the boot id away", err)
	}
}
