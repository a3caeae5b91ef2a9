// Package hostid names the machine a process is on, so that two processes can find out
// whether they share one.
package hostid

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
)

// ID names the machine over reboots, without giving away its machine-id, which is
// meant to stay on it. Containers mostly have one each: compare Boot too.
func ID() string {
	id, _ := os.ReadFile("/etc/machine-id")
	name, _ := os.Hostname()
	return digest("quavon-sandbox host", cmp.Or(strings.TrimSpace(string(id)), name))
}

// Boot names the running kernel, which all containers of a machine share, "" when that
// can't be found out.
func Boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(id) == 0 {
		return ""
	}
	return digest("quavon-sandbox boot", strings.TrimSpace(string(id)))
}

func digest(what, text string) string {
	sum := sha256.Sum256([]byte(what + "\n" + text))
	return hex.EncodeToString(sum[:8])
}
