package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/sandbox/docker/dockerd"
)

const (
	daemonPath     = "/etc/docker/daemon.json"
	snapDaemonPath = "/var/snap/docker/current/config/daemon.json"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// daemonConfig reads the file that d uses; the path is "" when there is none.
func (c Config) daemonConfig(d daemon) (path string, f *daemonFile, err error) {
	named := flagOf(d.args, "config-file")
	path = d.root + cmp.Or(named, daemonPath)
	data, err := c.Host.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && named == "" {
		path = d.root + snapDaemonPath
		data, err = c.Host.ReadFile(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return path, nil, err
	}
	f, err = parseDaemonFile(data)
	if err != nil {
		return path, nil, &unreadable{err}
	}
	return path, f, nil
}

// unreadable is a daemon.json that dockerd refuses.
type unreadable struct{ error }

func (c Config) daemonJSON(ctx context.Context) doctor.Finding {
	d, err := c.dockerd(ctx)
	if err != nil {
		return undecided(err)
	}
	path, f, err := c.daemonConfig(d)
	switch bad := (*unreadable)(nil); {
	case errors.As(err, &bad):
		return doctor.Failed(path+": "+bad.Error(), "correct that place: dockerd doesn't start with it")
	case err != nil:
		return doctor.Unknown(err)
	case path == "":
		return doctor.Skipped("there is no daemon.json: dockerd uses its defaults")
	}
	if wrong := f.refused(d.args); len(wrong) > 0 {
		return doctor.Failed(path+": dockerd does not start with it",
			"correct what is listed; `dockerd --validate` may say it is OK, and is wrong", wrong...)
	}
	return c.validate(ctx, d, path)
}

// undecided is the finding when the dockerd that is meant isn't known.
func undecided(err error) doctor.Finding {
	if errors.Is(err, errNotDockerd) {
		return doctor.Skipped(err.Error())
	}
	return doctor.Unknown(err)
}

// validate asks a dockerd whether it knows the file's keys: the one in PATH, else the
// one that runs.
func (c Config) validate(ctx context.Context, d daemon, path string) doctor.Finding {
	out, err := c.Host.Run(ctx, "dockerd", "--validate", "--config-file", path)
	if errors.Is(err, fs.ErrNotExist) && d.pid != 0 {
		// Its own PATH leads to the programs that its configuration is checked for.
		out, err = c.Host.Run(ctx, "env", "PATH="+c.pathOf(d.pid), fmt.Sprintf("/proc/%d/exe", d.pid), "--validate", "--config-file", path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return doctor.Warned(path+" is well formed, but no dockerd is here to know its keys", "install Docker Engine, or remove the file")
	case ctx.Err() != nil:
		return doctor.Unknown(context.Cause(ctx))
	case err != nil:
		return doctor.Failed(path+": dockerd refuses it", "", strings.TrimSpace(out+" "+err.Error()))
	}
	return doctor.Passed(path)
}

// refused are the reasons for which dockerd doesn't start although its own
// --validate finds nothing, as measured with 26.1.5.
func (f *daemonFile) refused(args []string) []string {
	var wrong []string
	for _, name := range sortedKeys(f.runtimes) {
		why, err := dockerd.RefusedRuntime(name, f.runtimes[name])
		if err != nil {
			why = err.Error()
		}
		if why != "" {
			wrong = append(wrong, fmt.Sprintf("runtime %q: %s", name, why))
		}
	}
	var def string
	if raw, ok := f.keys["default-runtime"]; ok {
		if json.Unmarshal(raw, &def) != nil {
			wrong = append(wrong, "default-runtime is no string")
		} else if def != "" && !f.defines(def, args) {
			wrong = append(wrong, fmt.Sprintf("default-runtime names %q, which is not defined", def))
		}
	}
	for _, key := range []string{"debug", "ipv6", "iptables", "ip6tables", "live-restore", "userland-proxy", "icc", "selinux-enabled"} {
		if raw, ok := f.keys[key]; ok && !bytes.Equal(raw, []byte("true")) && !bytes.Equal(raw, []byte("false")) && string(raw) != "null" {
			wrong = append(wrong, fmt.Sprintf("%s is %s, and must be true or false without quotes", key, raw))
		}
	}
	return wrong
}

func (f *daemonFile) defines(name string, args []string) bool {
	if _, ok := f.runtimes[name]; ok || name == "runc" || strings.HasPrefix(name, "io.containerd.") {
		return true
	}
	for _, added := range dockerd.Flags(args, "add-runtime") {
		if strings.HasPrefix(added, name+"=") {
			return true
		}
	}
	return false
}

func (c Config) daemonFlags(ctx context.Context) doctor.Finding {
	d, err := c.dockerd(ctx)
	if err != nil {
		return undecided(err)
	}
	if d.from == "" {
		return doctor.Skipped("dockerd does not run, and no unit of it is known")
	}
	path, f, err := c.daemonConfig(d)
	if err != nil {
		return doctor.Unknown(err)
	}
	if f == nil {
		return doctor.Skipped("there is no daemon.json")
	}
	var twice []string
	for _, key := range sortedKeys(f.keys) {
		if dockerd.Twice(d.args, key) {
			twice = append(twice, fmt.Sprintf("%s is in %s, and a flag of %s", key, path, d.from))
		}
	}
	if len(twice) > 0 {
		return doctor.Failed("dockerd will not start again: it refuses a setting that is given twice", "", twice...)
	}
	return doctor.Passed("nothing in " + path + " is also a flag of " + d.from)
}
