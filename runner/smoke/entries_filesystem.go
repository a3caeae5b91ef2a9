package smoke

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
			Weak:    []string{"host-root-ro", "host-root-rw", "runc-leaked-fd"}, Inside: []string{"C1-canary"}, Plant: plantCanary, Judge: canary,
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
			Weak:    []string{"shared-dir", "host-root-rw"}, Inside: []string{"C2-write"}, Plant: plantDrop, Watch: watchDrop, Judge: writesStay,
		},
		{
			ID: "C4-descriptors", Group: GroupFilesystem, Quick: true, Title: "a job is given no descriptor but its three streams",
			Control: "its own descriptors can be listed", Weak: []string{"leaked-fd", "runc-leaked-fd"}, Inside: []string{"C4-descriptors"}, Judge: noDescriptors,
		},
		{
			ID: "C7-overwrite", Group: GroupFilesystem, Quick: true, Title: "neither the agent nor the runtime can be written to, and neither has changed",
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
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/.quavon", "/scratch", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf",
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
	return slices.Contains(plannedTargets, target) ||
		slices.ContainsFunc([]string{"/.quavon/", "/proc/", "/sys/fs/cgroup/"}, func(p string) bool { return strings.HasPrefix(target+"/", p) })
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
	live.until(ctx, "C2-write", probe.SubAfter)
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
		now, err := fileDigest(path)
		if err != nil {
			return Outcome{CouldNotRun, err.Error()}
		}
		if now != before {
			return Outcome{Broken, path + " has changed"}
		}
	}
	return o
}

func socketEntries() []Entry {
	return []Entry{
		{
			ID: "C3-sockets", Group: GroupFilesystem, Quick: true, Title: "no socket of the host's can be connected to",
			Control: "a socket of the job's own is found by the same walk and answers, before and after",
			Weak:    []string{"uds", "docker-socket", "runc-socket"}, Inside: []string{"C3-sockets"},
			Judge: func(c *Case) Outcome { return c.onlyOwn("C3-sockets", "socket-") },
		},
		{
			ID: "C3-abstract", Group: GroupFilesystem, Quick: true, Title: "no socket of the host's without a file can be connected to",
			Control: "one of the job's own answers; one of the host's counts who comes, and the host itself can",
			Weak:    []string{"runc-host-network"}, Inside: []string{"C3-abstract"}, Plant: plantAbstract, Watch: watchAbstract,
			Judge: func(c *Case) Outcome { return c.onlyOwn("C3-abstract", "given-", "listed-") },
		},
	}
}

// onlyOwn says whether of all sockets only the job's own answered.
func (c *Case) onlyOwn(id string, others ...string) Outcome {
	for _, sub := range []string{"control", "control-after"} {
		if l := c.Find(id, sub); l == nil || l.Errno != "" || !strings.Contains(l.Answer, c.Bench.Nonce) {
			return Outcome{CouldNotRun, "the job's own socket didn't answer"}
		}
	}
	var broken, unsure []string
	for _, l := range c.Lines {
		if l.Probe != id || !slices.ContainsFunc(others, func(p string) bool { return strings.HasPrefix(l.Sub, p) }) {
			continue
		}
		switch l.Errno {
		case "":
			if !strings.Contains(l.Answer, strconv.Quote(c.Bench.Nonce+"\n")) { // its own, by another path
				broken = append(broken, fmt.Sprintf("connected: %.100q", l.Answer))
			}
		case "ECONNREFUSED", "ENOENT", "EACCES", "EPERM", "ENOTCONN":
		default:
			unsure = append(unsure, l.Sub+" came back with "+l.Errno)
		}
	}
	return verdict(broken, unsure)
}

// watchAbstract connects from the host, and compares the count.
func watchAbstract(ctx context.Context, b *Bench, live *Live) Outcome {
	l := b.planted.abstract
	if err := l.control(ctx); err != nil {
		return Outcome{CouldNotRun, "the host's own socket doesn't answer: " + err.Error()}
	}
	live.until(ctx, "C3-abstract", probe.SubAfter)
	own := int64(1)
	if n := l.count.Load(); n > own {
		return Outcome{Broken, fmt.Sprintf("%d connections came from elsewhere", n-own)}
	}
	if err := l.control(ctx); err != nil {
		return Outcome{CouldNotRun, "the host's own socket doesn't answer any more: " + err.Error()}
	}
	return Outcome{Verdict: Held}
}

func kernelFileEntries() []Entry {
	return []Entry{
		{
			ID: "C5-masked", Group: GroupFilesystem, Quick: true, Title: "files that tell of the host's kernel are hidden",
			Control: "some of them must be there on the host", Weak: underRunc, Inside: []string{"C5-masked"}, Judge: masked,
		},
		{
			ID: "C5-settings", Group: GroupFilesystem, Quick: true, Title: "the kernel's settings can't be written to",
			Control: "/dev/null opens for writing", Weak: also(keptCaps, "root", "runc-kernel"), Inside: []string{"C5-settings"}, Judge: settings,
		},
		{
			ID: "C6-cgroup", Group: GroupFilesystem, Quick: true, Title: "control groups can be neither mounted nor changed",
			Control: "mount points can be made; the mounts are those of C2", Weak: privileged, Inside: []string{"C6-cgroup"},
			Judge: expects(map[Family][]Expect{
				GVisor: append(each("C6-cgroup", []string{"EPERM"}, "mount-v1", "mount-v2"), each("C6-cgroup", []string{"ENOENT"}, "writable")...),
				Shared: append(each("C6-cgroup", []string{"EPERM"}, "mount-v1", "mount-v2"), each("C6-cgroup", []string{"ENOENT"}, "writable")...),
			}),
		},
	}
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
		switch l.Errno {
		case "":
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
