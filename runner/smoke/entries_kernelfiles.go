package smoke

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/guest/probe"
)

func kernelFileEntries() []Entry {
	return []Entry{
		{
			ID: "C5-masked", Group: GroupFilesystem, Quick: true, Title: "files that tell of the host's kernel are hidden",
			Control: "some of them must be there on the host", Weak: underRunc, Inside: []string{"C5-masked"}, Judge: masked,
		},
		{
			ID: "C5-settings", Group: GroupFilesystem, Quick: true, Title: "the kernel's settings can't be written to",
			Control: "/dev/null opens for writing", Weak: also(keptCaps, "root", "runc-kernel"), Inside: []string{"C5-settings"},
			AsRoot: []string{"caps", "runc-kernel"},
			Judge:  settings,
		},
		{
			ID: "C6-cgroup", Group: GroupFilesystem, Quick: true, Title: "control groups can be neither mounted nor changed",
			Control: "mount points can be made; the mounts are those of C2; what root of a sandbox makes in its own kernel's groups is " +
				"looked for among the host's, where the sandbox's own must be seen",
			Weak: privileged, AsRoot: also(privileged, "runc-cgroup"), Inside: []string{"C6-cgroup"},
			Plant: plantGroup, Watch: watchGroups, Judge: controlGroups,
		},
	}
}

// controlGroups lets nobody change a group, but for root of a sandbox whose kernel has
// groups of its own: what it makes there must not come to the host, as watchGroups sees.
func controlGroups(c *Case) Outcome {
	list := each("C6-cgroup", []string{"EPERM"}, "mount-v1", "mount-v2")
	if !c.Bench.AsRoot() || c.Bench.Family() != GVisor {
		return c.attempts(append(list, each("C6-cgroup", []string{"ENOENT"}, "writable")...))
	}
	if l := c.Find("C6-cgroup", "writable"); l == nil || l.Errno != "" && l.Errno != "ENOENT" {
		return Outcome{CouldNotRun, "whether control groups can be written to is not known"}
	}
	return c.attempts(list)
}

// plantGroup names the group that root tries to make, and removes it from the host's.
func plantGroup(_ context.Context, b *Bench) error {
	if b.AsRoot() {
		name := "probe-" + b.Nonce
		b.Set(probe.ParamGroup, name)
		b.Cleanup(func() error {
			var errs []error
			for _, dir := range hostGroups(name) {
				errs = append(errs, os.Remove(dir))
			}
			return errors.Join(errs...)
		})
	}
	return nil
}

// hostGroups are the host's control groups of a name.
func hostGroups(name string) (found []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == name {
			found = append(found, path)
		}
		return nil // what is gone meanwhile, or can't be listed, isn't it
	})
	return found
}

// watchGroups looks for the group that root has made: the sandbox's own shows that the
// host's are to be seen from here.
func watchGroups(ctx context.Context, b *Bench, live *Live) Outcome {
	if !b.AsRoot() {
		return Outcome{Verdict: Held}
	}
	live.until(ctx, "C6-cgroup")
	lines := &Case{Lines: live.Lines()}
	if l := lines.Find("C6-cgroup", "writable"); l != nil && l.Errno == "ENOENT" {
		return Outcome{Verdict: Held} // there is nothing to make one in
	}
	g, err := b.group(ctx, live.Job)
	switch {
	case err != nil:
		return unseen(err)
	case len(g.left()) == 0:
		return Outcome{CouldNotRun, "the sandbox's own control group isn't seen among the host's"}
	}
	if found := hostGroups("probe-" + b.Nonce); found != nil {
		return Outcome{Broken, "it has made the host's control group " + found[0]}
	}
	switch made := lines.Find("C6-cgroup", "make"); {
	case made == nil:
		return Outcome{CouldNotRun, "whether a control group could be made is not known"}
	case made.Errno != "": // root makes groups in gVisor's; in Linux' it needs a capability for that, and none to write
		return Outcome{Broken, "control groups can be written to that aren't its own kernel's: making one came back with " + made.Errno}
	}
	return Outcome{Verdict: Held}
}

// masked says whether anything of the host's shows: what the sandbox's own kernel
// shows under the same name doesn't count, unless it is what the host shows.
func masked(c *Case) Outcome {
	var broken, unsure []string
	onHost := 0
	for _, path := range probe.MaskedPaths() {
		l := c.Find("C5-masked", path)
		host, there := onThisHost(path)
		if there {
			onHost++
		}
		switch {
		case l == nil:
			unsure = append(unsure, path+" is missing")
		case l.Errno == "ENOENT" || l.Errno == "EACCES" || l.Errno == "EPERM":
		case l.Errno != "":
			unsure = append(unsure, path+" came back with "+l.Errno)
		case l.Answer == "dir " || l.Answer == "dir" || strings.HasPrefix(l.Answer, "empty "):
		case c.Bench.Family() == GVisor && !there:
		case c.Bench.Family() == GVisor && !alike(l.Answer, host):
		default:
			broken = append(broken, path+" shows "+l.Answer[:min(len(l.Answer), 40)])
		}
	}
	if onHost < 3 {
		unsure = append(unsure, "too little of it is there on the host")
	}
	return verdict(broken, unsure)
}

// onThisHost is the beginning of a file, or a directory's names.
func onThisHost(path string) (string, bool) {
	fi, err := os.Lstat(path)
	if err != nil {
		return "", false
	}
	if fi.IsDir() {
		entries, err := os.ReadDir(path)
		var list []string
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return strings.Join(list, " "), err == nil && len(list) > 0
	}
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return "", true
	}
	defer f.Close()
	b := make([]byte, 64)
	n, _ := f.Read(b) // what can't be read is not compared
	return string(bytes.TrimSpace(b[:n])), n > 0
}

// alike says whether two beginnings are of the same text.
func alike(inside, host string) bool {
	_, text, _ := strings.Cut(inside, " ")
	a, b := strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(host), " ")
	n := min(len(a), len(b), 24)
	return n > 0 && a[:n] == b[:n]
}

// ownSettings are files that gVisor's kernel has for its own, and lets root of the
// sandbox open: the first does nothing, the others are for its own processes.
var ownSettings = []string{
	"/proc/sysrq-trigger", "/proc/sys/kernel/yama/ptrace_scope", "/proc/sys/kernel/randomize_va_space",
}

func settings(c *Case) Outcome {
	if l := c.Find("C5-settings", "control"); l == nil || l.Errno != "" {
		return Outcome{CouldNotRun, "not even /dev/null opens for writing"}
	}
	var broken, unsure []string
	refused := 0
	for _, l := range c.Lines {
		if !strings.HasPrefix(l.Sub, "/") {
			continue
		}
		own := c.Bench.AsRoot() && c.Bench.Family() == GVisor && slices.Contains(ownSettings, l.Sub)
		switch l.Errno {
		case "":
			if own {
				continue
			}
			broken = append(broken, l.Sub+" opens for writing")
		case "EACCES", "EPERM", "EROFS", "EISDIR":
			refused++
		case "ENOENT":
		default:
			unsure = append(unsure, l.Sub+" came back with "+l.Errno)
		}
	}
	if refused == 0 && len(broken) == 0 {
		unsure = append(unsure, "none of the settings is there")
	}
	return verdict(broken, unsure)
}
