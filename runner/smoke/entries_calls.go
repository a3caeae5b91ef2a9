package smoke

import "github.com/quavon/quavon/runner/guest/probe"

func callEntries() []Entry {
	calls := func(gvisor, shared []Expect) func(*Case) Outcome {
		return expects(map[Family][]Expect{GVisor: gvisor, Shared: shared})
	}
	on := func(errnos ...string) []string { return errnos }
	const id = "B4-calls"
	return []Entry{
		{
			ID: "B3-netfilter", Group: GroupPrivilege, Quick: true,
			Title:   "a namespace of its own doesn't open the kernel's packet filter to a job",
			Control: "a namespace is made by clone with flags", Weak: underRunc, Inside: []string{"B3-userns"},
			Judge: calls(each("B3-userns", on("EPROTONOSUPPORT", "EPERM"), "netfilter"), each("B3-userns", on("EPERM"), "netfilter")),
		},
		{
			ID: "B4-keys", Group: GroupPrivilege, Quick: true, Title: "the kernel's keys are closed",
			Control: "valid arguments, as in A3-errno", Weak: unfiltered, Inside: []string{id},
			Judge: calls(
				[]Expect{
					{Probe: id, Sub: "request_key", Held: on("EACCES"), Broken: on("ENOKEY")},
					{Probe: id, Sub: "add_key", Held: on("EACCES")},
				},
				each(id, on("EPERM", "ENOSYS"), "request_key", "add_key")),
		},
		{
			ID: "B4-tracing", Group: GroupPrivilege, Quick: true,
			Title:   "a job can put no programs into the kernel and use no counters of the processor",
			Control: "valid arguments: a map of one value, a clock of the job's own", Weak: unfiltered, Inside: []string{id},
			Judge: calls(
				append(each(id, on("EPERM", "ENOSYS"), "bpf"), each(id, on("ENODEV", "ENOSYS"), "perf_event_open")...),
				each(id, on("EPERM", "EACCES", "ENOSYS"), "bpf", "perf_event_open")),
		},
		{
			ID: "B4-uring", Group: GroupPrivilege, Quick: true, Title: "there is neither io_uring nor userfaultfd",
			Control: "valid arguments", Weak: unfiltered, Inside: []string{id},
			Judge: calls(
				each(id, on("ENOSYS"), "io_uring_setup", "userfaultfd"),
				each(id, on("EPERM", "ENOSYS"), "io_uring_setup", "userfaultfd")),
		},
		{
			ID: "B4-kernel", Group: GroupPrivilege, Quick: true, Title: "the kernel can't be replaced, extended or stopped",
			Control: "what is loaded is no module, and what is removed isn't there: the right alone is asked for",
			Weak:    privileged, Inside: []string{id},
			Judge: calls(machineCalls(id), machineCalls(id)),
		},
		{
			ID: "B4-namespaces", Group: GroupPrivilege, Quick: true, Title: "the agent's namespaces can't be entered",
			Control: "its namespace must be there or be closed", Weak: also(keptCaps, privileged...), Inside: []string{id},
			Judge: calls(each(id, on("EPERM", "EACCES"), "setns"), each(id, on("EPERM", "EACCES"), "setns")),
		},
		{
			ID: "B4-sockets", Group: GroupPrivilege, Quick: true, Title: "there are no kinds of socket but the usual ones",
			Control: "the sockets of C3 and E can be made", Weak: underRunc, Inside: []string{id},
			Judge: calls(
				append(each(id, on("EAFNOSUPPORT"), "alg", "vsock", "xdp", "bluetooth", "can"),
					each(id, on("EPROTONOSUPPORT"), "netlink-netfilter", "netlink-audit", "netlink-generic")...),
				each(id, on("EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT"), "alg", "vsock", "xdp", "bluetooth", "can")),
		},
		{
			ID: "B4-compat", Group: GroupPrivilege, Quick: true, Title: "no system call of 32 bits, nor of x32, is answered",
			Control: "the same process makes calls of 64 bits before and after; on a shared kernel, which may have none either, the " +
				"probe is not applicable unless one is answered",
			Weak: underRunc, Inside: []string{"B4-compat"}, Judge: otherTables,
		},
	}
}

