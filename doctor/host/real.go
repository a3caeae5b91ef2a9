package host

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/sandbox/docker/dockerd"
)

// Real is the machine this process is on.
type Real struct{}

var _ Host = Real{}

// maxFile bounds what is read of a file, maxAnswer of a program or server.
const (
	maxFile   = 1 << 20
	maxAnswer = 16 << 20
)

// ReadFile implements Host. What isn't a regular file, as a FIFO in the place of
// one, is refused without waiting for it.
func (Real) ReadFile(path string) ([]byte, error) {
	f, err := bounded.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := bounded.ReadAll(f, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// Stat implements Host.
func (Real) Stat(path string) (Info, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return Info{}, errors.New("no owner is known of " + path)
	}
	return Info{Mode: fi.Mode(), UID: st.Uid, GID: st.Gid}, nil
}

// Resolve implements Host.
func (Real) Resolve(path string) (string, error) { return filepath.EvalSymlinks(path) }

// Link implements Host.
func (Real) Link(path string) (string, error) { return os.Readlink(path) }

// ReadDir implements Host.
func (Real) ReadDir(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// FileSystem implements Host.
func (Real) FileSystem(path string) (FileSystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return FileSystem{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	size := uint64(st.Bsize)
	return FileSystem{
		Magic: st.Type, Size: st.Blocks * size, Free: st.Bavail * size,
		Inodes: st.Files, FreeInodes: st.Ffree, NoExec: st.Flags&unix.ST_NOEXEC != 0,
	}, nil
}

// Open implements Host.
func (Real) Open(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// HardLink implements Host.
func (Real) HardLink(from, to string) error {
	f, err := os.CreateTemp(from, ".quavon-doctor-")
	if err != nil {
		return err
	}
	other := filepath.Join(to, filepath.Base(f.Name())+".link")
	err = errors.Join(f.Close(), os.Link(f.Name(), other))
	if err == nil {
		err = os.Remove(other)
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// Env implements Host.
func (Real) Env(key string) string { return os.Getenv(key) }

// Kernel implements Host.
func (Real) Kernel() (Kernel, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return Kernel{}, err
	}
	return Kernel{
		System: unix.ByteSliceToString(u.Sysname[:]), Release: unix.ByteSliceToString(u.Release[:]),
		Machine: unix.ByteSliceToString(u.Machine[:]), PageSize: os.Getpagesize(),
	}, nil
}

// User implements Host.
func (Real) User() (User, error) {
	u := User{UID: os.Geteuid()}
	groups, err := os.Getgroups()
	if err != nil {
		return u, err
	}
	u.Groups = append(groups, os.Getegid())
	entry, err := user.LookupId(strconv.Itoa(u.UID))
	if err != nil {
		return u, nil //nolint:nilerr // a uid without an entry is a member of nothing
	}
	u.Name = entry.Username
	ids, err := entry.GroupIds()
	for _, id := range ids {
		if n, err := strconv.Atoi(id); err == nil {
			u.MemberOf = append(u.MemberOf, n)
		}
	}
	return u, err
}

// Clock implements Host.
func (Real) Clock() (Clock, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return Clock{Now: time.Now(), Synchronised: state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0}, err
}

// Interpreter implements Host.
func (Real) Interpreter(path string) (string, error) {
	file, err := bounded.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		return "", err
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		name, err := io.ReadAll(io.LimitReader(p.Open(), unix.PathMax))
		return strings.TrimRight(string(name), "\x00"), err
	}
	return "", nil
}

// Run implements Host.
func (Real) Run(ctx context.Context, argv ...string) (string, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return "", fmt.Errorf("%s: %w", argv[0], os.ErrNotExist)
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "LC_ALL=") }), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	var out, errOut headBuffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", argv[0], err, strings.TrimSpace(lastLines(errOut.String(), 3)))
	}
	if out.over {
		err = errors.Join(err, fmt.Errorf("%s said more than %d bytes", argv[0], maxAnswer))
	}
	return out.String(), err
}

// headBuffer keeps the first bytes of a program's output and lets it go on.
type headBuffer struct {
	strings.Builder

	over bool
}

func (b *headBuffer) Write(p []byte) (int, error) {
	if room := maxAnswer - b.Len(); len(p) > room {
		b.over = true
		_, _ = b.Builder.Write(p[:room])
		return len(p), nil
	}
	return b.Builder.Write(p)
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

// Peer implements Host. The kernel keeps who called listen.
func (Real) Peer(ctx context.Context, socket string) (int, error) { return dockerd.Peer(ctx, socket) }

// Get implements Host.
func (Real) Get(ctx context.Context, socket, path string) (Answer, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	c := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+path, nil)
	if err != nil {
		return Answer{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	a := Answer{Status: resp.StatusCode, Header: map[string]string{}}
	for name := range resp.Header {
		a.Header[name] = resp.Header.Get(name)
	}
	a.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return a, err
}
