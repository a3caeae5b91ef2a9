package install_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/image/source"
)

// changes runs a verb that changes the host. gVisor's place is the test's own.
func (l *life) changes(args ...string) string {
	l.t.Helper()
	return l.run(append(args, "--yes", "--lib", l.lib)...)
}

func (l *life) dryRun() {
	out := l.run("install", "--sandbox", "--dry-run", "--lib", l.lib)
	l.says(out, `+      "path": "`+filepath.Join(l.lib, "runsc/runsc")+`"`, "+COMPOSE_PROFILES=sandbox", "build quavon")
	if d := l.left(); len(d) > 0 {
		l.t.Errorf("the host is other than before:\n%s", strings.Join(d, "\n"))
	}
}

func (l *life) install() {
	out := l.changes("install", "--sandbox", "--network", "none")
	l.says(out, "installed in "+l.dir, "QD957 pass", "QD958 pass", "dockerd: read ")
	l.replaces(func() {})
	l.lock = l.read("images.lock.json")
}

// again has the runner's container started a second time before, as a host's start does.
func (l *life) again() {
	l.docker("restart", "quavon-sandbox-runner-1")
	l.replaces(func() { l.says(l.changes("install", "--network", "none"), "nothing to change") })
	l.write("compose.override.yaml", "include: [\"oci://registry.example/more:1\"]\n")
	l.says(l.run("install", "--dry-run", "--lib", l.lib), "which a plan neither fetches nor looks at")
	if err := os.Remove(filepath.Join(l.dir, "compose.override.yaml")); err != nil {
		l.t.Fatal(err)
	}
}

// networks are what the test's own registry may be reached by.
const networks = "QUAVON_SANDBOX_REGISTRIES=http://registry.example:8080\nQUAVON_SANDBOX_EGRESS_PRIVATE=10.0.0.0/8,172.16.0.0/12,192.168.0.0/16\n"

