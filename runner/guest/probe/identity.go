package probe

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

var identity = []Probe{
	{ID: "A2-kernel", Run: kernelIdentity},
}

// kernelIdentity says which kernel answers.
func kernelIdentity(c *Context) {
	c.Try("uname", func() (string, error) {
		var u unix.Utsname
		err := unix.Uname(&u)
		return unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Version[:]), err
	})
	c.Try("boot-id", func() (string, error) { return readLine("/proc/sys/kernel/random/boot_id") })
	c.Try("uptime", func() (string, error) { return readLine("/proc/uptime") })
	c.Try("version", func() (string, error) { return readLine("/proc/version") })
	c.Try("btime", func() (string, error) {
		data, err := os.ReadFile("/proc/stat")
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, "btime "); ok {
				return strings.TrimSpace(rest), nil
			}
		}
		return "", err
	})
}

func readLine(path string) (string, error) {
	data, err := os.ReadFile(path)
	return strings.TrimSpace(string(data)), err
}
