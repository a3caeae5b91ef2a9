package toolchain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/job"
)

// standardPath is where hosts keep their tools.
var standardPath = []string{
	"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/go/bin",
}

// Path is the job's PATH: the operator's own entries as far as a job can see
// them, in their order and at their place in the sandbox, then the standard ones.
func Path(operator string, mounts []job.Mount) string {
	shown := append([]job.Mount{
		{Source: "/usr", Target: "/usr"},
		{Source: "/bin", Target: "/bin"},
		{Source: "/sbin", Target: "/sbin"},
	}, mounts...)
	var out []string
	add := func(dir string) {
		if !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	for _, dir := range filepath.SplitList(operator) {
		for _, m := range shown {
			if filepath.IsAbs(dir) && job.Within(filepath.Clean(dir), m.Source) {
				add(m.Target + strings.TrimPrefix(filepath.Clean(dir), m.Source))
				break
			}
		}
	}
	for _, dir := range standardPath {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			add(dir)
		}
	}
	return strings.Join(out, ":")
}
