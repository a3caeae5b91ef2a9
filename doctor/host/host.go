// Package host is the doctor's checks QD901 to QD949: what the host and the
// installation must be like before a sandbox can hold. Each looks through Host
// only, so that every state can be shown from a host made up for the test.
package host

import (
	"context"
	"io/fs"
	"time"

	"github.com/quavon/quavon/doctor"
)

// Host is what the checks see of a machine. Paths are absolute.
type Host interface {
	// ReadFile reads a file of at most maxFile bytes.
	ReadFile(path string) ([]byte, error)
	// Stat follows links, Resolve names what it would find; Link reads one link.
	Stat(path string) (Info, error)
	Resolve(path string) (string, error)
	Link(path string) (string, error)
	ReadDir(path string) ([]string, error)
	// FileSystem tells of the mounted file system that path is on.
	FileSystem(path string) (FileSystem, error)
	// Open opens a device for reading and writing, and closes it.
	Open(path string) error
	// HardLink makes a file in one directory, links it into another and removes both.
	HardLink(from, to string) error
	Env(key string) string
	Kernel() (Kernel, error)
	User() (User, error)
	Clock() (Clock, error)
	// CreateVM makes an empty virtual machine by /dev/kvm and drops it. The step
	// names what failed: open, version or create.
	CreateVM() (step string, err error)
	// Interpreter is the loader that an ELF file asks for, "" for a static one.
	Interpreter(path string) (string, error)
	// Run runs a program of the host's with the C locale and returns its stdout; the
	// error has the end of its stderr. A program that isn't there is fs.ErrNotExist.
	Run(ctx context.Context, argv ...string) (string, error)
	// Peer is the process that listens at a Unix socket, 0 for one that this
	// process's namespace has no number for.
	Peer(ctx context.Context, socket string) (pid int, err error)
	// Get asks an HTTP server at a Unix socket; body is bounded.
	Get(ctx context.Context, socket, path string) (Answer, error)
}

// Info is a file's mode and owner.
type Info struct {
	Mode     fs.FileMode
	UID, GID uint32
}

// FileSystem is the type's magic number, room in bytes and inodes, and how it is
// mounted. Inodes is 0 for file systems without a number of them.
type FileSystem struct {
	Magic              int64
	Size, Free         uint64
	Inodes, FreeInodes uint64
	NoExec             bool
}

// Kernel is uname's, and the size of a page in bytes.
type Kernel struct {
	System, Release, Machine string
	PageSize                 int
}

// User is who the process is. Groups are the process's now, MemberOf those that
// the group database names the user in.
type User struct {
	UID              int
	Name             string
	Groups, MemberOf []int
}

// Clock is the time, and whether the kernel says that it is synchronised.
type Clock struct {
	Now          time.Time
	Synchronised bool
}

// Answer is an HTTP server's.
type Answer struct {
	Status int
	Header map[string]string
	Body   []byte
}

// Config is what the checks are asked about.
type Config struct {
	Host Host
	// Runsc finds the runsc that is used, or says why there is none.
	Runsc func() (string, error)
	// Socket finds the Docker engine's socket and who named it.
	Socket func() (path, from string, err error)
	// StateDir finds the state directory; CheckState refuses one that others could
	// change.
	StateDir   func() (string, error)
	CheckState func(string) error
	// EnvFile is the .env file's path, "" for none; named says that the operator gave
	// it, so that it must be there. nil is none.
	EnvFile func() (path string, named bool)
}

// Groups of checks.
const (
	groupHost    = "Host"
	groupDocker  = "Docker"
	groupRuntime = "gVisor"
	groupNetwork = "Network"
	groupStorage = "State and storage"

	groupSettings = "Settings"
)

// Checks are all of them, in the order in which they are shown.
func Checks(c Config) []*doctor.Check {
	var all []*doctor.Check
	for _, group := range [][]*doctor.Check{c.machine(), c.kvm(), c.docker(), c.runtime(), c.network(), c.settings(), c.storage()} {
		all = append(all, group...)
	}
	return all
}
