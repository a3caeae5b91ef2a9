package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/guest/files"
	"github.com/quavon/quavon/runner/sandbox"
)

// setUp arranges the job's view and then gives up the capability to mount. It
// works once; when it fails the sandbox is of no use.
func (a *agent) setUp(s *agentpb.Setup) error {
	a.mu.Lock()
	first := a.stage == stageFresh
	if first {
		a.stage = stageSetup
	}
	a.mu.Unlock()
	if !first {
		return errors.New("the sandbox has been set up before")
	}
	overlays, err := arrange(s)
	if err == nil {
		err = capLimit(keepAfterSetup)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stage, a.overlays = stageReady, overlays
	if err != nil {
		a.stage = stageFailed
	}
	return err
}

func arrange(s *agentpb.Setup) ([]files.Overlay, error) {
	var overlays []files.Overlay
	if s.GetWritableRoot() {
		if err := enterWritableRoot(); err != nil {
			return nil, fmt.Errorf("make the root writable: %w", err)
		}
	}
	for _, p := range s.GetPoints() {
		if err := makePoint("/", p); err != nil {
			return nil, fmt.Errorf("make %s: %w", p.GetPath(), err)
		}
	}
	for i, d := range s.GetDirs() {
		if err := mountDir(i, d); err != nil {
			return nil, fmt.Errorf("make the directory %s: %w", d.GetPath(), err)
		}
	}
	for i, o := range s.GetOverlays() {
		mounted, err := mountOverlay(i, o)
		if err != nil {
			return nil, fmt.Errorf("mount the overlay at %s: %w", o.GetTarget(), err)
		}
		overlays = append(overlays, mounted)
	}
	for _, b := range s.GetBinds() {
		if err := bindReadOnly(b.GetSource(), b.GetTarget()); err != nil {
			return nil, fmt.Errorf("show %s at %s: %w", b.GetSource(), b.GetTarget(), err)
		}
	}
	return overlays, nil
}

// scratch makes a directory on the scratch file system that is only the agent's.
func scratch(kind string, i int) (string, error) {
	dir := filepath.Join(sandbox.ScratchDir, kind, strconv.Itoa(i))
	return dir, os.MkdirAll(dir, 0o700)
}

func mountOverlay(i int, o *agentpb.Overlay) (files.Overlay, error) {
	var none files.Overlay
	if err := checkPath(o.GetLower(), o.GetTarget()); err != nil {
		return none, err
	}
	if strings.ContainsAny(o.GetLower(), ",:\\") {
		return none, fmt.Errorf("%.200q can't stand in mount options", o.GetLower())
	}
	upper, err := scratch("upper", i)
	if err != nil {
		return none, err
	}
	work, err := scratch("work", i)
	if err != nil {
		return none, err
	}
	if err := copyOwner(o.GetLower(), upper); err != nil {
		return none, err
	}
	options := "lowerdir=" + o.GetLower() + ",upperdir=" + upper + ",workdir=" + work
	if err := makeTarget(o.GetTarget(), true); err != nil {
		return none, err
	}
	if err := unix.Mount("overlay", o.GetTarget(), "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return none, err
	}
	for _, p := range o.GetProtect() {
		if err := protect(o, p); err != nil {
			return none, fmt.Errorf("protect %s: %w", p, err)
		}
	}
	for _, p := range o.GetMask() {
		if err := mask(o, p); err != nil {
			return none, fmt.Errorf("mask %s: %w", p, err)
		}
	}
	return files.Overlay{Lower: o.GetLower(), Upper: upper, Target: o.GetTarget(), Protect: o.GetProtect()}, nil
}

// copyOwner gives the upper layer's root what the overlay shows of it: the
// lower's owner and permissions.
func copyOwner(lower, upper string) error {
	var st unix.Stat_t
	if err := unix.Stat(lower, &st); err != nil {
		return err
	}
	if err := os.Chown(upper, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	return unix.Chmod(upper, st.Mode&0o7777)
}

// protect shows a path of the lower layer over the overlay, read-only.
func protect(o *agentpb.Overlay, path string) error {
	there, err := inLower(o, path)
	if err != nil || !there {
		return err
	}
	return bindReadOnly(filepath.Join(o.GetLower(), path), filepath.Join(o.GetTarget(), path))
}

// mask shows an empty file instead of one in the overlay.
func mask(o *agentpb.Overlay, path string) error {
	there, err := inLower(o, path)
	if err != nil || !there {
		return err
	}
	empty := filepath.Join(sandbox.ScratchDir, "empty")
	if err := os.WriteFile(empty, nil, 0o444); err != nil {
		return err
	}
	return bindReadOnly(empty, filepath.Join(o.GetTarget(), path))
}

// inLower says whether a path is in the lower layer. What isn't there needs nothing
// mounted over it, and through a symbolic link, which the workspace's author has
// made, nothing is mounted.
func inLower(o *agentpb.Overlay, path string) (bool, error) {
	if !filepath.IsLocal(path) {
		return false, errors.New("it leads out of the overlay")
	}
	at := o.GetLower()
	for _, part := range strings.Split(filepath.Clean(path), "/") {
		at = filepath.Join(at, part)
		fi, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if fi.Mode()&fs.ModeSymlink != 0 {
			return false, nil
		}
	}
	return true, nil
}

// bindReadOnly shows source at target.
func bindReadOnly(source, target string) error {
	if err := checkPath(source, target); err != nil {
		return err
	}
	fi, err := os.Stat(source)
	if err != nil {
		return err
	}
	if err := makeTarget(target, fi.IsDir()); err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	const flags = unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	return unix.Mount("", target, "", flags, "")
}

// mountDir makes a writable directory.
func mountDir(i int, d *agentpb.Dir) error {
	if err := checkPath(d.GetPath()); err != nil {
		return err
	}
	dir, err := scratch("dir", i)
	if err != nil {
		return err
	}
	if err := os.Chown(dir, int(d.GetUid()), int(d.GetGid())); err != nil {
		return err
	}
	if err := unix.Chmod(dir, d.GetMode()&0o7777); err != nil {
		return err
	}
	if err := makeTarget(d.GetPath(), true); err != nil {
		return err
	}
	if err := unix.Mount(dir, d.GetPath(), "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", d.GetPath(), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, "")
}

// makeTarget makes a mount point that isn't there, as far as the root allows.
func makeTarget(path string, dir bool) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o644)
}

// checkPath refuses what can't be a mount's path.
func checkPath(paths ...string) error {
	for _, p := range paths {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || len(p) > wire.MaxPath {
			return fmt.Errorf("%.200q isn't a clean absolute path", p)
		}
	}
	return nil
}
