package smoke

import (
	"os"
	"strings"
)

func identityEntries() []Entry {
	return []Entry{
		{
			ID: "A2-kernel", Group: GroupIdentity, Quick: true, Title: "the kernel that answers is not the host's",
			Control: "the host's own boot id is read and must be there",
			Weak:    []string{"runc"}, Inside: []string{"A2-kernel"}, Judge: ownKernel,
		},
	}
}

// ownKernel compares the sandbox's kernel with the host's.
func ownKernel(c *Case) Outcome {
	host, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Outcome{CouldNotRun, "read the host's boot id: " + err.Error()}
	}
	l := c.Find("A2-kernel", "boot-id")
	switch {
	case l == nil || l.Errno != "" || len(l.Answer) != 36:
		return Outcome{CouldNotRun, "the sandbox has no boot id"}
	case l.Answer == strings.TrimSpace(string(host)):
		return Outcome{Broken, "its boot id is the host's"}
	}
	return Outcome{Verdict: Held}
}
