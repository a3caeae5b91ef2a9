package probe

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var control = []Probe{
	reaching("H1-services"),
	{ID: "H2-secrets", Run: findSecrets},
}

// CanaryPrefix begins every secret that is planted to be found. It is put together, so
// that this program's own file has none.
func CanaryPrefix() string { return strings.Join([]string{"quavon", "canary", ""}, ".") }

// findSecrets looks for planted secrets in what a job can read.
func findSecrets(c *Context) {
	c.Try("control", func() (string, error) {
		path := c.Scratch("secret")
		if err := os.WriteFile(path, []byte("A="+CanaryPrefix()+"CONTROL\x00"), 0o600); err != nil {
			return "", err
		}
		defer func() { _ = os.Remove(path) }()
		return secretIn(path)
	})
	c.Try("environment", func() (string, error) { return secretIn("/proc/*/environ") })
	c.Try("command-lines", func() (string, error) { return secretIn("/proc/*/cmdline") })
	c.Try("files", func() (string, error) {
		return secretIn("/run/*", "/run/secrets/*", "/etc/*", "/root/*", "/root/.*", "/home/*/*", "/home/*/.*", "/*",
			"/workspace/.env*", "/mnt/*", "/opt/*", "/srv/*")
	})
}

// maxSecretFile bounds what is read of a file.
const maxSecretFile = 256 << 10

// secretIn returns the first secret in files that match; ENOENT is none.
func secretIn(patterns ...string) (string, error) {
	for _, p := range patterns {
		files, err := filepath.Glob(p)
		if err != nil {
			return "", err
		}
		for _, f := range files {
			if s := secretOf(f); s != "" {
				return s + " in " + f, nil
			}
		}
	}
	return "", unix.ENOENT
}

func secretOf(path string) string {
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data := make([]byte, maxSecretFile)
	n, _ := f.Read(data) // what came is looked at
	_, rest, found := bytes.Cut(data[:n], []byte(CanaryPrefix()))
	if !found {
		return ""
	}
	end := bytes.IndexFunc(rest, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') })
	if end < 0 {
		end = len(rest)
	}
	return CanaryPrefix() + string(rest[:end])
}
