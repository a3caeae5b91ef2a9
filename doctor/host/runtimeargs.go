package host

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockerd"
)

// shellCharacters split or expand in the script that dockerd writes for a runtime
// with arguments, and runs as root.
const shellCharacters = " \t\n;&|<>()$`\\\"'*?[]{}~#!"

// judgeArgs sorts a gVisor runtime's registered arguments.
func judgeArgs(r dockerRuntime) (bad, unknown []string) {
	if strings.ContainsAny(r.Path, shellCharacters) {
		bad = append(bad, fmt.Sprintf("the path %q has characters that a shell changes", r.Path))
	}
	var plain []string
	for _, arg := range r.Args {
		if strings.ContainsAny(arg, shellCharacters) {
			bad = append(bad, fmt.Sprintf("the argument %q has characters that a shell changes: dockerd runs it as root", arg))
		} else {
			plain = append(plain, arg)
		}
	}
	weak, strange := docker.JudgeArgs(plain)
	for _, arg := range weak {
		bad = append(bad, arg+" weakens the sandbox")
	}
	for _, arg := range strange {
		unknown = append(unknown, arg+" is not known here")
	}
	return bad, unknown
}

// isGVisor takes a runtime for gVisor by its name, program or shim.
func isGVisor(name string, r dockerRuntime) bool {
	return strings.HasPrefix(name, "runsc") || strings.HasPrefix(filepath.Base(r.Path), "runsc") || strings.Contains(r.RuntimeType, "runsc")
}

// dockerRuntimes looks at daemon.json, and at what the engine says if it answers:
// a runtime that was taken out of the file stays until dockerd is restarted.
func (c Config) dockerRuntimes(ctx context.Context) doctor.Finding {
	d, err := c.dockerd(ctx)
	if err != nil {
		return undecided(err)
	}
	_, f, err := c.daemonConfig(d)
	if err != nil {
		return doctor.Unknown(err)
	}
	seen := map[string]dockerRuntime{}
	if f != nil {
		for name, raw := range f.runtimes {
			var r dockerRuntime
			if err := json.Unmarshal(raw, &r); err != nil {
				return doctor.Unknown(err)
			}
			seen[name+" in daemon.json"] = r
		}
	}
	for _, added := range dockerd.Flags(d.args, "add-runtime") {
		name, file, _ := strings.Cut(added, "=")
		seen[name+" by a flag of "+d.from] = dockerRuntime{Path: file}
	}
	var info engineInfo
	noEngine := c.get(ctx, "/info", &info)
	for name, r := range info.Runtimes {
		seen[name+" in the engine"] = r
	}
	found := judgeRuntimes(seen, noEngine)
	if found.State == doctor.Pass {
		if dropped := c.droppedFlags(ctx, d, seen); len(dropped) > 0 {
			return doctor.Failed("gVisor is registered with flags that the installed one doesn't have: every job would fail",
				"take them out of daemon.json's runtimes, and restart dockerd", dropped...)
		}
	}
	return found
}

// droppedFlags are registered flags that a runtime's own `flags` doesn't list. One
// that can't be asked has nothing said against it here: QD952 runs it.
func (c Config) droppedFlags(ctx context.Context, d daemon, seen map[string]dockerRuntime) []string {
	var dropped []string
	for _, where := range sortedKeys(seen) {
		r := seen[where]
		if !isGVisor(where, r) || !filepath.IsAbs(r.Path) || len(r.Args) == 0 {
			continue
		}
		// gVisor lists them on stderr.
		out, err := c.Host.Run(ctx, "sh", "-c", `exec "$0" flags 2>&1`, d.root+r.Path)
		if err != nil {
			continue
		}
		for _, arg := range r.Args {
			name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			if strings.HasPrefix(arg, "-") && !strings.Contains(out, "\n  -"+name+"\n") && !strings.Contains(out, "\n  -"+name+" ") {
				dropped = append(dropped, where+": "+arg)
			}
		}
	}
	return dropped
}

func judgeRuntimes(seen map[string]dockerRuntime, noEngine error) doctor.Finding {
	var bad, unknown []string
	found := 0
	for _, where := range sortedKeys(seen) {
		r := seen[where]
		if !isGVisor(where, r) {
			continue
		}
		found++
		b, u := judgeArgs(r)
		if r.RuntimeType != "" {
			u = append(u, "its arguments are in the shim's own file, which isn't read")
		}
		for _, s := range b {
			bad = append(bad, where+": "+s)
		}
		for _, s := range u {
			unknown = append(unknown, where+": "+s)
		}
	}
	switch {
	case len(bad) > 0:
		return doctor.Failed("gVisor is registered with arguments that weaken it", "", append(bad, unknown...)...)
	case len(unknown) > 0:
		return doctor.Warned("gVisor is registered with arguments that nobody has judged",
			"leave them out, or find out what they do: `runsc flags`", unknown...)
	case found == 0 && noEngine != nil:
		return doctor.Skipped("daemon.json registers no gVisor, and no engine answers")
	case found == 0:
		return doctor.Skipped("no gVisor is registered; the backend docker-runsc needs one")
	case noEngine != nil:
		return doctor.Warned("daemon.json's gVisor has only safe arguments, but no engine answers to tell what it uses", "start dockerd",
			noEngine.Error())
	}
	return doctor.Passed(fmt.Sprintf("%d entries of gVisor, with safe arguments only", found))
}
