package files

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/quavon/quavon/test/need"
)

// envLower is set inside gVisor: a directory of the host for the lower layers.
const envLower = "QUAVON_TEST_LOWER"

// gVisor's overlay and file systems are not the kernel's, so this package's
// tests run once more inside it, their lower layers coming from the host.
func TestUnderGVisor(t *testing.T) {
	need.That(t, os.Geteuid() == 0, "root, to run runsc")
	runsc := findRunsc(t)
	dir := t.TempDir()
	build := exec.Command("go", "test", "-c", "-o", dir+"/files.test", ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	args := []string{"/files.test", "-test.v", "-test.parallel=4", "-test.skip=TestUnderGVisor"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	bundle(t, dir, args)
	cmd := exec.Command(runsc, "--root", dir+"/state", "--platform=systrap", "--network=none", "--ignore-cgroups", "run", "-bundle", dir, "quavon-files-test")
	// An *os.File would let runsc write to it from offset 0; a buffer is a pipe.
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	syscall.Unmount(dir+"/state/null-netns", syscall.MNT_DETACH)
	if err != nil || !bytes.Contains(out.Bytes(), []byte("--- PASS: TestDiffEqualsFullComparison ")) {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
}

func findRunsc(t *testing.T) string {
	t.Helper()
	path := os.Getenv("QUAVON_RUNSC")
	if path == "" {
		path, _ = filepath.Abs("../../../bin/runsc")
	}
	_, err := os.Stat(path)
	need.That(t, err == nil, "bin/runsc (make) or $QUAVON_RUNSC")
	return path
}

// bundle writes an OCI bundle with the host's tools and the test binary.
func bundle(t *testing.T, dir string, args []string) {
	t.Helper()
	root := dir + "/root"
	for _, d := range []string{"", "/usr", "/proc", "/tmp", "/lower", "/dev"} {
		must(t, os.Mkdir(root+d, 0o755))
	}
	must(t, os.Mkdir(dir+"/lower", 0o755))
	for _, l := range []string{"bin", "sbin", "lib", "lib64"} {
		must(t, os.Symlink("usr/"+l, root+"/"+l))
	}
	must(t, os.Rename(dir+"/files.test", root+"/files.test"))
	all := []string{"CAP_SYS_ADMIN", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_MKNOD"}
	spec := specs.Spec{
		Version: specs.Version,
		Root:    &specs.Root{Path: root},
		Process: &specs.Process{
			Args: args, Cwd: "/", Env: []string{"PATH=/usr/bin:/usr/sbin", envLower + "=/lower"},
			Capabilities: &specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs"},
			{Destination: "/usr", Type: "bind", Source: "/usr", Options: []string{"ro", "rbind"}},
			{Destination: "/lower", Type: "bind", Source: dir + "/lower", Options: []string{"rw", "rbind"}},
		},
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace},
			{Type: specs.MountNamespace},
			{Type: specs.NetworkNamespace},
			{Type: specs.IPCNamespace},
			{Type: specs.UTSNamespace},
		}},
	}
	b, err := json.Marshal(spec)
	must(t, err)
	must(t, os.WriteFile(dir+"/config.json", b, 0o644))
}
