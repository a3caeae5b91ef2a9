package smoke

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/disk"
	"github.com/quavon/quavon/runner/guest/probe"
)

func filesystemEntries() []Entry {
	return slices.Concat(hostFileEntries(), socketEntries(), kernelFileEntries())
}

func hostFileEntries() []Entry {
	return []Entry{
		{
			ID: "C1-canary", Group: GroupFilesystem, Quick: true, Title: "a file of the host's can't be read",
			Control: "a file of the workspace is found in the same way, before and after",
			Weak:    []string{"host-root-ro", "host-root-rw", "runc-leaked-fd"}, Inside: []string{"C1-canary"},
			Plant: plantCanary, Judge: canary,
		},
		{
			ID: "C1-handles", Group: GroupFilesystem, Quick: true, Title: "files can't be opened by handle",
			Control: "handles are asked for of directories that are there", Weak: privileged, Inside: []string{"B4-calls"},
			Judge: expects(map[Family][]Expect{
				GVisor: each("B4-calls", []string{"ENOTSUP", "EOPNOTSUPP"}, "open_by_handle_at"),
				Shared: each("B4-calls", []string{"EPERM"}, "open_by_handle_at"),
			}),
		},
		{
			ID: "C2-mounts", Group: GroupFilesystem, Quick: true, Title: "only what was planned is mounted",
			Control: "the root, /proc and the scratch file system must be among it", Weak: also(also(keptCaps, privileged...), shown...),
			Inside: []string{"C2-mounts"}, Judge: plannedMounts,
		},
		{
			ID: "C2-write", Group: GroupFilesystem, Quick: true, Title: "nothing that a job writes reaches a file system of the host's",
			Control: "files can be made in /tmp and in the workspace, and a directory of the host waits for them",
			Weak:    []string{"shared-dir", "host-root-rw"}, Inside: []string{"C2-write"},
			Plant: plantDrop, Watch: watchDrop, Judge: writesStay,
		},
		{
			ID: "C4-descriptors", Group: GroupFilesystem, Quick: true, Title: "a job is given no descriptor but its three streams",
			Control: "its own descriptors can be listed", Weak: []string{"leaked-fd", "runc-leaked-fd"},
			Inside: []string{"C4-descriptors"}, Judge: noDescriptors,
		},
		{
			ID: "C4-directory", Group: GroupFilesystem,
			Title:   "no job starts in a directory that is open elsewhere, as in CVE-2024-21626",
			Control: "it starts in the workspace, before and after", Weak: []string{"runc-leaked-fd"}, Alone: startInDescriptors,
		},
		{
			ID: "C7-overwrite", Group: GroupFilesystem, Quick: true,
			Title:   "neither the agent nor the runtime can be written to, and neither has changed",
			Control: "a file that everybody on the host may write to is among what is tried, and its digest is compared too",
			Weak:    []string{"host-root-rw", "runc-leaked-fd"}, Inside: []string{"C7-overwrite"}, Plant: plantTarget, Judge: unchanged,
		},
	}
}

func canary(c *Case) Outcome {
	for _, sub := range []string{"control", "control-after"} {
		if l := c.Find("C1-canary", sub); l == nil || l.Errno != "" || l.Answer != c.Bench.planted.control {
			return Outcome{CouldNotRun, "the workspace's own file could not be read"}
		}
	}
	l := c.Find("C1-canary", "canary")
	switch {
	case l == nil:
		return Outcome{CouldNotRun, "nothing was looked for"}
	case l.Errno == "" && l.Answer == c.Bench.planted.canary:
		return Outcome{Broken, "a file of the host's was read"}
	case l.Errno != "ENOENT":
		return Outcome{CouldNotRun, fmt.Sprintf("the search came back with %s %.80q", l.Errno, l.Answer)}
	}
	return Outcome{Verdict: Held}
}

// planned are the places of every sandbox's mounts, and file systems that may be there.
var (
	plannedTargets = []string{
		"/", "/proc", "/sys", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/tmp", "/var/tmp", "/home/quavon", "/workspace",
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/.quavon", "/scratch",
		"/etc/hosts", "/etc/hostname", "/etc/resolv.conf",
		"/sys/firmware", "/sys/devices/virtual/powercap", // hidden by a mount
	}
	writableTypes = []string{"tmpfs", "overlay", "proc", "sysfs", "dev", "devtmpfs", "devpts", "mqueue"}
)

// plannedMounts compares the mounts with those that every sandbox has. An image's own
// places are the root's.
func plannedMounts(c *Case) Outcome {
	var broken []string
	seen := map[string]bool{}
	for _, l := range c.Lines {
		f := strings.Fields(l.Answer)
		if !strings.HasPrefix(l.Sub, "mount-") || len(f) < 3 {
			continue
		}
		fstype, target, options := f[0], f[1], strings.Split(f[2], ",")
		seen[target] = true
		switch {
		case !isPlanned(target):
			broken = append(broken, fmt.Sprintf("%s (%s) is mounted", target, fstype))
		case c.Bench.Family() == GVisor && fstype == "cgroup": // its kernel's own: a host's would be 9p
		case !slices.Contains(options, "ro") && !slices.Contains(writableTypes, fstype):
			broken = append(broken, fmt.Sprintf("%s (%s) is writable", target, fstype))
		}
	}
	if !seen["/"] || !seen["/proc"] || !seen["/.quavon/scratch"] && !seen["/workspace"] {
		return Outcome{CouldNotRun, "the list of mounts isn't whole"}
	}
	return verdict(broken, nil)
}

