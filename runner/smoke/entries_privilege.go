package smoke

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/job"
)

// refused are the errors of what a capability would be needed for.
var refused = []string{"EPERM"}

func privilegeEntries() []Entry {
	return slices.Concat(capabilityEntries(), callEntries(), agentEntries())
}

func capabilityEntries() []Entry {
	attempt := func(subs ...string) func(*Case) Outcome {
		return expects(map[Family][]Expect{
			GVisor: each("B1-attempts", refused, subs...), Shared: each("B1-attempts", refused, subs...),
		})
	}
	const control = "tried with valid arguments on files of the job's own, which could be made before and after"
	return []Entry{
		{
			ID: "B1-masks", Group: GroupPrivilege, Quick: true, Title: "a job has no capability in any set",
			Control: "the sets are asked for in two ways, and both must answer",
			Weak:    also(keptCaps, privileged...), Inside: []string{"B1-masks"}, Judge: noCapabilities,
		},
		{
			ID: "B1-files", Group: GroupPrivilege, Quick: true, Title: "a job can't give files away, make nodes, mount or change its root",
			Control: control, Weak: also(keptCaps, privileged...), Inside: []string{"B1-attempts"},
			Judge: attempt("chown", "mknod", "chroot", "mount"),
		},
		{
			ID: "B1-users", Group: GroupPrivilege, Quick: true, Title: "a job can't become another user",
			Control: control, Weak: also(also(keptCaps, privileged...), "root"), Inside: []string{"B1-attempts"},
			Judge: attempt("setuid", "setgid", "setgroups"),
		},
		{
			ID: "B1-system", Group: GroupPrivilege, Quick: true, Title: "a job can't change its host's name, clock or limits",
			Control: control, Weak: also(keptCaps, privileged...), Inside: []string{"B1-attempts"},
			Judge: attempt("sethostname", "settime", "rlimit"),
		},
		{
			ID: "B1-packets", Group: GroupPrivilege, Quick: true, Title: "a job can't read or forge packets",
			Control: control, Weak: also(privileged, "cap-net-raw", "caps"), Inside: []string{"B1-attempts"},
			Judge: attempt("packet", "raw"),
		},
		{
			ID: "B2-nnp", Group: GroupPrivilege, Quick: true, Title: "no program can give a job new privileges",
			Control: "the switch is read in two ways", Weak: []string{"suid", "runc-suid"}, Inside: []string{"B2-nnp"},
			Judge: func(c *Case) Outcome { return c.facts("B2-nnp", map[string]string{"status": "1", "prctl": "1"}) },
		},
		{
			ID: "B2-setuid", Group: GroupPrivilege, Quick: true, Title: "programs with the setuid bit run as the job",
			Control: "there must be such programs, and each must be seen running",
			Weak:    []string{"suid", "runc-suid"},
			Inside:  []string{"B2-setuid", "B1-masks"}, Judge: setuid, Skip: map[string]string{
				"docker-runsc": "an image needn't have programs with the setuid bit; gVisor heeds none unless it is registered with " +
					"--allow-suid, which is refused",
			},
		},
		{
			ID: "B5-ids", Group: GroupPrivilege, Quick: true,
			Title:   "a job is the user of its image, without one nobody special, in no other group, and never root of the host's kernel",
			Control: "the agent's own id must be another",
			Weak:    []string{"root", "agent-exposed", "agent-secret", "runc-root", "runc-kernel"},
			AsRoot:  []string{"root", "runc-root", "runc-kernel"},
			Inside:  []string{"B5-ids"}, Judge: ordinary,
		},
	}
}

// noCapabilities reads the masks.
func noCapabilities(c *Case) Outcome {
	var broken, unsure []string
	for _, name := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "capget"} {
		l := c.Find("B1-masks", name)
		switch {
		case l == nil || l.Errno != "" || l.Answer == "" || strings.Trim(l.Answer, "0123456789abcdef ") != "":
			unsure = append(unsure, name+" can't be read")
		case strings.Trim(l.Answer, "0 ") != "":
			broken = append(broken, name+" is "+l.Answer)
		}
	}
	return verdict(broken, unsure)
}