// otherTables looks for answers of a kernel's other tables of system calls, which filters
// are often not about.
func otherTables(c *Case) Outcome {
	shared := c.Bench.Family() == Shared
	refused := []string{"ENOSYS", probe.ErrnoFault}
	if shared { // a filter ends whoever makes such a call, or only its thread
		refused = append(refused, probe.ErrnoTimeout, probe.ErrnoDied)
	}
	o := c.attempts(each("B4-compat", refused, "int80-getpid", "int80-socketcall", "x32-getpid"))
	if o.Verdict == Held && shared {
		return Outcome{NotApplicable, "this host's kernel has no system calls of 32 bits"}
	}
	return o
}

// machineCalls ask for rights over the machine. What isn't there to be loaded, removed
// or switched off is found out only by who has them.
func machineCalls(id string) []Expect {
	held := []string{"EPERM", "ENOSYS"}
	return []Expect{
		{Probe: id, Sub: "init_module", Held: held, Broken: []string{"ENOEXEC", "EINVAL", "EKEYREJECTED", "EBADMSG"}},
		{Probe: id, Sub: "delete_module", Held: held, Broken: []string{"ENOENT"}},
		{Probe: id, Sub: "kexec_load", Held: held},
		{Probe: id, Sub: "reboot-cad", Held: held, Broken: []string{"EINVAL"}},
		{Probe: id, Sub: "swapoff", Held: held, Broken: []string{"ENOENT"}},
		{Probe: id, Sub: "acct", Held: held, Broken: []string{"ENOENT"}},
		{Probe: id, Sub: "ioperm", Held: held},
	}
}

// agentEntries are about the agent inside: who reaches it forges results.
func agentEntries() []Entry {
	closed := func(errnos []string, subs ...string) func(*Case) Outcome {
		return expects(map[Family][]Expect{GVisor: each("B6-agent", errnos, subs...), Shared: each("B6-agent", errnos, subs...)})
	}
	return []Entry{
		{
			ID: "B6-stream", Group: GroupPrivilege, Quick: true, Title: "a job can't open the agent's stream",
			Control: "the agent must be there as process 1 (B5-ids)", Weak: also(privileged, "caps", "agent-exposed", "agent-secret"),
			Inside: []string{"B6-agent"},
			Judge:  closed([]string{"EACCES", "EPERM"}, "fd-0", "fd-1", "fd-2", "pidfd"),
		},
		{
			ID: "B6-memory", Group: GroupPrivilege, Quick: true, Title: "a job can't trace the agent or see its memory",
			Control: "the agent must be there as process 1", Weak: also(privileged, "caps"), Inside: []string{"B6-agent"},
			Judge: agentMemory,
		},
		{
			ID: "B6-files", Group: GroupPrivilege, Quick: true, Title: "a job can't see the agent's environment, root or directory",
			Control: "the agent must be there as process 1", Weak: also(also(keptCaps, underRunc...), "root"), Inside: []string{"B6-agent"},
			AsRoot: also(privileged, "caps"),
			Judge:  agentFiles,
		},
		{
			ID: "B6-signal", Group: GroupPrivilege, Quick: true, Title: "a job can't signal the agent or see its limits",
			Control: "the agent must be there as process 1", Weak: also(also(keptCaps, privileged...), "root"),
			Inside: []string{"B6-agent"},
			Judge:  closed([]string{"EPERM"}, "stop", "rlimit"),
		},
	}
}

// agentFiles leaves out /proc/1/io where the job is root: gVisor lets root see how many
// bytes a process has moved, which is nothing that the agent protects.
func agentFiles(c *Case) Outcome {
	held := []string{"EACCES", "EPERM"}
	list := each("B6-agent", held, "read-environ", "read-maps", "read-auxv", "root", "cwd", "directory")
	if !c.Bench.AsRoot() {
		list = append(list, each("B6-agent", held, "read-io")...)
	}
	return c.attempts(list)
}

func agentMemory(c *Case) Outcome {
	held := []string{"EPERM", "EACCES"}
	list := each("B6-agent", held, "mem", "vm-read", "seize")
	// Its code can't be written to, which is found out only by who might.
	return c.attempts(append(list, Expect{Probe: "B6-agent", Sub: "vm-write", Held: held, Broken: []string{"EFAULT"}}))
}
