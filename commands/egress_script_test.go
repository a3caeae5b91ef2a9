package commands

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/valkey-io/valkey-go"
	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/egress/token"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/state/statetest"
	"github.com/quavon/quavon/test/need"
)

// TestEgressScripts runs testdata/egress: the real egress service and a real runner, each as its
// own user of a real Valkey, and a TLS server of the test's own.
func TestEgressScripts(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		need.Skip(t, "the service's /etc/hosts is mounted, which takes root")
	}
	server := queuetest.Start(t, "--aclfile", shippedUsers(t))
	where := server.Settings()
	where.Username, where.Password = "default", "default"
	admin, err := conn.Open(where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	site := newSite(t, admin)
	stateDir, guest, runsc := statetest.Path(t), sandboxtest.Guest(t), sandboxtest.Runsc(t)
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "egress"), RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			follow(e)
			for name, value := range map[string]string{
				state.EnvDir: stateDir, envGuest: guest, envRunsc: runsc, state.EnvLockFile: filepath.Join(e.WorkDir, "lock"),
				"SOCKET": server.Socket, "NETNS": site.netns, "IP": siteIP, "SECRET": base64.StdEncoding.EncodeToString(key),
			} {
				e.Setenv(name, value)
			}
			e.Setenv("TMPDIR", os.TempDir()) // a script's own isn't for everybody, which the runner's test needs
			e.Defer(func() { killLeft(e.WorkDir) })
			hosts := siteIP + " ok.example own.example\n"
			return os.WriteFile(filepath.Join(e.WorkDir, "hosts"), []byte(hosts), 0o644)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "until": until, "tokens": tokens(admin), "ca": site.ca, "seen": site.seen,
		},
	})
}

// shippedUsers is the file of users that Quavon ships, with their names as passwords.
func shippedUsers(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sandboxtest.Module(t), "templates/valkey/users.acl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"default", "sandbox", "egress"} {
		digest := fmt.Appendf(nil, "%x", sha256.Sum256([]byte(user)))
		text = bytes.ReplaceAll(text, []byte("@"+strings.ToUpper(user)+"_PASSWORD_SHA256@"), digest)
	}
	file := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// site is a TLS server in a network of its own.
type site struct {
	*httptest.Server
	admin valkey.Client
	// netns is the network that the site is in.
	netns string
	log   chan string
}

func newSite(t *testing.T, admin valkey.Client) *site {
	t.Helper()
	s := &site{admin: admin, log: make(chan string, 1000)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Listener.Close()
	var listeners []net.Listener
	s.netns, listeners = listenApart(t, "8443")
	s.Listener = listeners[0]
	s.TLS = &tls.Config{Certificates: []tls.Certificate{siteCertificate(t)}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// siteIP is where the site is: a private address, which an operator can open.
const siteIP = "10.201.255.1"

// siteCertificate vouches for itself.
func siteCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"ok.example", "other.example"},
		Subject: pkix.Name{CommonName: "ok.example"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// listenApart listens on ports of a network of its own, whose name is that of a file; it ends with the
// test.
func listenApart(t *testing.T, ports ...string) (netns string, list []net.Listener) {
	t.Helper()
	ready, end := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its network
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = exec.Command("sh", "-c", "ip link set lo up && ip addr add "+siteIP+"/32 dev lo").Run()
		}
		netns = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		for _, port := range ports {
			l, listenErr := net.Listen("tcp", siteIP+":"+port)
			list, err = append(list, l), errors.Join(err, listenErr)
		}
		ready <- err
		<-end
	}()
	t.Cleanup(func() { close(end) })
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	return netns, list
}

// serve says how many tokens there are while the step runs that asks.
func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.log <- r.Method + " " + r.Host + r.URL.Path
	n, err := countTokens(r.Context(), s.admin)
	fmt.Fprintf(w, "tokens %d %v\n", n, err)
}

func countTokens(ctx context.Context, c valkey.Client) (int, error) {
	keys, err := c.Do(ctx, c.B().Keys().Pattern(token.Prefix+"*").Build()).AsStrSlice()
	return len(keys), err
}

// killLeft ends what a script that failed has left: the pid files of what ended by
// itself are gone.
func killLeft(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.pid"))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// tokens N fails unless that many steps may be let out.
func tokens(c valkey.Client) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		n, err := countTokens(context.Background(), c)
		ts.Check(err)
		if fmt.Sprint(n) != args[0] {
			ts.Fatalf("there are %d tokens", n)
		}
	}
}

// ca FILE writes the certificate that vouches for the site.
func (s *site) ca(ts *testscript.TestScript, _ bool, args []string) {
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.TLS.Certificates[0].Certificate[0]})
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o644))
}

// seen N fails unless the site was asked that often since the last time.
func (s *site) seen(ts *testscript.TestScript, _ bool, args []string) {
	var list []string
	for len(s.log) > 0 {
		list = append(list, <-s.log)
	}
	if fmt.Sprint(len(list)) != args[0] {
		ts.Fatalf("the site was asked for %q", list)
	}
}
