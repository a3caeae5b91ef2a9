package host

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/doctor"
)

// hostState is a state of a host in which a check fails.
type hostState struct {
	code, name string
	make       func(*house)
	// first and then are done by hand, before and after what is typed: what the fix says
	// in words.
	first, then func(*house, doctor.Finding)
	// instead types what the fix says after "or". byHand types nothing.
	instead, byHand bool
	// userns makes it in a user namespace.
	userns bool
}

const (
	envPath = "/opt/quavon/.env"
)

func states() []hostState {
	var all []hostState
	for _, group := range [][]hostState{kernelStates, engineStates, runscStates, networkStates, envStates(), storageStates, userStates} {
		all = append(all, group...)
	}
	return all
}

var kernelStates = []hostState{{code: "QD907", name: "none", userns: true, make: func(h *house) {
	h.must(os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0\n"), 0o600))
}}}

var engineStates = []hostState{
	{code: "QD911", name: "no-socket", make: func(h *house) {
		h.listen(socketFile)
		h.Setenv("DOCKER_HOST", "unix:///run/none.sock")
	}},
	{code: "QD911", name: "remote", byHand: true, make: func(h *house) {
		h.listen(socketFile)
		h.Setenv("DOCKER_HOST", "ssh://u@h")
	}, first: setNamed("DOCKER_HOST")},
	{code: "QD911", name: "context", make: func(h *house) {
		h.listen(socketFile)
		h.write("/srv/home/.docker/config.json", `{"currentContext":"other"}`, 0o600)
		h.write(fmt.Sprintf("/srv/home/.docker/contexts/meta/%x/meta.json", sha256.Sum256([]byte("other"))),
			`{"Name":"other","Metadata":{},"Endpoints":{"docker":{"Host":"unix:///run/none.sock"}}}`, 0o600)
	}},
	{code: "QD912", name: "denied", make: func(h *house) {
		h.startEngine()
		h.must(syscall.Setgroups(nil))
		h.must(syscall.Setresgid(0, 1000, 0))
		h.must(syscall.Setresuid(0, 1000, 0))
	}, then: func(h *house, _ doctor.Finding) { // run the doctor as root
		h.must(syscall.Setresuid(0, 0, 0))
		h.must(syscall.Setresgid(0, 0, 0))
	}},
	{code: "QD914", name: "comma", make: daemonJSON("{\n  \"debug\": true,\n}\n"), first: dropComma},
	{code: "QD914", name: "comment", make: daemonJSON("{\n  // off\n  \"debug\": false\n}\n"), first: dropLine(daemonPath)},
	{code: "QD914", name: "reserved", make: daemonJSON(`{"runtimes": {"runc": {"path": "/usr/bin/runc"}}, "debug": true}`), first: dropKeys},
	{code: "QD914", name: "undefined", make: daemonJSON(`{"default-runtime": "nvidia"}`), first: dropKeys},
	{code: "QD914", name: "type", make: daemonJSON(`{"ipv6": "true"}`), first: func(h *house, _ doctor.Finding) {
		h.edit(daemonPath, func(s string) string { return strings.Replace(s, `"true"`, "true", 1) })
	}},
	{code: "QD914", name: "unknown-key", make: daemonJSON(`{"no-such-key": 1, "debug": true}`), first: dropKeys},
	{code: "QD915", name: "hosts", make: func(h *house) {
		h.write(daemonPath, `{"debug": false}`, 0o644)
		h.startEngine()
		h.write(daemonPath, `{"debug": false, "hosts": ["unix:///run/docker.sock"], "data-root": "/x"}`, 0o644)
	}, first: dropKeys},
	{code: "QD916", name: "network", make: func(h *house) {
		h.write(daemonPath, registered("--platform=systrap", "--network=host"), 0o644)
		h.startEngine()
	}, first: dropArguments, then: func(h *house, _ doctor.Finding) {
		h.stopEngine()
		h.startEngine()
	}},
	{code: "QD917", name: "noexec", make: func(h *house) {
		h.must(os.MkdirAll("/srv/disk/docker", 0o755))
		h.must(unix.Mount("disk", "/srv/disk", "tmpfs", unix.MS_NOEXEC, "mode=0755"))
		h.dataRoot = "/srv/disk/docker"
		h.write(daemonPath, registered("--platform=systrap"), 0o644)
		h.startEngine()
	}},
	{code: "QD918", name: "open", make: func(h *house) {
		h.listen(socketFile)
		h.must(os.Chmod(socketFile, 0o666))
	}},
	{code: "QD918", name: "owner", make: func(h *house) {
		h.listen(socketFile)
		h.must(os.Chmod(socketFile, 0o660))
		h.must(os.Chown(socketFile, 1000, 0))
	}},
	{code: "QD919", name: "alone", make: func(h *house) {
		plugin := filepath.Join(os.Getenv(envEngine), "usr/libexec/docker/cli-plugins/docker-compose")
		h.must(os.Symlink(plugin, "/usr/local/bin/docker-compose"))
	}},
}

// registered is a daemon.json with gVisor.
func registered(args ...string) string {
	return fmt.Sprintf(`{"runtimes": {"runsc": {"path": %q, "runtimeArgs": ["%s"]}}}`, os.Getenv(envBinary), strings.Join(args, `", "`))
}

func daemonJSON(text string) func(*house) {
	return func(h *house) { h.write(daemonPath, text, 0o644) }
}

// says is a program that says that it is of a release.
func says(release string) string { return "#!/bin/sh\necho runsc version " + release + "\n" }

const oldRelease, newRelease = "release-20260706.0", "release-20260831.0"

var runscStates = []hostState{
	{code: "QD920", name: "none", byHand: true, make: func(*house) {}, first: setRunsc},
	{code: "QD920", name: "dynamic", byHand: true, make: func(h *house) { h.Setenv("QUAVON_RUNSC", "/bin/ls") }, first: setRunsc},
	{code: "QD921", name: "file", make: func(h *house) { h.runsc("/opt/my gvisor/runsc", 0o700) }},
	{code: "QD921", name: "directory", make: func(h *house) {
		h.runsc("/opt/gvisor/bin/runsc", 0o755)
		h.must(os.Chmod("/opt/gvisor", 0o700))
	}, then: func(h *house, _ doctor.Finding) {
		if info, err := os.Stat("/opt/gvisor"); err != nil || info.Mode().Perm() != 0o701 {
			h.Errorf("more was opened than is needed: %v, %v", info.Mode(), err)
		}
	}},
	{code: "QD921", name: "link-and-helpers", make: func(h *house) {
		h.runsc("/opt/gvisor/runsc", 0o750)
		for i := range 12 {
			h.write(fmt.Sprintf("/opt/gvisor/gvisor-bin/helper-%d", i), says(newRelease), 0o700)
		}
		h.must(os.Mkdir("/opt/links", 0o700))
		h.must(os.Symlink("/opt/gvisor/runsc", "/opt/links/runsc"))
		h.Setenv("QUAVON_RUNSC", "/opt/links/runsc")
	}},
	{code: "QD922", name: "missing", make: func(h *house) {
		h.write("/opt/gvisor/runsc", says(newRelease), 0o755)
		h.Setenv("QUAVON_RUNSC", "/opt/gvisor/runsc")
	}, first: getArchive},
	{code: "QD922", name: "other-release", make: func(h *house) {
		h.write("/opt/gvisor/runsc", says(newRelease), 0o755)
		h.write("/opt/gvisor/gvisor-bin/of-old", says(oldRelease), 0o755)
		h.Setenv("QUAVON_RUNSC", "/opt/gvisor/runsc")
	}, first: getArchive},
}

func (h *house) runsc(path string, mode os.FileMode) {
	h.Helper()
	h.write(path, says(newRelease), mode)
	h.Setenv("QUAVON_RUNSC", path)
}

var networkStates = []hostState{
	{code: "QD931", name: "policy", make: rules("table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; }; }")},
	{code: "QD931", name: "reject", make: rules("table inet firewalld { chain filter_INPUT { type filter hook input priority 10; " +
		"ct state established accept; counter reject; }; }")},
	{code: "QD931", name: "docker", make: rules("table ip filter { chain DOCKER-USER { counter return; }; chain FORWARD { " +
		"type filter hook forward priority 0; policy drop; counter jump DOCKER-USER; }; }"), then: func(h *house, _ doctor.Finding) {
		if out := h.run("nft", "list", "chain", "ip", "filter", "DOCKER-USER"); !strings.Contains(out, `oifname "quavon*" accept`) {
			h.Errorf("Docker's own chain has been changed: %s", out)
		}
	}},
	{code: "QD931", name: "flush", make: func(h *house) {
		h.write("/etc/nftables.conf", "#!/usr/sbin/nft -f\n\nflush ruleset\n\ntable inet filter {\n\tchain input {\n\t\ttype filter hook "+
			"output priority filter;\n\t\ttcp dport 25 drop\n\t}\n}\n", 0o755)
	}, then: func(h *house, _ doctor.Finding) { // what was to be kept is kept, and what is reloaded is there once
		h.run("nft", "add table inet quavon")
		h.run("nft", "-f", "/etc/nftables.conf")
		h.run("nft", "-f", "/etc/nftables.conf")
		if out := h.run("nft", "list", "ruleset"); strings.Count(out, "dport 25") != 1 || !strings.Contains(out, "table inet quavon") {
			h.Errorf("after two reloads: %s", out)
		}
	}},
	{code: "QD932", name: "legacy", make: func(h *house) {
		for _, args := range []string{"-N MINE", "-A MINE -s 192.0.2.1 -j DROP", "-A FORWARD -j MINE", "-P FORWARD DROP"} {
			h.run(append([]string{"iptables-legacy"}, strings.Fields(args)...)...)
		}
		h.run("ip6tables-legacy", "-A", "INPUT", "-s", "2001:db8::1", "-j", "DROP")
	}, then: func(h *house, _ doctor.Finding) {
		out := h.run("nft", "list", "ruleset")
		for _, want := range []string{"192.0.2.1", "jump MINE", "2001:db8::1", "policy drop"} {
			if !strings.Contains(out, want) {
				h.Errorf("%s was lost: %s", want, out)
			}
		}
	}},
	{code: "QD933", name: "route", instead: true, make: func(h *house) {
		for _, args := range []string{
			"link add br0 type veth peer name br1", "addr add 192.0.2.2/24 dev br0", "link set br0 up", "link set br1 up",
			"route add 10.201.5.0/24 via 192.0.2.1",
			"route add 10.0.0.0/8 dev br0", "route add 172.16.0.0/12 dev br0",
		} {
			h.run(append([]string{"ip"}, strings.Fields(args)...)...)
		}
	}},
}

func rules(text string) func(*house) { return func(h *house) { h.run("nft", text) } }