// isPlanned says whether something may be mounted at a place. Docker mounts control
// groups, which with gVisor are its kernel's own.
func isPlanned(target string) bool {
	below := func(dir string) bool { return strings.HasPrefix(target+"/", dir) }
	return slices.Contains(plannedTargets, target) || slices.ContainsFunc([]string{"/.quavon/", "/proc/", "/sys/fs/cgroup/"}, below)
}

// writesStay says whether files were made only where they are the sandbox's own.
func writesStay(c *Case) Outcome {
	var broken []string
	own := 0
	for _, l := range c.Lines {
		f := strings.Fields(l.Answer)
		if !strings.HasPrefix(l.Sub, "wrote-") || len(f) < 3 {
			continue
		}
		if slices.Contains(writableTypes, f[0]) {
			own++
			continue
		}
		broken = append(broken, "a file could be made at "+f[2]+" ("+f[0]+")")
	}
	if own == 0 {
		return Outcome{CouldNotRun, "no file could be made anywhere"}
	}
	return verdict(broken, nil)
}

// watchDrop looks whether anything has come into the directory that waits for it.
func watchDrop(ctx context.Context, b *Bench, live *Live) Outcome {
	live.until(ctx, "C2-write")
	entries, err := os.ReadDir(filepath.Join(b.Dir, "drop"))
	if err != nil {
		return Outcome{CouldNotRun, err.Error()}
	}
	if len(entries) > 0 {
		return Outcome{Broken, "a file has come into a directory of the host's"}
	}
	return Outcome{Verdict: Held}
}

func noDescriptors(c *Case) Outcome {
	if l := c.Find("C4-descriptors", "cwd"); l == nil || !strings.HasPrefix(l.Answer, "/") {
		return Outcome{CouldNotRun, "it has no working directory"}
	}
	if l := c.Find("C4-descriptors", "list"); l == nil || l.Errno != "" {
		return Outcome{CouldNotRun, "its descriptors can't be listed"}
	}
	var broken []string
	for _, l := range c.Lines {
		if strings.HasPrefix(l.Sub, "fd-") || strings.HasPrefix(l.Sub, "dir-") {
			broken = append(broken, fmt.Sprintf("%s is %.100q", l.Sub, l.Answer))
		}
	}
	return verdict(broken, nil)
}

// startInDescriptors has jobs start in the descriptors of who starts them: one that is a
// directory would be the agent's or the host's.
func startInDescriptors(ctx context.Context, b *Bench) Outcome {
	const id, first, last = "C4-descriptors", 3, 12
	run := func(name, dir string) ([]probe.Line, error) {
		lines, _, err := b.Run(ctx, Session{Name: "c4-" + name, Inside: []string{id}, Dir: dir})
		return lines, err
	}
	var broken, unsure []string
	for _, name := range []string{"before", "after"} {
		if _, err := run(name, ""); err != nil {
			return Outcome{CouldNotRun, "a job doesn't start in the workspace either: " + err.Error()}
		}
		if name == "after" {
			break
		}
		for fd := first; fd <= last; fd++ {
			dir := fmt.Sprintf("/proc/self/fd/%d", fd)
			lines, err := run(fmt.Sprint(fd), dir)
			switch {
			case len(lines) > 0 || err == nil:
				where := (&Case{Lines: lines}).Find(id, "cwd")
				broken = append(broken, fmt.Sprintf("a job was started in %s: %+v", dir, where))
			case !strings.Contains(err.Error(), dir):
				unsure = append(unsure, fmt.Sprintf("started in %s, it came back with %v", dir, err))
			}
		}
	}
	return verdict(broken, unsure)
}

// unchanged compares the digests with those of before.
func unchanged(c *Case) Outcome {
	o := c.attempts([]Expect{
		{Probe: "C7-overwrite", Sub: "own-program", Held: []string{"EACCES", "EROFS", "ETXTBSY", "EPERM"}},
		{Probe: "C7-overwrite", Sub: "agent-program", Held: []string{"EACCES", "EROFS", "ETXTBSY", "EPERM"}},
		{Probe: "C7-overwrite", Sub: "target", Held: []string{"ENOENT"}},
	})
	if o.Verdict == Broken {
		return o
	}
	for path, before := range c.Bench.planted.digests {
		now, err := disk.Digest(path)
		if err != nil {
			return Outcome{CouldNotRun, err.Error()}
		}
		if now != before {
			return Outcome{Broken, path + " has changed"}
		}
	}
	return o
}
