package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"github.com/quavon/quavon/runner/fault"
)

// fake is a host from testdata: files by path, and answers below "!".
//
//	!kernel          system release machine page-size
//	!user            uid name groups member-of (lists with commas, - for none)
//	!clock           RFC 3339 time, then "synchronised" or not
//	!kvm             "ok", or a step and the name of an error
//	!filesystems     path magic free inodes free-inodes [noexec]
//	!modes           path mode uid gid
//	!env             KEY=value
//	!opens           device, then "ok" or the name of an error
//	!hardlink        "ok" or the name of an error
//	!cut             paths of files whose last line has no end, and "end"
//	!envfile         path of .env; !envnamed: any text when the operator gave it
//	!interpreter     of runsc
//	!gone            names of files to leave out, one a line
//	!links           link target
//	!peer            number of the process behind the engine's socket
//	!run/COMMAND     stdout; a line "! message" last for a failure
//	!get/PATH        status, then the body
type fake struct {
	files map[string]string
}

var _ Host = (*fake)(nil)

// load reads the good host and lays a case over it.
func load(t *testing.T, over *txtar.Archive) *fake {
	t.Helper()
	h := &fake{files: map[string]string{}}
	base, err := txtar.ParseFile(filepath.Join("testdata", "good.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(base.Files, over.Files...) {
		name := f.Name
		if !strings.HasPrefix(name, "!") {
			name = "/" + name
		}
		h.files[name] = string(f.Data)
	}
	for name := range strings.Lines(h.files["!gone"]) {
		delete(h.files, strings.TrimSpace(name))
	}
	return h
}

func (h *fake) fields(name string) []string { return strings.Fields(h.files[name]) }

func (h *fake) line(list, key string) []string {
	for l := range strings.Lines(h.files[list]) {
		if f := strings.Fields(l); len(f) > 0 && f[0] == key {
			return f[1:]
		}
	}
	return nil
}

func (h *fake) ReadFile(p string) ([]byte, error) {
	if f := h.line("!errors", p); f != nil {
		return nil, &fs.PathError{Op: "open", Path: p, Err: errno(f[0])}
	}
	data, ok := h.files[p]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
	}
	if h.line("!cut", p) != nil {
		data = strings.TrimSuffix(data, "\n")
	}
	if strings.HasSuffix(p, "/cmdline") || strings.HasSuffix(p, "/environ") {
		data = strings.ReplaceAll(strings.TrimSpace(data), " ", "\x00")
	}
	return []byte(data), nil
}

func (h *fake) Stat(p string) (Info, error) {
	if f := h.line("!modes", p); f != nil {
		mode, _ := strconv.ParseUint(f[0], 8, 32)
		uid, _ := strconv.Atoi(f[1])
		gid, _ := strconv.Atoi(f[2])
		return Info{Mode: fs.FileMode(mode), UID: uint32(uid), GID: uint32(gid)}, nil
	}
	if _, ok := h.files[p]; ok {
		return Info{Mode: 0o755}, nil
	}
	if names, err := h.ReadDir(p); err == nil && len(names) > 0 {
		return Info{Mode: 0o755 | fs.ModeDir}, nil
	}
	return Info{}, &fs.PathError{Op: "stat", Path: p, Err: fs.ErrNotExist}
}

func (h *fake) Resolve(p string) (string, error) {
	if f := h.line("!links", p); f != nil {
		return f[0], nil
	}
	return p, nil
}

func (h *fake) Link(p string) (string, error) {
	if f := h.line("!links", p); f != nil {
		return f[0], nil
	}
	return "", &fs.PathError{Op: "readlink", Path: p, Err: fs.ErrNotExist}
}

func (h *fake) Peer(context.Context, string) (int, error) {
	pid, err := strconv.Atoi(strings.TrimSpace(h.files["!peer"]))
	if err != nil {
		return 0, errno(strings.TrimSpace(h.files["!peer"]))
	}
	return pid, nil
}

func (h *fake) ReadDir(p string) ([]string, error) {
	var names []string
	for name := range h.files {
		if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(p, "/")+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			names = append(names, first)
		}
	}
	if names == nil {
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (h *fake) FileSystem(p string) (FileSystem, error) {
	f := h.line("!filesystems", p)
	if f == nil {
		return FileSystem{}, &fs.PathError{Op: "statfs", Path: p, Err: fs.ErrNotExist}
	}
	n := make([]uint64, 4)
	for i := range n {
		n[i], _ = strconv.ParseUint(f[i], 0, 64)
	}
	return FileSystem{
		Magic: int64(n[0]), Free: n[1], Inodes: n[2], FreeInodes: n[3], NoExec: slices.Contains(f, "noexec"),
	}, nil
}

func (h *fake) Open(p string) error {
	if f := h.line("!opens", p); f != nil && f[0] != "ok" {
		return &fs.PathError{Op: "open", Path: p, Err: errno(f[0])}
	}
	return nil
}

func (h *fake) HardLink(from, to string) error {
	if f := h.fields("!hardlink"); f[0] != "ok" {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: errno(f[0])}
	}
	return nil
}

