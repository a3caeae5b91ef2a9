package smoke

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func identityEntries() []Entry {
	return []Entry{
		{
			ID: "A1-runtime", Group: GroupIdentity, Quick: true, Root: true,
			Title:   "what runs outside is the registered runtime",
			Control: "the sandbox's processes must be found by its job's id, which has the nonce",
			Weak:    underRunc, Inside: []string{"A2-kernel"}, Watch: watchRuntime, Judge: seenOutside,
		},
		{
			ID: "A1-seccomp", Group: GroupIdentity, Quick: true, Root: true,
			Title:   "every thread of the sandbox's kernel is behind a filter of system calls",
			Control: "the threads must be there to be looked at",
			Weak:    []string{"runc-no-seccomp", "runc-suid"}, Inside: []string{"A2-kernel"}, Watch: watchSeccomp, Judge: seenOutside,
		},
		{
			ID: "A1-namespaces", Group: GroupIdentity, Quick: true, Root: true,
			Title:   "the sandbox's kernel is in namespaces of its own",
			Control: "the host's own namespaces are read in the same way",
			Weak:    also(underRunc, "host-network"), Inside: []string{"A2-kernel"}, Watch: watchNamespaces,
			Judge: seenOutside,
		},
		{
			ID: "A2-kernel", Group: GroupIdentity, Quick: true, Title: "the kernel that answers is not the host's",
			Control: "the host's own boot id is read and must be there",
			Weak:    underRunc, Inside: []string{"A2-kernel"}, Judge: ownKernel,
		},
		{
			ID: "A2-fresh", Group: GroupIdentity, Title: "two sandboxes have two kernels",
			Control: "both must tell a boot id", Weak: underRunc, Alone: freshKernel,
		},
		{
			ID: "A3-errno", Group: GroupIdentity, Quick: true, Title: "system calls are answered as the runtime answers them",
			Control: "what Linux itself answers is known too: nine of twelve must be one or the other",
			Weak:    underRunc, Inside: []string{"A3-errno"}, Judge: fingerprint,
		},
		{
			ID: "A4-hardware", Group: GroupIdentity, Quick: true, Title: "nothing of the host's hardware shows",
			Control: "the host's own lists are read and must not be empty",
			Weak:    underRunc, Inside: []string{"A4-hardware"}, Judge: noHardware,
		},
	}
}

// seenOutside holds when what was looked at from outside did.
func seenOutside(c *Case) Outcome { return c.Live.seen(c.Entry.ID) }

// ownKernel compares the sandbox's kernel with the host's.
func ownKernel(c *Case) Outcome {
	host, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id := c.Find("A2-kernel", "boot-id")
	switch {
	case err != nil:
		return Outcome{CouldNotRun, "read the host's boot id: " + err.Error()}
	case id == nil || id.Errno != "" || len(id.Answer) != 36:
		return Outcome{CouldNotRun, "the sandbox has no boot id"}
	case id.Answer == strings.TrimSpace(string(host)):
		return Outcome{Broken, "its boot id is the host's"}
	}
	return c.justStarted()
}

// justStarted says whether the kernel is as old as its sandbox.
func (c *Case) justStarted() Outcome {
	l := c.Find("A2-kernel", "uptime")
	if l == nil || l.Errno != "" {
		return Outcome{CouldNotRun, "the sandbox tells no uptime"}
	}
	text, _, _ := strings.Cut(l.Answer, " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Outcome{CouldNotRun, fmt.Sprintf("its uptime is %.40q", l.Answer)}
	}
	if up := time.Duration(seconds * float64(time.Second)); up > sessionTime {
		return Outcome{Broken, fmt.Sprintf("its kernel is up for %v already", up.Round(time.Second))}
	}
	return Outcome{Verdict: Held}
}

