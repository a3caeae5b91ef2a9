package compose

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/image/lock"
)

// rendered is a directory with the compose file as an installation has it, for compose itself.
func rendered(t *testing.T) cli {
	t.Helper()
	realCompose(t)
	dir := t.TempDir()
	target := &phase.Target{Dir: dir, Sandbox: true, Backend: "docker-runsc", Socket: filepath.Join(dir, "engine", "api.sock")}
	err := errors.Join(os.MkdirAll(target.Secrets(), 0o700), os.Mkdir(filepath.Dir(target.Socket), 0o755),
		os.WriteFile(target.Env(), []byte("COMPOSE_PROFILES=sandbox\nQUAVON_DOCKER_GID=998\n"), 0o600))
	for _, name := range []string{"sandbox_signing_key", "valkey_sandbox_password", "valkey_egress_password", "valkey_sandbox_url", "valkey_egress_url"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(target.Secrets(), name), []byte("not-to-be-shown-"+name), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	// Nobody listens: compose would wait for an answer.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: target.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := &stack{Options: Options{Target: target}}
	users, err := s.users()
	if err != nil {
		t.Fatal(err)
	}
	id := "sha256:" + strings.Repeat("a", 64)
	file, err := s.render(map[string]string{ImageValkey: id, ImageQuavon: id}, &lock.File{SchemaVersion: lock.SchemaVersion, Builder: lock.Builder{Version: "v1", Format: 1}, Images: []lock.Image{}}, users)
	if err != nil {
		t.Fatal(err)
	}
	return cli{target: target, file: file}
}

// TestHardened: what compose makes of our file. Each service has what it needs and no more,
// and one alone has the engine's socket and its group.
func TestHardened(t *testing.T) {
	c := rendered(t)
	if _, err := load(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	out, err := c.output(t.Context(), "config", "--format=json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "not-to-be-shown") {
		t.Error("a secret is in it")
	}
	type service struct {
		User        string
		ReadOnly    bool     `json:"read_only"`
		CapDrop     []string `json:"cap_drop"`
		SecurityOpt []string `json:"security_opt"`
		PullPolicy  string   `json:"pull_policy"`
		GroupAdd    []string `json:"group_add"`
		NetworkMode string   `json:"network_mode"`
		Networks    map[string]any
		Secrets     []struct{ Source string }
		Volumes     []struct{ Source string }
		// None has any of these.
		CapAdd     []string `json:"cap_add"`
		Privileged bool
		Ports      []any
		Devices    []any
	}
	var p struct {
		Services map[string]service
		Networks map[string]networkOf
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, s := range p.Services {
		var has []string
		for _, v := range s.Secrets {
			has = append(has, v.Source)
		}
		for _, v := range s.Volumes {
			if v.Source == c.target.Socket {
				has = append(has, "socket")
			}
		}
		for network := range s.Networks {
			has = append(has, "net:"+network)
		}
		if s.NetworkMode != "" {
			has = append(has, "net:"+s.NetworkMode)
		}
		slices.Sort(has)
		got[name] = strings.Join(append(has, s.GroupAdd...), " ")
		s.GroupAdd, s.NetworkMode, s.Networks, s.Secrets, s.Volumes = nil, "", nil, nil, nil
		hardened := service{
			User: "65532:65532", ReadOnly: true, CapDrop: []string{"ALL"},
			SecurityOpt: []string{"no-new-privileges:true"}, PullPolicy: "never",
		}
		if d := cmp.Diff(hardened, s); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if d := cmp.Diff(map[string]string{
		Valkey: "net:valkey valkey_users",
		Guard:  "net:none socket 998",
		Runner: "net:egress net:valkey sandbox_signing_key valkey_sandbox_url",
		Egress: "net:egress net:outside net:valkey valkey_egress_url",
	}, got); d != "" {
		t.Errorf("what services have: %s", d)
	}
	if want := map[string]networkOf{"valkey": {true}, "egress": {true}, "outside": {false}}; !cmp.Equal(want, p.Networks) {
		t.Errorf("networks: %v", p.Networks)
	}
}

// TestOverrides: compose merges the operator's file, and what would make a sandbox something
// else than was tested is refused; the rest isn't.
func TestOverrides(t *testing.T) {
	c := rendered(t)
	for override, want := range map[string]string{
		"sandbox-runner: {privileged: true}":                                                                            "sandbox-runner is privileged",
		"sandbox-egress: {cap_add: [NET_ADMIN]}":                                                                        "sandbox-egress has capabilities",
		"valkey: {cap_drop: !override [MKNOD]}":                                                                         "valkey keeps capabilities",
		"sandbox-runner: {devices: [/dev/kvm]}":                                                                         "has devices of the host",
		"sandbox-runner: {security_opt: !override []}":                                                                  "may gain privileges",
		"sandbox-runner: {security_opt: [\"no-new-privileges:false\"]}":                                                 "may gain privileges",
		"sandbox-runner: {security_opt: [\"seccomp:unconfined\"]}":                                                      "has no seccomp or AppArmor profile",
		"sandbox-runner: {security_opt: [\"apparmor=unconfined\"]}":                                                     "has no seccomp or AppArmor profile",
		"docker-guard: {read_only: false}":                                                                              "docker-guard has a root that it can write to",
		"sandbox-runner: {pid: host}":                                                                                   "shares a namespace",
		"sandbox-runner: {pid: \"service:docker-guard\"}":                                                               "shares a namespace",
		"valkey: {ipc: host}":                                                                                           "shares a namespace",
		"sandbox-runner: {user: root}":                                                                                  "runs as root",
		"sandbox-runner: {user: \"0:65532\"}":                                                                           "runs as root",
		"sandbox-runner: {image: \"example/quavon:latest\"}":                                                            "isn't named by its digest",
		"sandbox-runner: {networks: [outside]}":                                                                         "has a network with a way out",
		"sandbox-runner: {networks: [mine]}\nnetworks: {mine: {}}":                                                      "has a network with a way out",
		"sandbox-runner: {networks: [mine]}\nnetworks: {mine: {external: true}}":                                        "has a network with a way out",
		"sandbox-runner: {networks: !reset null, network_mode: bridge}":                                                 "has a network with a way out",
		"docker-guard: {network_mode: !reset null, networks: [valkey]}":                                                 "docker-guard has a network",
		"sandbox-runner: {volumes: [/var/run/docker.sock:/s]}":                                                          "has the engine's socket",
		"mine: {image: x, volumes: [/var/run/docker.sock:/s]}":                                                          "mine has the engine's socket",
		"mine: {image: x, volumes: [SOCKET:/s]}":                                                                        "mine has the engine's socket",
		"mine: {image: x, volumes: [ENGINE:/e:ro]}":                                                                     "mine has the engine's socket",
		"mine: {image: x, volumes: [LINK:/e]}":                                                                          "mine has the engine's socket",
		"mine: {image: x, volumes: [/:/host:ro]}":                                                                       "mine has the engine's socket",
		"mine: {image: x, configs: [c]}\nconfigs: {c: {file: SOCKET}}":                                                  "mine has the engine's socket",
		"mine: {image: x, secrets: [c]}\nsecrets: {c: {file: SOCKET}}":                                                  "mine has the engine's socket",
		"mine: {image: x, volumes: [\"vol:/e\"]}\nvolumes: {vol: {driver_opts: {type: none, o: bind, device: ENGINE}}}": "mine has the engine's socket",
		"mine: {image: x, volumes_from: [docker-guard]}":                                                                "mine has the volumes of another service",
		"mine: {image: x, privileged: true, volumes: [/srv:/srv]}":                                                      "",
		"mine: {image: x, volumes: [\"vol:/e\"]}\nvolumes: {vol: {driver_opts: {type: nfs, device: \":/x\"}}}":          "",
		"sandbox-egress: {mem_limit: 512m, extra_hosts: [\"a:10.0.0.1\"]}":                                              "",
		"sandbox-runner: {networks: [mine]}\nnetworks: {mine: {internal: true}}":                                        "",
	} {
		link := filepath.Join(c.target.Dir, "link")
		_ = os.Symlink(filepath.Dir(c.target.Socket), link) // it is there from the second one on
		text := "services:\n  " + strings.NewReplacer("SOCKET", c.target.Socket, "ENGINE", filepath.Dir(c.target.Socket), "LINK", link).Replace(override) + "\n"
		if err := os.WriteFile(filepath.Join(c.target.Dir, overrides[0]), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := load(t.Context(), c); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", override, err, want)
		}
	}
	const port = "services: {valkey: {networks: [valkey, outside], ports: [\"127.0.0.1:6390:6379\"]}}\n"
	if err := os.WriteFile(filepath.Join(c.target.Dir, overrides[0]), []byte(port), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := load(t.Context(), c)
	if err != nil || !slices.Equal(published(p), []string{"valkey publishes port 6390"}) {
		t.Errorf("a port: %v", err)
	}
}

// TestUseAPISocket: not every compose knows it, and what it adds isn't in what compose shows.
func TestUseAPISocket(t *testing.T) {
	t.Parallel()
	var p project
	if err := json.Unmarshal([]byte(`{"services": {"mine": {"image": "x", "use_api_socket": true}}}`), &p); err != nil {
		t.Fatal(err)
	}
	if err := p.check("/run/engine.sock"); err == nil || !strings.Contains(err.Error(), "has the engine's socket") {
		t.Error(err)
	}
}