func (l *life) registries() {
	f, err := os.OpenFile(filepath.Join(l.dir, ".env"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(networks)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		l.t.Fatal(err)
	}
	l.replaces(func() {
		l.says(l.changes("install", "--network", "none"), "draining sandbox-runner", "sandbox-egress: replaced", "sandbox-runner: replaced")
	}, "sandbox-egress", "sandbox-runner")
	l.docker("run", "--detach", "--name", "registry", "--network", "quavon_outside", "--network-alias", "registry.example",
		"--user", "0", l.docker("images", "--quiet", "quavon/box"), "httpd", "-f", "-p", "8080", "-h", "/")
}

const jobFile = `{"image": "box", "allow": ["http://registry.example:8080"], "steps": [
 {"name": "registry", "network": "registries", "run": "wget -qO- http://registry.example:8080/mark && cat /mark"},
 {"name": "elsewhere", "network": "registries", "run": "! wget -qO- http://other.example:8080/mark"},
 {"name": "none", "run": "! http_proxy=http://127.0.0.1:3128 wget -T 2 -qO- http://registry.example:8080/mark"}
]}`

// submit runs a job in the image with a mark, a step of which fetches from the registry.
func (l *life) submit(mark string) {
	l.says(l.send(jobFile), "first\n"+mark+"\n", "403 Refused by quavon: host_not_allowed other.example:8080")
}

// send submits a job file with the installation's secrets and returns what the job printed.
func (l *life) send(job string) string {
	l.t.Helper()
	path := filepath.Join(l.base, "job.json")
	if err := os.WriteFile(path, []byte(job), 0o644); err != nil {
		l.t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(l.dir, name) }
	l.env = append(l.env, "QUAVON_SANDBOX_IMAGES_FILE="+in("images.lock.json"))
	return l.run("submit", "--valkey-host", in("run/valkey/valkey.sock"), "--valkey-username", "sandbox", "--workspace", "none",
		"--valkey-password-file", in("secrets/valkey_sandbox_password"), "--signing-key-file", in("secrets/sandbox_signing_key"), "--job", path)
}

func (l *life) upgrade() {
	l.box("second")
	l.quavon, l.next = l.next, l.quavon
	l.replaces(func() {
		here := source.Host().String()
		l.says(l.changes("install", "--network", "none"), "build box", "it was made of another executable",
			"box "+here+": changed\n", "quavon "+here+": changed\n", "  →  ", "draining sandbox-runner", "QD957 pass")
	}, "docker-guard", "sandbox-egress", "sandbox-runner")
	if l.read("images.lock.json") == l.lock {
		l.t.Error("the lock is the one before")
	}
	l.submit("second")
}

func (l *life) rollback() {
	l.replaces(func() { l.says(l.changes("rollback"), "draining sandbox-runner", "went back", "QD957 pass") },
		"docker-guard", "sandbox-egress", "sandbox-runner")
	if l.read("images.lock.json") != l.lock {
		l.t.Error("the lock isn't the first one")
	}
	l.submit("first")
}

func (l *life) uninstall() {
	l.docker("rm", "--force", "registry")
	l.says(l.changes("uninstall"), "uninstalled from "+l.dir)
	if now := l.read(filepath.Join(l.engine, "daemon.json")); now != l.daemon {
		l.t.Errorf("daemon.json is other than before:\n%s", now)
	}
	if now := l.read(".env"); now != networks {
		l.t.Errorf(".env has other lines than the operator's:\n%s", now)
	}
	secrets := filepath.Join(l.dir, "secrets")
	if d := l.left("+ file "+filepath.Join(l.dir, ".env"), "+ file "+secrets, "+ file "+filepath.Join(l.dir, ".quavon"), "+ volume quavon", "+ image quavon"); len(d) > 0 {
		l.t.Errorf("the host is other than before:\n%s", strings.Join(d, "\n"))
	}
	l.says(l.docker("volume", "ls", "--format", "{{.Name}}"), "quavon_valkey", "quavon_runner", "quavon-guest-")
}

// another is an installation of the same engine in another directory, whose services are
// away. Neither does it come to the data that was kept here, nor does its purge remove it.
func (l *life) another() {
	here, there := l.dir, filepath.Join(l.base, "another")
	defer func() { l.dir = here }()
	l.dir = there
	l.write(".quavon/state.json", `{"schema": 1, "version": "v1", "phases": {}, "owned": [
 {"phase": "compose", "kind": "act", "act": {"name": "services", "keeps": "volumes of the services"}, "left": true}]}`)
	out, err := l.try(l.quavon, "install", "--sandbox", "--dry-run", "--lib", l.lib)
	if err == nil || !strings.Contains(out, "volumes of the installation in "+here) {
		l.t.Errorf("an installation beside it: %v\n%s", err, out)
	}
	before := l.docker("volume", "ls", "--quiet", "--filter", "label=com.docker.compose.project=quavon")
	l.docker("volume", "create", "--label", "com.docker.compose.project=quavon", "quavon_old")
	l.says(l.changes("uninstall", "--purge"), "volumes of the installation in "+here+" stay", "docker volume rm quavon_old")
	after := l.docker("volume", "ls", "--quiet", "--filter", "label=com.docker.compose.project=quavon")
	if want := before + "\nquavon_old"; sorted(after) != sorted(want) || !strings.Contains(before, "quavon_valkey") {
		l.t.Errorf("volumes %q, want %q", after, want)
	}
	l.docker("volume", "rm", "quavon_old")
	if err := os.RemoveAll(there); err != nil {
		l.t.Fatal(err)
	}
}

func sorted(lines string) string {
	return strings.Join(slices.Sorted(strings.SplitSeq(lines, "\n")), "\n")
}

func (l *life) purge() {
	l.says(l.changes("uninstall", "--purge"), "uninstalled from "+l.dir)
	if d := l.left("+ file " + filepath.Join(l.dir, ".env")); len(d) > 0 {
		l.t.Errorf("the host is other than before:\n%s", strings.Join(d, "\n"))
	}
}
