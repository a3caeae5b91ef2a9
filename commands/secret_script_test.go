package commands

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
)

// bank is where a secret is good for something: ok.example:8443 below /v1. It has other
// names, ports and paths too, where the secret must not come.
type bank struct {
	t     *testing.T
	value string
	netns string
	cert  tls.Certificate
	// stateDir is that of the commands, admin may do all at their Valkey, dataDir is what it has
	// written. Sandboxes are the processes that have sandboxes in their command line.
	stateDir, dataDir, sandboxes string
	admin                        valkey.Client

	mu sync.Mutex
	// seen has a line for each request: where, and which credential.
	seen []string
}

// newBank is a bank and a Valkey with the shipped users. No script has the value in its
// environment: it is in a file.
func newBank(t *testing.T) (*bank, *queuetest.Server) {
	t.Helper()
	server := queuetest.Start(t, "--aclfile", shippedUsers(t))
	where := server.Settings()
	where.Username, where.Password = "default", "default"
	admin, err := conn.Open(where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	b := &bank{
		t: t, value: "bank/" + rand.Text() + "+=", cert: siteCertificate(t), stateDir: statetest.Path(t), dataDir: server.Dir, admin: admin,
	}
	b.sandboxes = b.stateDir
	netns, listeners := listenApart(t, "8443", "8444", "8080")
	b.netns = netns
	for i, l := range listeners {
		if i < 2 {
			l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{b.cert}})
		}
		s := &http.Server{Handler: http.HandlerFunc(b.serve), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
	}
	return b, server
}

// serve notes what it was sent, and says it again. /v1/look looks for the value where it
// must not be while the step that asks runs.
func (b *bank) serve(w http.ResponseWriter, r *http.Request) {
	sent := r.Header.Get("Authorization")
	what := "without"
	switch {
	case strings.Contains(fmt.Sprint(r), b.value):
		what = "with the value"
	case strings.Contains(fmt.Sprint(r), "quavon_secret_"):
		what = "with a placeholder"
	}
	b.mu.Lock()
	b.seen = append(b.seen, r.Host+r.URL.Path+" "+what)
	n := len(b.seen)
	b.mu.Unlock()
	switch r.URL.Path {
	case "/v1/look":
		fmt.Fprintf(w, "found %v\n", append(b.inValkey(r.Context()), b.inProcesses()...))
	case "/v1/count":
		fmt.Fprintf(w, "%d\n", n)
	default:
		w.Header().Set("X-Echo", sent)
		fmt.Fprintf(w, "you sent %q, in base64 %s\n", sent, base64.StdEncoding.EncodeToString([]byte(sent)))
	}
}

// traces are the value, and what a document or a log could have of it.
func (b *bank) traces() [][]byte {
	list := [][]byte{[]byte(b.value)}
	for shift := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + b.value + "xxx"))
		list = append(list, []byte(text[4:len(b.value)]))
	}
	return list
}

func (b *bank) in(text []byte) bool {
	for _, trace := range b.traces() {
		if bytes.Contains(text, trace) {
			return true
		}
	}
	return false
}

// inValkey looks into all keys, as they are dumped, and into everything that Valkey was ever
// told, its append-only file.
func (b *bank) inValkey(ctx context.Context) (found []string) {
	keys, err := b.admin.Do(ctx, b.admin.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		found = append(found, err.Error())
	}
	for _, key := range keys {
		dump, err := b.admin.Do(ctx, b.admin.B().Dump().Key(key).Build()).ToString()
		if b.in([]byte(dump)) || err != nil && !valkey.IsValkeyNil(err) {
			found = append(found, fmt.Sprintf("key %s: %v", key, err))
		}
	}
	return append(found, b.inFiles(b.dataDir)...)
}

// inFiles lists the files below a directory that have the value.
func (b *bank) inFiles(dir string) (found []string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // it has gone meanwhile
		}
		if text, err := os.ReadFile(path); err == nil && b.in(text) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// inProcesses looks at the command lines of all processes, at the environments of all but