func (h *fake) Env(key string) string {
	for l := range strings.Lines(h.files["!env"]) {
		if v, ok := strings.CutPrefix(l, key+"="); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func (h *fake) Kernel() (Kernel, error) {
	f := h.fields("!kernel")
	if len(f) < 4 {
		return Kernel{}, errors.New("uname failed")
	}
	size, err := strconv.Atoi(f[3])
	return Kernel{System: f[0], Release: f[1], Machine: f[2], PageSize: size}, err
}

func (h *fake) User() (User, error) {
	f := h.fields("!user")
	uid, err := strconv.Atoi(f[0])
	return User{UID: uid, Name: f[1], Groups: numbers(f[2]), MemberOf: numbers(f[3])}, err
}

func numbers(list string) []int {
	var out []int
	for s := range strings.SplitSeq(list, ",") {
		if n, err := strconv.Atoi(s); err == nil {
			out = append(out, n)
		}
	}
	return out
}

func (h *fake) Clock() (Clock, error) {
	f := h.fields("!clock")
	now, err := time.Parse(time.RFC3339, f[0])
	return Clock{Now: now, Synchronised: f[1] == "synchronised"}, err
}

func errno(name string) error {
	for _, e := range []unix.Errno{unix.EACCES, unix.EBUSY, unix.ENODEV, unix.ENOENT, unix.EIO, unix.EPERM, unix.EXDEV, unix.ENXIO} {
		if unix.ErrnoName(e) == name {
			return e
		}
	}
	return errors.New(name)
}

func (h *fake) CreateVM() (string, error) {
	f := h.fields("!kvm")
	if f[0] == "ok" {
		return "", nil
	}
	return f[0], errno(f[1])
}

func (h *fake) Interpreter(string) (string, error) {
	return strings.TrimSpace(h.files["!interpreter"]), nil
}

func (h *fake) Run(_ context.Context, argv ...string) (string, error) {
	name := strings.Join(argv, " ")
	if argv[0] == "unshare" && argv[1] == "--net" {
		name = "unshare nft" // the rules themselves are tried on the real host
	}
	out, ok := h.files["!run/"+name]
	if !ok {
		return "", fmt.Errorf("%s: %w", argv[0], fs.ErrNotExist)
	}
	if out, message, failed := strings.Cut("\n"+out, "\n! "); failed {
		return strings.TrimPrefix(out, "\n"), errors.New(strings.TrimSpace(message))
	}
	return out, nil
}

func (h *fake) Get(_ context.Context, _, p string) (Answer, error) {
	text, ok := h.files["!get"+p]
	if !ok {
		return Answer{Status: 404}, nil
	}
	status, body, _ := strings.Cut(text, "\n")
	code, err := strconv.Atoi(strings.TrimSpace(status))
	if err != nil {
		return Answer{}, errno(strings.TrimSpace(status))
	}
	return Answer{Status: code, Body: []byte(body)}, nil
}

// config asks about the fake host.
func (h *fake) config() Config {
	return Config{
		Host: h,
		Runsc: func() (string, error) {
			if h.files["!runsc"] == "" {
				return "", fault.New("runsc is missing", "run make")
			}
			return strings.TrimSpace(h.files["!runsc"]), nil
		},
		Socket: func() (string, string, error) {
			f := h.fields("!socket")
			if len(f) == 0 {
				return "", "", fault.New("DOCKER_HOST names \"ssh://u@h\", an engine on another host", "name a socket of this one")
			}
			return f[0], strings.Join(f[1:], " "), nil
		},
		StateDir: func() (string, error) { return strings.TrimSpace(h.files["!state"]), nil },
		EnvFile:  func() (string, bool) { return strings.TrimSpace(h.files["!envfile"]), h.files["!envnamed"] != "" },
		CheckState: func(dir string) error {
			if info, err := h.Stat(dir); err == nil && info.Mode&0o002 != 0 {
				return fault.New(path.Base(dir)+" is writable by others", "run `chmod go-w "+dir+"`")
			}
			return nil
		},
	}
}

func readCase(t *testing.T, file string) (*txtar.Archive, map[string]string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a := txtar.Parse(data)
	want := map[string]string{}
	for l := range strings.Lines(string(a.Comment)) {
		if k, v, ok := strings.Cut(l, ":"); ok {
			want[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	return a, want
}
