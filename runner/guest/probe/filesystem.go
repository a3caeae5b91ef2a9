package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var filesystem = []Probe{
	{ID: "C1-canary", Run: canaries, Timeout: 15 * time.Second},
	{ID: "C2-mounts", Run: mountAudit},
	{ID: "C2-write", Run: writePlaces},
	{ID: "C3-sockets", Run: sockets, Timeout: 15 * time.Second},
	{ID: "C3-abstract", Run: abstractSockets},
	{ID: "C4-descriptors", Run: descriptors},
	{ID: "C5-masked", Run: maskedFiles},
	{ID: "C5-settings", Run: kernelSettings},
	{ID: "C6-cgroup", Run: controlGroups, Sub: controlGroup},
	{ID: "C7-overwrite", Run: overwrite},
}

// Parameters that these probes know.
const (
	// ParamCanary is the host path of a file that nobody inside may read, ParamControl
	// the sandbox's path of one that everybody can.
	ParamCanary  = "canary"
	ParamControl = "canary-control"
	// ParamDrop is a host directory that everybody on the host may write to, and
	// ParamTarget a file like that.
	ParamDrop   = "drop"
	ParamTarget = "target"
	// ParamAbstract are names of abstract sockets that listen on the host.
	ParamAbstract = "abstract"
)

// mount is a line of mountinfo.
type mount struct{ root, target, options, fstype, source string }

func mounts() ([]mount, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var list []mount
	for line := range strings.Lines(string(data)) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 {
			return nil, fmt.Errorf("a line of mountinfo is odd: %.100q", line)
		}
		list = append(list, mount{unescape.Replace(l[3]), unescape.Replace(l[4]), l[5], r[0], r[1]})
	}
	return list, nil
}

// prefixes are the places at which the host's root, or any of its directories, could
// show: every mount, and the root and working directory of every process.
func prefixes() []string {
	list := []string{"", "/proc/self/cwd" + strings.Repeat("/..", 12)}
	all, _ := mounts() // C2 says what is wrong with them
	for _, m := range all {
		list = append(list, m.target)
	}
	pids, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range pids {
		list = append(list, p+"/root", p+"/cwd"+strings.Repeat("/..", 12))
	}
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, p := range fds {
		list = append(list, p, p+strings.Repeat("/..", 12))
	}
	return list
}

// canaries looks for a file of the host's at every place where it could show.
func canaries(c *Context) {
	read := func(paths []string) (string, error) {
		last := error(unix.ENOENT)
		for _, p := range paths {
			data, err := os.ReadFile(p)
			if err == nil {
				return string(data), nil
			}
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
				last = err
			}
		}
		errno, _ := ErrnoName(last)
		return fmt.Sprintf("%d places", len(paths)), &Remote{Errno: errno}
	}
	c.Try("control", func() (string, error) { return read(c.Params[ParamControl]) })
	var places []string
	for _, path := range c.Params[ParamCanary] {
		for _, prefix := range prefixes() {
			places = append(places, prefix+path)
		}
	}
	c.TryFor(10*time.Second, "canary", func() (string, error) {
		answer, err := read(places)
		if err != nil { // refused at a place that is there is as good as not there
			return answer, unix.ENOENT
		}
		return answer, nil
	})
	c.Try("control-after", func() (string, error) { return read(c.Params[ParamControl]) })
}

// mountAudit says what is mounted where.
func mountAudit(c *Context) {
	all, err := mounts()
	c.Try("list", func() (string, error) { return strconv.Itoa(len(all)), err })
	for i, m := range all[:min(len(all), 200)] {
		c.Say("mount-"+strconv.Itoa(i), strings.Join([]string{m.fstype, m.target, m.options, m.source, m.root}, " "))
	}
}

// writePlaces makes files wherever that goes.
func writePlaces(c *Context) {
	all, err := mounts()
	c.Try("list", func() (string, error) { return strconv.Itoa(len(all)), err })
	tried := 0
	for _, m := range all {
		for _, below := range append([]string{"", "/tmp", "/var/tmp"}, c.Params[ParamDrop]...) {
			path := filepath.Join(m.target, below, "probe-"+c.Nonce+"-drop")
			f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			tried++
			if err != nil {
				continue
			}
			_, _ = f.WriteString(c.Nonce) // that it could be made is enough
			_ = f.Close()
			var st unix.Statfs_t
			_ = unix.Statfs(path, &st)
			if !slices.Contains(c.Params[ParamDrop], below) { // what is there the host finds and removes
				_ = os.Remove(path)
			}
			c.Say("wrote-"+strconv.Itoa(tried), fmt.Sprintf("%s %#x %s", fstypeAt(all, path), st.Type, path))
		}
	}
	c.Say("tried", strconv.Itoa(tried))
}

// fstypeAt is the type of the file system that a path is on.
func fstypeAt(all []mount, path string) string {
	best := mount{}
	for _, m := range all {
		if strings.HasPrefix(path, strings.TrimSuffix(m.target, "/")+"/") && len(m.target) >= len(best.target) {
			best = m
		}
	}
	return best.fstype
}

// descriptors says what this process was given besides its standard streams.
func descriptors(c *Context) {
	c.Try("cwd", os.Getwd)
	c.Try("list", func() (string, error) {
		entries, err := os.ReadDir("/proc/self/fd")
		return strconv.Itoa(len(entries)), err
	})
	for fd := range 256 {
		path := fmt.Sprintf("/proc/self/fd/%d", fd)
		link, err := os.Readlink(path)
		flags, ferr := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil && ferr != nil || fd <= 2 {
			continue
		}
		if flags&unix.FD_CLOEXEC != 0 {
			continue // this program's own
		}
		c.Say("fd-"+strconv.Itoa(fd), link)
		if at, err := unix.Openat(fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			c.Say("dir-"+strconv.Itoa(fd), link)
			_ = unix.Close(at)
		}
	}
}

// overwrite opens what must never change for writing: the programs that this process
// and the agent run, and a file of the host's to which it adds the nonce.
func overwrite(c *Context) {
	for sub, path := range map[string]string{"own-program": self, "agent-program": "/proc/1/exe"} {
		c.TryErr(sub, func() error { return openWrite(path) })
	}
	c.Try("target", func() (string, error) {
		for _, path := range c.Params[ParamTarget] {
			for _, prefix := range prefixes() {
				f, err := os.OpenFile(prefix+path, os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					continue
				}
				_, err = f.WriteString(c.Nonce)
				return prefix + path, errors.Join(err, f.Close())
			}
		}
		return "", unix.ENOENT
	})
}
