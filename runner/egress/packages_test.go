package egress_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/test/need"
)

// outside resolves as this host does, but shows the proxy a public address for each
// name: a mirror that this host is configured with may have a private one.
type outside struct {
	mu   sync.Mutex
	real map[netip.Addr]netip.Addr
}

func (o *outside) Lookup(ctx context.Context, name policy.Name) ([]netip.Addr, error) {
	addrs, err := proxy.SystemResolver{}.Lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	shown := netip.AddrFrom4([4]byte{198, 41, 1, byte(len(o.real) + 1)})
	o.real[shown] = addrs[0]
	return []netip.Addr{shown}, nil
}

func (o *outside) Dial(ctx context.Context, addr netip.AddrPort, check func(netip.Addr) error) (proxy.Conn, error) {
	if err := check(addr.Addr()); err != nil {
		return nil, err
	}
	o.mu.Lock()
	real := netip.AddrPortFrom(o.real[addr.Addr()], addr.Port())
	o.mu.Unlock()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", real.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// tool is a package manager at work in a sandbox.
type tool struct {
	// program must be on this host; hosts are those it needs, at run time.
	program string
	hosts   func(t *testing.T) []string
	// prepare fills the workspace on this host, script runs in the sandbox.
	prepare func(t *testing.T, dir string)
	script  string
	env     func() []string
	// stubborn: some of its versions ask again whatever they are told, until the
	// step's clock ends them.
	stubborn bool
}

// output runs a command on this host.
func output(t *testing.T, dir string, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		need.Skip(t, "%v fails on this host: %v", argv, err)
	}
	return strings.TrimSpace(string(out))
}

// hostOf is the rule for a URL's host.
func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" {
		need.Skip(t, "this host's registry isn't an https URL")
	}
	if u.Port() != "" {
		return u.Host
	}
	return u.Hostname()
}

// linked are the hosts that a page links to.
func linked(t *testing.T, page string) []string {
	t.Helper()
	resp, err := http.Get(page)
	for again := 0; again < 2 && err != nil; again++ { // what is wrong with it may pass
		resp, err = http.Get(page)
	}
	if err != nil {
		need.Skip(t, "this host doesn't reach its package index")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`href="(https://[^"/]+)/`).FindAllStringSubmatch(string(body), -1) {
		found[hostOf(t, m[1])] = true
	}
	var list []string
	for h := range found {
		list = append(list, h)
	}
	return list
}

func pipIndex() string {
	out, err := exec.Command("python3", "-m", "pip", "config", "get", "global.index-url").Output()
	if u := strings.TrimSpace(string(out)); err == nil && u != "" {
		return strings.TrimSuffix(u, "/")
	}
	if u := os.Getenv("PIP_INDEX_URL"); u != "" {
		return strings.TrimSuffix(u, "/")
	}
	out, _ = exec.Command("python3", "-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)").Output()
	return strings.TrimSuffix(strings.TrimSpace(string(out)), "/")
}

func goProxy() string {
	out, _ := exec.Command("go", "env", "GOPROXY").Output()
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), ",")
	return first
}

func tools() map[string]tool {
	return map[string]tool{
		"npm ci": {
			program: "npm", stubborn: true,
			hosts: func(t *testing.T) []string {
				return []string{hostOf(t, output(t, "", "npm", "config", "get", "registry"))}
			},
			prepare: func(t *testing.T, dir string) {
				doc := `{"name":"x","version":"1.0.0","dependencies":{"express":"4.21.2","eslint":"9.20.0"}}`
				if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(doc), 0o644); err != nil {
					t.Fatal(err)
				}
				output(t, dir, "npm", "install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund")
			},
			script: `npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && [ $(ls node_modules | wc -l) -gt 100 ]`,
			env: func() []string {
				out, _ := exec.Command("npm", "config", "get", "registry").Output()
				return []string{"npm_config_registry=" + strings.TrimSpace(string(out)), "npm_config_replace_registry_host=always", "npm_config_fetch_retries=0"}
			},
		},
		"pip install": {
			program: "pip",
			hosts: func(t *testing.T) []string {
				return append(linked(t, pipIndex()+"/markupsafe/"), hostOf(t, pipIndex()))
			},
			// One as a wheel, one built from source, which fetches what it is built with.
			script: `python3 -m venv v && v/bin/pip install -q --retries 0 idna==3.10 && v/bin/pip install -q --retries 0 --no-binary :all: --no-build-isolation toolz==0.12.0 ||
				v/bin/pip install -q --retries 0 --no-binary toolz toolz==0.12.0; v/bin/python -c 'import idna, toolz'`,
			env: func() []string { return []string{"PIP_INDEX_URL=" + pipIndex(), "PIP_DISABLE_PIP_VERSION_CHECK=1"} },
		},
		"go mod download": {
			program: "go",
			hosts:   func(t *testing.T) []string { return []string{hostOf(t, goProxy())} },
			prepare: func(t *testing.T, dir string) {
				doc := "module x\n\ngo 1.24\n\nrequire (\n\tgithub.com/google/go-cmp v0.7.0\n\tgolang.org/x/text v0.22.0\n)\n"
				if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(doc), 0o644); err != nil {
					t.Fatal(err)
				}
			},
			script: `go mod download && ls $(go env GOMODCACHE)/golang.org/x/text@v0.22.0/go.mod >/dev/null`,
			env: func() []string {
				return []string{"GOPROXY=" + goProxy(), "GOSUMDB=off", "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod"}
			},
		},
	}
}

