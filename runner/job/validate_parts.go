package job

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// cleanAbs says what is wrong with an absolute path, "" when it is fine.
func cleanAbs(p string) string {
	switch {
	case !path.IsAbs(p):
		return fmt.Sprintf("%q is not absolute", p)
	case len(p) > maxPath || strings.ContainsRune(p, 0):
		return "is too long or has a NUL byte"
	case path.Clean(p) != p:
		return fmt.Sprintf("%q is not in its shortest form", p)
	}
	return ""
}

// Within says whether the clean absolute path p is dir or below it.
func Within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

func (s Spec) validateMounts() error {
	if len(s.Mounts) > MaxMounts {
		return reject("mounts", fmt.Sprintf("are more than %d", MaxMounts), "show a common parent directory instead")
	}
	for i, m := range s.Mounts {
		field := fmt.Sprintf("mounts[%d]", i)
		if err := m.validate(field); err != nil {
			return err
		}
		for _, other := range s.Mounts[:i] {
			if Within(m.Target, other.Target) || Within(other.Target, m.Target) {
				return reject(field+".target", fmt.Sprintf("%s overlaps %s", m.Target, other.Target), "give each mount a place of its own")
			}
		}
	}
	return nil
}

func (m Mount) validate(field string) error {
	if why := cleanAbs(m.Source); why != "" {
		return reject(field+".source", why, "write the directory's absolute path")
	}
	if why := cleanAbs(m.Target); why != "" {
		return reject(field+".target", why, "write an absolute path of the sandbox, such as /data")
	}
	for _, r := range reserved {
		if Within(m.Target, r) || Within(r, m.Target) {
			return reject(field+".target", fmt.Sprintf("%s covers %s of the sandbox", m.Target, r), "choose another place, such as /data")
		}
	}
	if m.Mode != MountReadOnly && m.Mode != MountOverlay {
		return reject(field+".mode", fmt.Sprintf("%q is unknown", m.Mode), "use ro or overlay")
	}
	for _, p := range m.Protect {
		if p == "" || path.IsAbs(p) || path.Clean(p) != p || slices.Contains(strings.Split(p, "/"), "..") {
			return reject(field+".protect", fmt.Sprintf("%q is not below the mount", p), "write a relative path, such as .git")
		}
	}
	return nil
}

func (s Spec) validateSteps() error {
	if len(s.Steps) == 0 {
		return reject("steps", "are missing", "name a command to run")
	}
	if len(s.Steps) > maxSteps {
		return reject("steps", fmt.Sprintf("are more than %d", maxSteps), "put several commands into one script")
	}
	for i, st := range s.Steps {
		if err := st.validate(fmt.Sprintf("steps[%d]", i)); err != nil {
			return err
		}
	}
	return s.validateNetwork()
}

// Bounds of the list of hosts.
const (
	maxAllow     = 1024
	maxAllowRule = 4096
)

// validateNetwork checks the order of the steps and the size of the list; what its
// rules mean is the door's business.
func (s Spec) validateNetwork() error {
	for i, st := range s.Steps {
		if i > 0 && st.Network == NetworkRegistries && s.Steps[i-1].Network != NetworkRegistries {
			return reject(fmt.Sprintf("steps[%d].network", i), "is open behind a step without one", "put the steps with a network first")
		}
	}
	if len(s.Allow) > maxAllow {
		return reject("allow", fmt.Sprintf("has more than %d rules", maxAllow), "use wildcards, such as *.registry.example")
	}
	for i, rule := range s.Allow {
		if rule == "" || len(rule) > maxAllowRule || strings.ContainsRune(rule, 0) {
			return reject(fmt.Sprintf("allow[%d]", i), "is empty, too long or has a NUL byte", "write a host's name")
		}
	}
	return nil
}

func (st Step) validate(field string) error {
	if len(st.Argv) == 0 || st.Argv[0] == "" {
		return reject(field+".argv", "is empty", "name a command to run")
	}
	if why := validateStrings(st.Argv, MaxArgBytes); why != "" {
		return reject(field+".argv", why, "pass long data in a file or on stdin")
	}
	if why := validateStrings(st.Env, MaxEnvBytes); why != "" {
		return reject(field+".env", why, "pass long data in a file or on stdin")
	}
	for _, e := range st.Env {
		if k, _, ok := strings.Cut(e, "="); !ok || k == "" {
			return reject(field+".env", fmt.Sprintf("entry %q is not KEY=value", k), "write KEY=value")
		}
	}
	if why := cleanAbs(st.Dir); st.Dir != "" && why != "" {
		return reject(field+".dir", why, "write an absolute path of the sandbox")
	}
	if st.Timeout < 0 {
		return reject(field+".timeout", "is negative", "write a duration such as 90s, or leave it out")
	}
	if !slices.Contains([]Network{"", NetworkNone, NetworkRegistries}, st.Network) {
		return reject(field+".network", fmt.Sprintf("%q is unknown", st.Network), "use none or registries")
	}
	return nil
}

func validateStrings(list []string, most int) string {
	total := 0
	for _, s := range list {
		if strings.ContainsRune(s, 0) {
			return "has a NUL byte"
		}
		total += len(s) + 1
	}
	if total > most || len(list) > MaxStrings {
		return fmt.Sprintf("has %d bytes in %d strings, more than %d in %d", total, len(list), most, MaxStrings)
	}
	return ""
}

// maxPids leaves room for two host tasks each and some more below the most that
// Linux has (PID_MAX_LIMIT, 4,194,304).
const maxPids = 2_000_000

func (l Limits) validate() error {
	for _, v := range []struct {
		name     string
		got, min int64
	}{
		{"memory", l.Memory, minMemory},
		{"pids", l.Pids, 1},
		{"disk", l.Disk, minDisk},
		{"output", l.Output, 1},
		{"wall", int64(l.Wall), 1},
	} {
		if v.got != 0 && v.got < v.min {
			return reject("limits."+v.name, fmt.Sprintf("%d is too small", v.got),
				"use at least "+least(v.min)+", or leave the limit out")
		}
	}
	if l.Pids > maxPids {
		return reject("limits.pids", fmt.Sprintf("%d is more than a host can have", l.Pids),
			fmt.Sprintf("use at most %d, or leave the limit out", maxPids))
	}
	if math.IsNaN(l.CPUs) || l.CPUs < 0 || l.CPUs > 4096 || (l.CPUs > 0 && l.CPUs < 0.01) {
		return reject("limits.cpus", fmt.Sprintf("%v is out of range", l.CPUs), "use 0.01 to 4096, or leave the limit out")
	}
	return nil
}

// least is a smallest value, with its size where it is one of bytes.
func least(n int64) string {
	if n < 1<<20 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%d (%d MiB)", n, n>>20)
}
