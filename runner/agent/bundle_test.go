package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/sandbox"
)

// makeTree makes the root directory and the workspace.
func makeTree(tb testing.TB, b *box) {
	tb.Helper()
	for _, d := range []string{
		"root/usr", "root/etc", "root/proc", "root/dev", "root/tmp", "root/home/job", "root/workspace", "root/test",
		"root/.quavon/scratch", "root/.quavon/lower/0", "lower/.git", "lower/sub", "scratch",
	} {
		must(tb, os.MkdirAll(filepath.Join(b.dir, d), 0o755))
	}
	for _, l := range []string{"bin", "lib", "lib64", "sbin"} {
		must(tb, os.Symlink("usr/"+l, filepath.Join(b.dir, "root", l)))
	}
	must(tb, os.WriteFile(filepath.Join(b.dir, "root/.quavon/guest"), nil, 0o755))
	must(tb, os.Chmod(filepath.Join(b.dir, "root/.quavon"), 0o700))
	must(tb, os.Chown(filepath.Join(b.dir, "root/.quavon"), sandbox.AgentUID, sandbox.AgentUID))
	must(tb, os.WriteFile(filepath.Join(b.lower, "old.txt"), []byte("old\n"), 0o644))
	must(tb, os.WriteFile(filepath.Join(b.lower, ".git/config"), []byte("[core]\n"), 0o644))
	for _, p := range []string{"", "old.txt", ".git", ".git/config", "sub"} {
		must(tb, os.Chown(filepath.Join(b.lower, p), sandbox.JobUID, sandbox.JobUID))
	}
}

type object = map[string]any

// writeConfig writes the bundle's OCI configuration: what a backend would attach.
func writeConfig(tb testing.TB, b *box) {
	tb.Helper()
	var caps []string
	for _, c := range strings.Fields("CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID SETUID SETGID SETPCAP KILL SYS_ADMIN SYS_CHROOT") {
		caps = append(caps, "CAP_"+c)
	}
	bind := func(source, target string) object {
		return object{"destination": target, "type": "bind", "source": source, "options": []string{"ro", "rbind"}}
	}
	scratch, size := filepath.Join(b.dir, "scratch"), "64m" // soon full
	if _, ok := tb.(*testing.B); ok {
		size = "1g"
	}
	config := object{
		"ociVersion": "1.1.0",
		"process": object{
			"user": object{"uid": b.uid, "gid": b.uid}, "args": b.args,
			"env": []string{"PATH=/usr/bin:/bin"}, "cwd": "/", "noNewPrivileges": true,
			"capabilities": object{"bounding": caps, "effective": caps, "permitted": caps, "inheritable": caps, "ambient": caps},
		},
		"root": object{"path": filepath.Join(b.dir, "root"), "readonly": true},
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev/pts", "type": "devpts", "source": "devpts"},
			bind("/usr", "/usr"),
			bind(filepath.Dir(testBinary(tb, "guest")), "/test"),
			bind(testBinary(tb, "guest"), sandbox.GuestBinary),
			bind(b.lower, sandbox.LowerDir+"/0"),
			{"destination": sandbox.ScratchDir, "type": "bind", "source": scratch, "options": []string{"rw"}},
		},
		"linux": object{"namespaces": []object{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"}}},
		"annotations": object{
			"dev.gvisor.spec.mount.scratch.source":  scratch,
			"dev.gvisor.spec.mount.scratch.type":    "tmpfs",
			"dev.gvisor.spec.mount.scratch.share":   "container",
			"dev.gvisor.spec.mount.scratch.options": "rw,size=" + size + ",mode=0700",
		},
	}
	raw, err := json.Marshal(config)
	must(tb, err)
	must(tb, os.WriteFile(filepath.Join(b.dir, "config.json"), raw, 0o644))
}
