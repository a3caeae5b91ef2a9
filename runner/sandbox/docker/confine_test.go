package docker

import (
	"slices"
	"testing"

	"github.com/docker/docker/api/types/container"
)

// Case GV-10: gVisor doesn't know SELinux, so its containers, and only they, go
// without labels where the engine has it.
func TestConfineSELinux(t *testing.T) {
	t.Parallel()
	for _, selinux := range []bool{true, false} {
		var h container.HostConfig
		(&Backend{Config: Config{Name: Runsc}}).confine(&h, &engine{selinux: selinux})
		if got := slices.Contains(h.SecurityOpt, "label=disable"); got != selinux {
			t.Errorf("an engine with SELinux %t: %q", selinux, h.SecurityOpt)
		}
	}
}
