package toolchain

import (
	"os"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/job"
)

func TestPath(t *testing.T) {
	t.Parallel()
	var standard []string
	for _, d := range standardPath {
		if _, err := os.Stat(d); err == nil {
			standard = append(standard, d)
		}
	}
	mounts := []job.Mount{{Source: "/root/tools", Target: "/opt/tools"}}
	for operator, first := range map[string]string{
		"":                                  "",
		"/root/bin:/usr/games":              "/usr/games:",
		"/root/tools/bin:/root/toolsother":  "/opt/tools/bin:",
		"bin:.:/usr/../root:/usr/x/:/usr/x": "/usr/x:",
	} {
		if got, want := Path(operator, mounts), first+strings.Join(standard, ":"); got != want {
			t.Errorf("%q: got %s, want %s", operator, got, want)
		}
	}
	if got := Path("/bin:/usr/bin", nil); !strings.HasPrefix(got, "/bin:/usr/bin:") || strings.Count(":"+got+":", ":/bin:") != 1 {
		t.Errorf("the operator's order is lost or an entry doubled: %s", got)
	}
}
