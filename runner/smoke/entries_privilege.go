package smoke

import "strings"

func privilegeEntries() []Entry {
	return []Entry{
		{
			ID: "B1-masks", Group: GroupPrivilege, Quick: true, Title: "a job has no capability in any set",
			Control: "the sets are asked for in two ways, which must agree",
			Weak:    []string{"caps"}, Inside: []string{"B1-masks"}, Judge: noCapabilities,
		},
		{
			ID: "B1-attempts", Group: GroupPrivilege, Quick: true, Title: "what takes a capability is refused",
			Control: "each is tried with valid arguments on a file of the job's own, which could be made",
			Weak:    []string{"caps"}, Inside: []string{"B1-attempts"},
			Judge: expects(map[Family][]Expect{
				GVisor: each("B1-attempts", []string{"EPERM"},
					"chown", "setuid", "mount", "mknod", "sethostname", "settime", "packet", "chroot"),
			}),
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