// freshKernel compares the kernels of two sandboxes.
func freshKernel(ctx context.Context, b *Bench) Outcome {
	seen := map[string]bool{}
	for _, name := range []string{"first", "second"} {
		lines, _, err := b.Run(ctx, Session{Name: "kernel-" + name, Inside: []string{"A2-kernel"}})
		if err != nil {
			return Outcome{CouldNotRun, err.Error()}
		}
		id := (&Case{Lines: lines}).Find("A2-kernel", "boot-id")
		if id == nil || id.Errno != "" || len(id.Answer) != 36 {
			return Outcome{CouldNotRun, "a sandbox has no boot id"}
		}
		seen[id.Answer] = true
	}
	if len(seen) != 2 {
		return Outcome{Broken, "both have the same boot id"}
	}
	return Outcome{Verdict: Held}
}

// answers of a kind of kernel: the errors of a call, and what it says otherwise.
type answer struct{ sub, gvisor, linux string }

// fingerprints are calls that the two answer differently. Linux has more than one
// answer where a filter may be in front of it.
var fingerprints = []answer{
	{"add_key", "EACCES", " EPERM"},
	{"name_to_handle_at", "ENOTSUP EOPNOTSUPP", " EPERM"},
	{"perf_event_open", "ENODEV", " EPERM EACCES"},
	{"vmsplice", "ENOSYS", "EBADF"},
	{"memfd_secret", "ENOSYS", " EPERM"},
	{"landlock", "ENOSYS", " EOPNOTSUPP EPERM"},
	{"syslog", "", "EPERM"},
	{"personality", "EINVAL", " EPERM"},
	{"vsock", "EAFNOSUPPORT", " EPERM"},
	{"netlink-netfilter", "EPROTONOSUPPORT", ""},
	{"statfs", "=0x1021997 =0x794c7630", "="},
	{"namespace", "=2 =3 =4 =5 =6 =7", "=40265"},
}

// agree is how many of the fingerprints have to.
const agree = 9

// fingerprint counts which kernel the answers are of.
func fingerprint(c *Case) Outcome {
	own, other := 0, 0
	var odd []string
	for _, f := range fingerprints {
		l := c.Find("A3-errno", f.sub)
		if l == nil {
			return Outcome{CouldNotRun, f.sub + " is missing"}
		}
		switch {
		case matches(f.gvisor, l.Errno, l.Answer):
			own++
		case matches(f.linux, l.Errno, l.Answer):
			other++
			fallthrough
		default:
			odd = append(odd, strings.TrimSpace(f.sub+" "+l.Errno+" "+l.Answer))
		}
	}
	if c.Bench.Family() != GVisor {
		own, other = other, own
	}
	why := fmt.Sprintf("%d of %d answers are the runtime's, %d another kernel's: %s", own, len(fingerprints), other, join(odd))
	switch {
	case own >= agree:
		return Outcome{Verdict: Held}
	case other >= agree:
		return Outcome{Broken, why}
	}
	return Outcome{CouldNotRun, why}
}

// matches says whether an answer is in a list of errors, "" being success, or begins
// with one of its values, written "=VALUE".
func matches(list, errno, text string) bool {
	for _, want := range strings.Split(list, " ") {
		value, isValue := strings.CutPrefix(want, "=")
		if isValue && errno == "" && strings.HasPrefix(text, value) || !isValue && want == errno {
			return true
		}
	}
	return false
}

// noHardware compares what there is with what the host has.
func noHardware(c *Case) Outcome {
	var broken, unsure []string
	seen := 0
	for _, dir := range []string{"/sys/block", "/sys/class/net", "/sys/class/dmi/id", "/sys/bus/pci/devices"} {
		l := c.Find("A4-hardware", dir)
		if l == nil || l.Errno != "" && l.Errno != "ENOENT" {
			unsure = append(unsure, dir+" can't be read")
			continue
		}
		entries, _ := os.ReadDir(dir) // what the host doesn't have can't show
		for _, e := range entries {
			if e.Name() == "lo" {
				continue
			}
			seen++
			if strings.Contains(" "+l.Answer+" ", " "+e.Name()+" ") {
				broken = append(broken, dir+" shows the host's "+e.Name())
			}
		}
	}
	if seen == 0 {
		unsure = append(unsure, "the host itself shows no hardware")
	}
	return verdict(broken, unsure)
}