// facts compares what was found with what must be.
func (c *Case) facts(id string, want map[string]string) Outcome {
	var broken, unsure []string
	for sub, value := range want {
		l := c.Find(id, sub)
		switch {
		case l == nil || l.Errno != "" || l.Answer == "":
			unsure = append(unsure, sub+" can't be read")
		case l.Answer != value:
			broken = append(broken, fmt.Sprintf("%s is %.80q", sub, l.Answer))
		}
	}
	slices.Sort(broken)
	return verdict(broken, unsure)
}

// setuid looks as whom the programs ran: as whoever the job is.
func setuid(c *Case) Outcome {
	var broken, unsure []string
	ran := 0
	own := c.Find("B2-setuid", "own")
	if own == nil || own.Answer == "" {
		return Outcome{CouldNotRun, "who the job is can't be read"}
	}
	for _, l := range c.Lines {
		if !strings.HasPrefix(l.Sub, "/") {
			continue
		}
		real, effective, seen := strings.Cut(l.Answer, " ")
		switch {
		case !seen: // it ended before
		case effective == own.Answer:
			ran++
		case real != own.Answer && noCapabilities(c).Verdict == Broken: // it had the right to change it by itself
		default:
			broken = append(broken, l.Sub+" ran as "+effective)
		}
	}
	if l := c.Find("B2-setuid", "found"); l != nil && l.Answer == "0" {
		if c.Bench.root.Kind == job.RootImage {
			return Outcome{NotApplicable, "the image has no program with the setuid bit"}
		}
		if !setuidOnHost() {
			return Outcome{NotApplicable, "this host has no program with the setuid bit to show to a job"}
		}
	}
	if ran+len(broken) == 0 {
		unsure = append(unsure, "no program with the setuid bit could be seen running")
	}
	return verdict(broken, unsure)
}

// setuidOnHost says whether there is such a program where a job would find it.
func setuidOnHost() bool {
	for _, dir := range probe.SetuidDirs() {
		entries, _ := os.ReadDir(dir) // without it there are none in it
		for _, e := range entries {
			if fi, err := e.Info(); err == nil && fi.Mode()&os.ModeSetuid != 0 {
				return true
			}
		}
	}
	return false
}

// ordinary says whether a job is who it is meant to be. Root of a sandbox that has a
// kernel of its own is nobody outside; with the host's kernel it is root there.
func ordinary(c *Case) Outcome {
	get := func(sub string) []string {
		if l := c.Find("B5-ids", sub); l != nil && l.Errno == "" {
			return strings.Fields(l.Answer)
		}
		return nil
	}
	user := c.Bench.user
	uid, gid := fmt.Sprint(user.UID), fmt.Sprint(user.GID)
	groups := []string{gid}
	for _, g := range user.Groups {
		groups = append(groups, fmt.Sprint(g))
	}
	uids, gids, agent := get("uid"), get("gid"), get("agent")
	var broken, unsure []string
	if len(uids) != 2 || len(gids) != 2 || c.Find("B5-ids", "groups") == nil {
		unsure = append(unsure, "its ids can't be read")
	}
	for _, id := range uids {
		if id != uid {
			broken = append(broken, fmt.Sprintf("its uid is %.20s instead of %s", id, uid))
		}
	}
	for _, id := range append(gids, get("groups")...) {
		if !slices.Contains(groups, id) {
			broken = append(broken, fmt.Sprintf("it is in the group %.20s", id))
		}
	}
	if c.Bench.AsRoot() && c.Bench.Family() == Shared {
		broken = append(broken, "it is root of the host's kernel")
	}
	if len(agent) != 4 || len(uids) == 0 {
		unsure = append(unsure, "whose the agent is can't be read")
	} else if slices.Contains(agent, uids[0]) {
		broken = append(broken, "the agent has its uid "+uids[0])
	}
	return verdict(slices.Compact(broken), unsure)
}