// unused is allowed, and nobody asks for it.
const unused = "unused.example"

// Package managers work through the door, and fail at once and clearly without it,
// or when their host isn't allowed.
func TestPackageManagers(t *testing.T) {
	for name, tl := range tools() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(tl.program); err != nil {
				need.Skip(t, "%v", err)
			}
			dir := t.TempDir()
			if tl.prepare != nil {
				tl.prepare(t, dir)
			}
			hosts := tl.hosts(t)
			o := &outside{real: map[netip.Addr]netip.Addr{}}
			r := newRunner(t)
			r.Door = egress.Local{Proxy: proxy.New(proxy.Config{Operator: rules(t, append(hosts, unused)...), Resolver: o, Dialer: o})}
			run := func(network job.Network, allow ...string) (job.Result, string, time.Duration) {
				s := script(dir, 0, tl.script)
				s.Steps[0].Network, s.Allow = network, allow
				s.Steps[0].Env = append(tl.env(), "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", "PIP_CERT=/etc/ssl/certs/ca-certificates.crt",
					"NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt", "PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin")
				s.Limits.Wall = 2 * time.Minute
				if tl.stubborn && len(allow) == 1 && allow[0] == unused {
					s.Limits.Wall = 40 * time.Second
				}
				var out bytes.Buffer
				start := time.Now()
				res, err := r.Run(t.Context(), s, runner.Streams{Stdout: &out, Stderr: &out})
				if err != nil {
					t.Fatal(err)
				}
				return res, out.String(), time.Since(start)
			}
			res, out, took := run(job.NetworkRegistries, hosts...)
			for again := 0; again < 2 && res.Exit != 0 && res.Egress.Refused == 0; again++ { // each asks its registry once, which may fail
				t.Logf("through the door: exit %d, once more: %s", res.Exit, out)
				res, out, took = run(job.NetworkRegistries, hosts...)
			}
			if res.Exit != 0 || res.Egress.Refused > 0 || res.Egress.Received == 0 {
				t.Errorf("through the door: exit %d, %s", res.Exit, out)
			} else {
				t.Logf("%d connections, %d KiB in %v", res.Egress.Connections, res.Egress.Received>>10, took.Round(time.Millisecond))
			}
			for what, c := range map[string]struct {
				network job.Network
				want    string
			}{"not allowed": {job.NetworkRegistries, "Refused by quavon|403|No matching distribution|Proxy connection ended"}, "no network": {job.NetworkNone, "(?i)resolv|unreachable|refused|EAI_AGAIN|ENOTFOUND|lookup"}} {
				res, out, took := run(c.network, unused)
				if tl.stubborn && c.network == job.NetworkRegistries && res.Reason == job.ReasonTimeoutWall {
					if res.Egress.Refused == 0 || res.Egress.Received > 0 {
						t.Errorf("%s: %+v", what, res.Egress)
					}
					t.Logf("%s: asked again until it was ended, refused %d times", what, res.Egress.Refused)
					continue
				}
				if res.Exit == 0 || !regexp.MustCompile(c.want).MatchString(out) {
					t.Errorf("%s: exit %d, %s", what, res.Exit, out)
				}
				if took > 30*time.Second {
					t.Errorf("%s: it took %v to fail", what, took)
				}
				t.Log(fmt.Sprint(what, ": failed after ", took.Round(time.Millisecond)))
			}
		})
	}
}