// the one that was given the value there, and into the memory of the sandbox: what a core
// file would have.
func (b *bank) inProcesses() (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	placeholders := 0
	for _, dir := range dirs {
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if b.in(argv) || b.in(env) && !bytes.Contains(argv, []byte("submit")) {
			found = append(found, fmt.Sprintf("%s %q", dir, argv))
		}
		if !bytes.Contains(argv, []byte(b.sandboxes)) || bytes.HasPrefix(argv, []byte("quavon")) {
			continue
		}
		value, placeholder := b.inMemory(dir)
		if value {
			found = append(found, fmt.Sprintf("memory of %s %q", dir, argv))
		}
		if placeholder {
			placeholders++
		}
	}
	if placeholders == 0 {
		found = append(found, "not even a placeholder in the sandbox's memory")
	}
	return found
}

// clean PATH... fails for a file with the value, there or below.
func (b *bank) clean(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		path := ts.MkAbs(name)
		if _, err := os.Stat(path); err != nil {
			ts.Fatalf("%v", err)
		}
		if found := b.inFiles(path); len(found) > 0 {
			ts.Fatalf("the value is in %v", found)
		}
	}
}

// certificate FILE writes the bank's certificate.
func (b *bank) certificate(ts *testscript.TestScript, _ bool, args []string) {
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.cert.Certificate[0]})
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o644))
}

// requests FILE writes what the bank has seen, and forgets it.
func (b *bank) requests(ts *testscript.TestScript, _ bool, args []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Join(append(b.seen, ""), "\n")), 0o644))
	b.seen = nil
}

// TestSecretScripts runs testdata/secret: a secret through quavon run, and through quavon
// submit, a runner and the egress service.
func TestSecretScripts(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/secret/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		b, server := newBank(t)
		b.script(t, script, server, nil)
	}
}

// TestSecretScriptsOnDocker: the same with gVisor as an engine's runtime.
func TestSecretScriptsOnDocker(t *testing.T) {
	t.Parallel()
	engine := dockertest.Later(t)(t)
	more := map[string]string{}
	for _, name := range []string{"curl", "cut", "find", "grep", "sed", "sleep", "sort", "tr"} {
		more["/usr/bin/"+name] = "/usr/bin/" + name
	}
	l := engine.Add(t, tools(t, more))
	doc, err := l.Encode()
	file := filepath.Join(t.TempDir(), "images.lock.json")
	if err := errors.Join(err, os.WriteFile(file, doc, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{"testdata/secret/run.txtar", "testdata/secret-docker/submit.txtar"} {
		b, server := newBank(t)
		b.sandboxes = filepath.Dir(strings.TrimPrefix(engine.Host, "unix://"))
		b.script(t, script, server, map[string]string{
			"ON": "--backend docker-runsc --image " + l.Images[0].Name, "IMAGE": l.Images[0].Name,
			"DOCKER_HOST": engine.Host, lock.EnvFile: file, envBackend: docker.Runsc,
		})
	}
}

// script runs one against the bank, with more in its environment.
func (b *bank) script(t *testing.T, script string, server *queuetest.Server, more map[string]string) {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Skip(t, "the proxy's /etc/hosts is mounted, which takes root")
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	env := map[string]string{
		state.EnvDir: b.stateDir, envGuest: sandboxtest.Guest(t), envRunsc: sandboxtest.Runsc(t), "ON": "",
		"SOCKET": server.Socket, "NETNS": b.netns, "IP": siteIP, "KEY": base64.StdEncoding.EncodeToString(key), "DATA": server.Dir,
		"TMPDIR": os.TempDir(), // a script's own isn't for everybody, which the runner's test needs
	}
	maps.Copy(env, more)
	testscript.Run(t, testscript.Params{
		Files: []string{script}, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			follow(e)
			for name, value := range env {
				e.Setenv(name, value)
			}
			e.Setenv(state.EnvLockFile, filepath.Join(e.WorkDir, "lock"))
			e.Defer(func() { killLeft(e.WorkDir) })
			if err := os.WriteFile(filepath.Join(e.WorkDir, "value"), []byte(b.value+"\n"), 0o600); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(e.WorkDir, "hosts"), []byte(siteIP+" ok.example other.example\n"), 0o644)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "until": until, "clean": b.clean, "certificate": b.certificate, "requests": b.requests,
		},
	})
}
