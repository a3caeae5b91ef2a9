//go:build shipped

package install_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quavon/quavon/test/need"
)

var secrets = flag.String("secrets", "", "directory of files named like the secrets of docs/build.md, for a machine that reaches registries of its own only")

// pieces are of work, one for each shipped image, with what they print.
var pieces = []struct{ image, run, want string }{
	{"go", `cd /tmp && printf 'package main\nfunc main() { println("sum", 1+1) }\n' >a.go && go run a.go 2>&1`, "sum 2"},
	{"guest", `cd /tmp && echo 'const n: number = "one"' >a.ts && git init -q . && rg -c one . && ! tsc --noEmit a.ts`, "error TS2322"},
	{"node", `cd /tmp && echo 'require("node:test")("one", () => {})' >a.test.js && node --test --test-reporter=tap`, "# pass 1"},
	{"python", `cd /tmp && python -m venv v && echo 'import os' >a.py && ! ruff check --output-format concise a.py && v/bin/pip --version`, "F401"},
	{"scanners", `cd /tmp && echo 'eval(text)' >a.ts && echo 'import pickle; pickle.loads(b"")' >a.py &&
		! bandit -q -r -f json a.py && ! ast-grep scan --config /opt/rules/sgconfig.yml --json=compact a.ts`, `"ruleId":"js-eval"`},
}

// TestShipped goes the way of TestLifecycle with what an operator gets who declares no
// images: those that Quavon ships, made from the packages of registries. A job runs in each.
func TestShipped(t *testing.T) {
	l := newLife(t)
	defer func() { t.Log("time for each step:\n" + strings.Join(l.took, "\n")) }()
	l.undeclare()
	cut := l.wayOut()
	l.fresh = l.lister.Take()
	l.step("install into an empty directory", l.installShipped)
	l.sizes()
	l.step("the doctor passes QD951 to QD958", l.doctor)
	l.pieces()
	l.step("install again changes nothing", func() { l.replaces(func() { l.says(l.changes("install"), "nothing to change") }) })
	l.step("build bundle", l.bundle)
	l.step("purge leaves nothing", l.purgeAll)
	l.sizes()
	cut()
	l.step("install from the bundle without a way out", l.installOffline)
	l.step("the doctor passes QD951 to QD958", l.doctor)
	l.pieces()
	l.step("purge leaves nothing", l.purgeAll)
}

func (l *life) pieces() {
	for _, p := range pieces {
		l.step("a job in "+p.image, func() { l.says(l.send(l.job(p.image, p.run)), p.want) })
	}
}

func (l *life) purgeAll() {
	l.says(l.changes("uninstall", "--purge"), "uninstalled from "+l.dir)
	if d := l.left(); len(d) > 0 {
		l.t.Errorf("the host is other than before:\n%s", strings.Join(d, "\n"))
	}
}

// wayOut gives the engine one to the registries, by a program that makes its connections
// from the host: neither the host's interfaces nor its firewall change. It ends with cut.
func (l *life) wayOut() (cut func()) {
	l.t.Helper()
	program, err := exec.LookPath("slirp4netns")
	need.That(l.t, err == nil, "slirp4netns: apt-get install slirp4netns")
	isReady, ready, err := os.Pipe()
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = isReady.Close() }()
	cmd := exec.Command(program, "--configure", "--mtu=65520", "--ready-fd=3", strings.TrimSpace(l.read(filepath.Join(l.engine, "dockerd.pid"))), "tap0")
	cmd.ExtraFiles = []*os.File{ready}
	err = cmd.Start()
	_ = ready.Close()
	if err != nil {
		l.t.Fatal(err)
	}
	cut = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	l.t.Cleanup(cut)
	if _, err := isReady.Read(make([]byte, 1)); err != nil {
		l.t.Fatalf("slirp4netns isn't ready: %v", err)
	}
	return cut
}

func (l *life) installShipped() {
	args := []string{"install", "--sandbox", "--secret", "ca-certificates=/etc/ssl/certs/ca-certificates.crt"}
	if *secrets != "" {
		files, err := os.ReadDir(*secrets)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, f := range files {
			args = append(args, "--secret", f.Name()+"="+filepath.Join(*secrets, f.Name()))
		}
	}
	l.says(l.changes(args...), "installed in "+l.dir, "7 images made", "QD957 pass", "QD958 pass")
	if _, unwell := l.services(); len(unwell) > 0 {
		l.t.Errorf("not healthy: %v", unwell)
	}
}

// job is a job file of one step.
func (l *life) job(image, run string) string {
	l.t.Helper()
	raw, err := json.Marshal(map[string]any{"image": image, "steps": []map[string]string{{"run": run}}})
	if err != nil {
		l.t.Fatal(err)
	}
	return string(raw)
}

func (l *life) file() string { return filepath.Join(l.base, "quavon.bundle") }

func (l *life) bundle() {
	l.run("build", "bundle", "-o", l.file())
	l.says(l.run("build", "bundle", "--show", l.file()), "  scanners\n", ", sound\n")
}

// installOffline has nothing of before: neither the engine's images, nor quavon's own, nor a
// network for the command.
func (l *life) installOffline() {
	if err := os.RemoveAll(l.state); err != nil {
		l.t.Fatal(err)
	}
	links := l.output("nsenter", "--net", "--target", strings.TrimSpace(l.read(filepath.Join(l.engine, "dockerd.pid"))), "ip", "-o", "link")
	if have := l.docker("images", "--all", "--quiet"); have != "" || strings.Contains(links, "tap0") {
		l.t.Errorf("before: images %q, and the engine's network is\n%s", have, links)
	}
	cmd := exec.Command("unshare", "--net", l.quavon, "install", "--sandbox", "--offline", l.file(),
		"--accept-risk=unsigned-bundle", "--yes", "--lib", l.lib)
	cmd.Dir, cmd.Env = l.dir, l.env
	out, err := cmd.CombinedOutput()
	l.t.Logf("%v\n%s", err, out)
	l.says(string(out), "installed in "+l.dir, "7 images taken from ", "QD957 pass", "QD958 pass")
	if _, unwell := l.services(); len(unwell) > 0 {
		l.t.Errorf("not healthy: %v", unwell)
	}
}

// sizes are of what is on disk, in the engine and in quavon's state.
func (l *life) sizes() {
	l.t.Helper()
	l.t.Log(l.output("du", "-shx", l.state, filepath.Join(l.engine, "data")) + "\n" + l.docker("system", "df"))
}
