//go:build heavy

package rootfs_test

import (
	"os"
	"path/filepath"
	"testing"

	it "github.com/quavon/quavon/runner/image/imagetest"
)

// TestDebian compares a real image, and one with a layer on top.
func TestDebian(t *testing.T) {
	t.Parallel()
	it.NeedMount(t)
	base := os.Getenv("QUAVON_DEBIAN_TAR")
	if base == "" {
		it.NeedTool(t, "mmdebstrap")
		base = filepath.Join(t.TempDir(), "debian.tar")
		it.Run(t, "mmdebstrap", "-q", "--variant=minbase", "--include=iputils-ping", "bookworm", base)
	}
	dir := t.TempDir()
	unpack := []string{"--xattrs", "--xattrs-include=*", "-xpf", base, "-C", dir}
	for _, node := range []string{"console", "full", "null", "ptmx", "random", "tty", "urandom", "zero"} {
		unpack = append(unpack, "--exclude=./dev/"+node)
	}
	it.Run(t, "tar", unpack...)
	layer, err := os.ReadFile(base)
	must(t, err)
	equal(t, layout(t, layer), it.OverlayDirs(t, dir))
	change := []it.Entry{
		it.Dir("./"), it.Dir("etc"), it.File("etc/.wh.motd", ""), it.File("etc/issue", "Quavon's test image\n"), it.Dir("usr"), it.Dir("usr/share"),
		it.Dir("usr/share/doc"), it.File("usr/share/doc/.wh..wh..opq", ""), it.Link("etc/issue.too", "etc/issue"), it.Symlink("etc/mtab", "/proc/mounts"),
	}
	top := t.TempDir()
	it.Unpack(t, top, change)
	equal(t, layout(t, layer, it.Tar(t, change...)), it.OverlayDirs(t, dir, top))
}
