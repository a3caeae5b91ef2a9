package host

import (
	"path"
	"slices"
	"strings"
)

// mounts are the places where something is mounted, as the kernel lists them; nil
// where that isn't known.
func (c Config) mounts() []string {
	data, _ := c.Host.ReadFile("/proc/self/mountinfo") // only a fix is the worse for it
	var out []string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 {
			out = append(out, unescape.Replace(f[4]))
		}
	}
	return out
}

// unescape undoes what the kernel does to names of mounts.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountOf is the mount that a path is on, "" where that isn't known.
func (c Config) mountOf(p string) string {
	if real, err := c.Host.Resolve(p); err == nil {
		p = real
	}
	all := c.mounts()
	for dir := path.Clean(p); ; dir = path.Dir(dir) {
		if slices.Contains(all, dir) {
			return dir
		}
		if dir == "/" || dir == "." {
			return ""
		}
	}
}
