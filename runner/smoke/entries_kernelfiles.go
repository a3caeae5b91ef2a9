package smoke

import (
	"bytes"
	"os"
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
			Judge: settings,
		},
		{
			ID: "C6-cgroup", Group: GroupFilesystem, Quick: true, Title: "control groups can be neither mounted nor changed",
			Control: "mount points can be made; the mounts are those of C2", Weak: privileged, Inside: []string{"C6-cgroup"},
			Judge: expects(map[Family][]Expect{GVisor: noControlGroups, Shared: noControlGroups}),
		},
	}
}

var noControlGroups = append(
	each("C6-cgroup", []string{"EPERM"}, "mount-v1", "mount-v2"), each("C6-cgroup", []string{"ENOENT"}, "writable")...)

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
