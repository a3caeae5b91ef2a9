package runsc

import (
	"debug/buildinfo"
	"os/exec"
	"strings"
)

const gvisorModule = "gvisor.dev/gvisor"

// version names the gVisor that a binary was built from. The build information
// is read from the file, since running runsc takes as long as half a job's
// start; upstream's own builds have none and are asked.
func version(binary string) string {
	if info, err := buildinfo.ReadFile(binary); err == nil {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == gvisorModule && m.Version != "" && m.Version != "(devel)" {
				return "gvisor " + m.Version
			}
		}
	}
	out, err := exec.Command(binary, "--version").Output()
	if err != nil {
		return "gvisor of unknown version"
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return "gvisor " + strings.TrimPrefix(first, "runsc version ")
}
