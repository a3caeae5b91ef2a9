package qemu

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/imagebuild/rootfs"
	it "github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// TestRootfsElsewhere makes the same file systems under another kernel and on another
// day, and has that kernel write to one and grow it while it is mounted.
func TestRootfsElsewhere(t *testing.T) {
	needMachine(t)
	layers := it.Tar(t, it.Dir("d"), it.File("d/f", strings.Repeat("content", 100_000)), it.Symlink("l", "d/f"), it.Link("h", "d/f"))
	change := it.Tar(t, it.File("d/g", "new"), it.File(".wh.l", ""))
	archive := it.DockerArchive(t, it.Image(t, v1.Config{}, it.Plain(layers), it.Plain(change)), "x:y")
	want := map[lock.Kind]string{lock.KindExt4: "", lock.KindEROFS: ""}
	for kind := range want {
		img, err := source.File(t.Context(), archive, source.Select{Platform: source.Host()}, t.TempDir())
		must(t, err)
		made, _, err := new(rootfs.Maker).Make(t.Context(), img, filepath.Join(t.TempDir(), "image"), rootfs.Options{Kind: kind})
		must(t, err)
		must(t, img.Close())
		want[kind] = made.SHA256
	}
	quavon := filepath.Join(sandboxtest.Module(t), "bin", "quavon")
	cmd := exec.CommandContext(t.Context(), "./vm.sh", "-t", "300", "-d", "2031-02-03T04:05:06", "testdata/rootfs.sh", archive, quavon,
		"--", "sh", "./rootfs.sh", filepath.Base(archive))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the machine: %v\n%s", err, stderr.Bytes())
	}
	for kind, sum := range want {
		if !bytes.Contains(out, []byte(sum+"  /var/lib/"+string(kind))) {
			t.Errorf("%s: want %s", kind, sum)
		}
	}
	for _, line := range []string{"day 2031", "grown ", "clean"} {
		if !bytes.Contains(out, []byte("\n"+line)) {
			t.Errorf("no line %q", line)
		}
	}
}
