package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/guest/files"
	"github.com/quavon/quavon/runner/sandbox"
)

// maxLowers bounds the mounts of one sandbox.
const maxLowers = 1000

// lowerNumber is the number of a mount whose source is dir.
func lowerNumber(dir string) (int, bool) {
	name, ok := strings.CutPrefix(dir, sandbox.LowerDir+"/")
	n, err := strconv.Atoi(name)
	return n, ok && err == nil && strconv.Itoa(n) == name && n >= 0 && n < maxLowers
}

// load unpacks a tar stream at a mount's source, in a sandbox that sees nothing of
// the host's files. It takes the host for what the backend of any other sandbox
// is, so it serves only before the job's view is arranged. More than one stream
// may go to the same source.
func (a *agent) load(s *wire.Stream, n int, r *agentpb.Put) error {
	a.mu.Lock()
	fresh := a.stage == stageFresh
	a.mu.Unlock()
	if !fresh {
		return errors.New("the sandbox has been set up before")
	}
	dir, err := makeLower(n, int(r.GetUid()), int(r.GetGid()))
	if err != nil {
		return fmt.Errorf("make the source of mount %d: %w", n, err)
	}
	return files.Load(dir, int(r.GetUid()), int(r.GetGid()), s.Reader(wire.In), limits(r.GetMaxBytes(), r.GetMaxEntries()))
}

// makeLower makes the source of a mount on scratch and shows it where it belongs.
func makeLower(n, uid, gid int) (string, error) {
	source, err := scratch("lower", n)
	if err != nil {
		return "", err
	}
	target := filepath.Join(sandbox.LowerDir, strconv.Itoa(n))
	if _, err := os.Stat(target); err == nil {
		return source, nil
	}
	if err := os.MkdirAll(target, 0o700); err != nil {
		return "", err
	}
	if err := os.Chown(source, uid, gid); err != nil {
		return "", err
	}
	if err := os.Chmod(source, 0o755); err != nil {
		return "", err
	}
	return source, unix.Mount(source, target, "", unix.MS_BIND, "")
}

// checkScratch refuses a scratch file system of another size than the backend has
// asked its runtime for: the job's disk limit would not hold. "" asks for none.
func checkScratch(want string) error {
	if want == "" {
		return nil
	}
	size, err := strconv.ParseInt(want, 10, 64)
	if err != nil {
		return fmt.Errorf("%s=%q is no number of bytes", sandbox.EnvScratch, want)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(sandbox.ScratchDir, &st); err != nil {
		return fmt.Errorf("look at %s: %w", sandbox.ScratchDir, err)
	}
	if have := int64(st.Blocks) * st.Bsize; have != size || st.Type != unix.TMPFS_MAGIC {
		return fmt.Errorf("the disk limit does not hold: %s has %d bytes (type %#x) instead of %d", sandbox.ScratchDir, have, st.Type, size)
	}
	return nil
}
