package install_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/need"
)

const declaration = `schemaVersion: 1
images:
  box:
    context: sources/box
    platforms: [linux/amd64, linux/arm64]
  quavon:
    executable: self
    platforms: [linux/amd64, linux/arm64]
  valkey:
    context: sources/valkey
    platforms: [linux/amd64, linux/arm64]
`

// declare writes a declaration of images that can be built without any network: a box
// for jobs with the host's busybox, and Valkey as Debian's unpacked package.
func (h *host) declare() {
	h.t.Helper()
	h.write("images.yaml", declaration)
	h.box("first")
	h.write("sources/valkey/Dockerfile", "FROM scratch\nCOPY root/ /\n"+
		"COPY --chown=65532:65532 data/ /data/\nENV PATH=/bin LD_LIBRARY_PATH=/lib\nUSER 65532:65532\nWORKDIR /data\n")
	root := filepath.Join(h.dir, "sources/valkey/root")
	valkey := h.output(filepath.Join(sandboxtest.Module(h.t), "test/valkey/server.sh"), "fetch")
	h.busybox(root)
	for _, program := range []string{"valkey-server", "valkey-cli"} {
		h.program(filepath.Join(valkey, "usr/bin", program), root, filepath.Join(valkey, "usr/lib"))
	}
	h.write("sources/valkey/data/.keep", "")
}

// undeclare takes the declaration away again.
func (h *host) undeclare() {
	h.t.Helper()
	for _, name := range []string{"images.yaml", "sources"} {
		if err := os.RemoveAll(filepath.Join(h.dir, name)); err != nil {
			h.t.Fatal(err)
		}
	}
}

// box writes the context of the jobs' image, with a mark. Its user isn't root, since
// the probes of what root may do in a sandbox fail then.
func (h *host) box(mark string) {
	h.t.Helper()
	h.write("sources/box/Dockerfile", "FROM scratch\nCOPY root/ /\n"+
		"COPY --chmod=1777 open/ /\nENV PATH=/bin\nUSER 60000:60000\n")
	h.write("sources/box/open/tmp/.keep", "")
	h.write("sources/box/root/mark", mark+"\n")
	h.busybox(filepath.Join(h.dir, "sources/box/root"))
}

func (h *host) busybox(root string) {
	h.t.Helper()
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		h.t.Fatal(err)
	}
	if _, err := os.Stat("/bin/busybox"); err != nil {
		need.Skip(h.t, "busybox-static is missing: %v", err)
	}
	h.copy("/bin/busybox", filepath.Join(bin, "busybox"))
	for _, applet := range []string{"sh", "grep", "cat", "echo", "id", "true", "sleep", "wget", "httpd", "ls", "dd", "tail", "yes"} {
		_ = os.Symlink("busybox", filepath.Join(bin, applet)) // it may be there
	}
}

func (h *host) copy(from, to string) {
	h.t.Helper()
	raw, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, raw, 0o755)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// program copies a program and the libraries it links, some of which are unpacked
// below libs.
func (h *host) program(path, root, libs string) {
	h.t.Helper()
	h.copy(path, filepath.Join(root, "bin", filepath.Base(path)))
	cmd := exec.Command("ldd", path)
	dirs, err := filepath.Glob(filepath.Join(libs, "*-linux-gnu"))
	if err != nil || len(dirs) != 1 {
		h.t.Fatal(dirs, err)
	}
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dirs[0])
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("ldd %s: %v", path, err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		var from, to string
		switch {
		case len(fields) > 2 && fields[1] == "=>":
			from, to = fields[2], filepath.Join(root, "lib", fields[0])
		case len(fields) == 2 && strings.HasPrefix(fields[0], "/"): // the loader, whose path is in the program
			from, to = fields[0], filepath.Join(root, fields[0])
		default:
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			h.t.Fatal(err)
		}
		h.copy(from, to)
	}
}
