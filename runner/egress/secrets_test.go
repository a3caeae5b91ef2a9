package egress_test

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/egress/token"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/test/loopback"
)

const realValue = "tr0ub4dor-and-3-words"

// vault is a TLS server that notes what it was sent, and tells whatever it is told.
type vault struct {
	roots *x509.CertPool
	// leaf is the server's own certificate, PEM.
	leaf string
	// docs, by their paths, are for who sends the Authorization that is wanted.
	docs map[string][]byte
	want string

	mu sync.Mutex
	// seen are whole requests, cut those that ended before their end.
	seen, cut []string
	// spoken is told when a WebSocket's host is done.
	spoken chan struct{}
}

// newVault makes ok.example and spliced.example of a world servers with certificates that
// the proxy trusts.
func newVault(t *testing.T, w *world) *vault {
	t.Helper()
	v := &vault{roots: x509.NewCertPool(), spoken: make(chan struct{}, 1)}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"ok.example", "spliced.example"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	v.roots.AddCert(cert)
	v.leaf = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	l, err := net.Listen("tcp", loopback.Host()+":0")
	if err != nil {
		t.Fatal(err)
	}
	w.tls = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2", "http/1.1"}})
	server := &http.Server{Handler: http.HandlerFunc(v.serve), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(w.tls) }()
	t.Cleanup(func() { _ = server.Close() })
	for _, name := range []string{"ok.example", "spliced.example", "bad.example"} {
		w.names[pname(name)] = []netip.Addr{goodAddr}
	}
	return v
}

func (v *vault) serve(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/early" { // answers before it has seen the body
		c := http.NewResponseController(rw)
		_ = c.EnableFullDuplex()
		_, _ = io.WriteString(rw, "you reached it\n")
		_ = c.Flush()
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/v1/ws/"); ok {
		v.speak(rw, r, name)
		return
	}
	body, err := io.ReadAll(r.Body)
	sent := r.Header.Get("Authorization")
	v.note(err != nil, fmt.Sprintf("%s %s %s [%s] %v", r.Method, r.URL, sent, body, r.Header))
	if name, ok := strings.CutPrefix(r.URL.Path, "/v1/say/"); ok {
		say(rw, name)
		return
	}
	if doc, ok := v.docs[r.URL.Path]; ok {
		v.give(rw, sent, doc)
		return
	} else if v.docs != nil {
		http.NotFound(rw, r)
		return
	}
	rw.Header().Set("X-Echo", sent)
	switch r.URL.Path {
	case "/v1/gzip":
		rw.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(rw)
		_, _ = io.WriteString(z, "you reached it "+sent)
		_ = z.Close()
	case "/v1/dribble": // a byte for each chunk
		for _, c := range []byte("you reached " + sent + " " + base64.StdEncoding.EncodeToString([]byte(sent))) {
			_, _ = rw.Write([]byte{c})
			rw.(http.Flusher).Flush()
		}
	case "/v1/redirect":
		http.Redirect(rw, r, "https://spliced.example/?token="+realValue, http.StatusFound)
	default:
		fmt.Fprintf(rw, "you reached %s with %q\n", r.URL.Path, sent)
	}
}

// give gives a document to who may have it.
func (v *vault) give(rw http.ResponseWriter, sent string, doc []byte) {
	if sent != v.want {
		rw.Header().Set("WWW-Authenticate", "Basic realm=x")
		http.Error(rw, "not you", http.StatusUnauthorized)
		return
	}
	if bytes.HasPrefix(doc, []byte("<")) {
		rw.Header().Set("Content-Type", "text/html")
	}
	_, _ = rw.Write(doc)
}

// note notes a request, which may have ended too early.
func (v *vault) note(cut bool, what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if cut {
		v.cut = append(v.cut, what)
		return
	}
	v.seen = append(v.seen, what)
}

// take returns what the vault has seen, and forgets it.
func (v *vault) take() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := v.seen
	v.seen = nil
	return seen
}

func secrets() []job.Secret {
	return []job.Secret{{Name: "TOKEN", URL: "https://ok.example/v1", Header: "Authorization", Value: job.NewValue(realValue)}}
}

// withSecret is a job that may reach three hosts and has a secret for one.
func withSecret(dir, sh string) job.Spec {
	s := script(dir, 1, sh)
	s.Allow = []string{"ok.example", "spliced.example", "bad.example", "GET+POST=http://ok.example"}
	s.Secrets = secrets()
	return s
}

// try is a curl in the sandbox, that prints a word, the status and the body.
const shell = `
try() { w=$1; shift; echo "== $w $(curl -s -m 20 -o /tmp/b -w '%{http_code}' "$@") $(tr '\n' ' ' </tmp/b 2>/dev/null | cut -c1-90)"; : >/tmp/b; }
ok() { try control -H "Authorization: Bearer $TOKEN" https://ok.example/v1/x; }
bad() { ok; try "$@"; ok; }
A="Authorization: Bearer $TOKEN"
`

// runWith runs a job with secrets and returns what it printed; log gets the proxy's.
func runWith(t *testing.T, w *world, v *vault, s job.Spec, logTo io.Writer) (job.Result, string) {
	t.Helper()
	r := newRunner(t)
	l := slog.New(slog.NewJSONHandler(logTo, &slog.HandlerOptions{Level: slog.LevelDebug}))
	operator := rules(t, s.Allow...)
	r.Log, r.Door = l, egress.Local{Proxy: proxy.New(proxy.Config{Operator: operator, Resolver: w, Dialer: w, Roots: v.roots, Log: l})}
	var out bytes.Buffer
	res, err := r.Run(t.Context(), s, runner.Streams{Stdout: &out, Stderr: &out})
	if err != nil || res.Exit != 0 {
		t.Fatalf("%+v, %v: %s", res, err, out.String())
	}
	return res, out.String()
}

// What the job could look at, it looks at; what comes back is scrubbed; other hosts'
// bytes are theirs.
const looks = shell + `
ok; ok
try user -u "$TOKEN:" https://ok.example/v1/x
try password -u "git:$TOKEN" https://ok.example/v1/x
try no-secret https://ok.example/v2
curl -s -i -H "$A" https://ok.example/v1/dribble
curl -s -i -H "$A" https://ok.example/v1/redirect
try range -r 0-5 -H "$A" https://ok.example/v1/x
try untrusted https://bad.example/
curl -sk https://spliced.example/ -w '%{http_version} %{certs}\n' | sed -n '/BEGIN/,/END/p' >/tmp/leaf; cmp /tmp/leaf leaf.pem && echo spliced
curl -s https://ok.example/v1/x -w '%{http_version}\n'
npm config set //ok.example/v1/:_authToken=$TOKEN; npm ping --registry=https://ok.example/v1/ 2>&1 | tail -5
echo "machine ok.example login me password $TOKEN" >~/.netrc; mkdir /tmp/m; (cd /tmp/m; GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=https://ok.example/v1/go GONOSUMDB=* go list -m example.org/x@v1.0.0 >/dev/null 2>&1); rm ~/.netrc
git -c http.extraHeader="$A" ls-remote https://ok.example/v1/repo 2>&1; git ls-remote "https://git:$TOKEN@ok.example/v1/repo2" 2>&1
python3 - <<'P' 2>&1
import os,urllib.request
r=urllib.request.Request("https://ok.example/v1/python",headers={"Authorization":"token "+os.environ["TOKEN"]})
print(urllib.request.urlopen(r).read().decode())
P
grep -c BEGIN $SSL_CERT_FILE $NODE_EXTRA_CA_CERTS; (echo x >$SSL_CERT_FILE) 2>/dev/null || echo read-only
env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'; grep -rs "$VALUE_HALF" /run /tmp /workspace /etc /home; true
`

func TestSecretsFromInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := newVault(t, w)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "leaf.pem"), []byte(v.leaf), 0o644); err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	s := withSecret(dir, strings.ReplaceAll(looks, "$VALUE_HALF", realValue[:4]+"[u]"+realValue[5:]))
	s.Steps = append(s.Steps, job.Step{Argv: []string{"bash", "-c", "env | grep -c 'TOKEN\\|CERT\\|BUNDLE'; true"}})
	res, out := runWith(t, w, v, s, &logged)
	t.Log(out)
	for _, want := range []string{
		"== no-secret 200", "spliced", "read-only", "authority.pem:1", "/v1/python", "Location: https://spliced.example/?token=*****", "\n0\n",
		"== range 200", "TOKEN=quavon_secret_",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q isn't printed", want)
		}
	}
	half := base64.StdEncoding.EncodeToString([]byte("Bearer " + realValue))
	for name, text := range map[string]string{"output": out, "log": logged.String()} {
		if strings.Contains(text, realValue) || strings.Contains(text, half[12:30]) {
			t.Errorf("the %s has the value", name)
		}
	}
	seen := strings.Join(v.take(), "\n")
	seen = strings.ReplaceAll(seen, "/ping?write=true ", "/ping ") // as npm 9 asks
	for _, want := range []string{
		"/v1/x Basic " + base64.StdEncoding.EncodeToString([]byte(realValue+":")), "/v1/x Basic " + base64.StdEncoding.EncodeToString([]byte("git:"+realValue)),
		"/v1/-/ping Bearer " + realValue, "/v1/go/example.org/x/@v/v1.0.0.info Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+realValue)), "/v1/python token " + realValue, "/v1/repo/info/refs?service=git-upload-pack Bearer " + realValue,
		"Accept-Encoding:[identity]",
	} {
		if !strings.Contains(seen, want) {
			t.Errorf("the server has not seen %q", want)
		}
	}
	if strings.Contains(seen, "quavon_secret_") || strings.Contains(seen, "Range") {
		t.Errorf("the server has seen a placeholder or a range:\n%s", seen)
	}
	t.Log(seen)
	if res.Egress == nil || res.Egress.Connections == 0 {
		t.Errorf("%+v", res.Egress)
	}
}

func TestSecretsRefusedBeforeTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, edit := range map[string]func(*job.Spec){
		"a host that isn't allowed":    func(s *job.Spec) { s.Allow = []string{"spliced.example"} },
		"another port":                 func(s *job.Spec) { s.Secrets[0].URL = "https://ok.example:8443" },
		"a short value":                func(s *job.Spec) { s.Secrets[0].Value = job.NewValue("short") },
		"a value of two lines":         func(s *job.Spec) { s.Secrets[0].Value = job.NewValue("one line\r\nX: another") },
		"a wildcard":                   func(s *job.Spec) { s.Secrets[0].URL = "https://*.ok.example" },
		"a field of framing":           func(s *job.Spec) { s.Secrets[0].Header = "Content-Length" },
		"the value in the environment": func(s *job.Spec) { s.Steps[0].Env = []string{"TOKEN=" + realValue} },
		"no network":                   func(s *job.Spec) { s.Steps[0].Network = job.NetworkNone },
		"the same name twice":          func(s *job.Spec) { s.Secrets = append(s.Secrets, s.Secrets[0]) },
	} {
		s := withSecret(t.TempDir(), "true")
		edit(&s)
		res, _, err := run(t, w, s)
		if fault.Code(err) != string(job.ReasonRejected) || fault.Hint(err) == "" || len(res.Steps) > 0 || strings.Contains(fmt.Sprint(err, fault.Hint(err)), realValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Through the service the same holds.
func TestSecretsThroughTheService(t *testing.T) {
	t.Parallel()
	ours, theirs := valkeys(t)
	w := newWorld(t)
	v := newVault(t, w)
	s := withSecret(t.TempDir(), shell+"ok; bad header -H \"X-Other: $TOKEN\" https://ok.example/v1/x; sleep 1")
	p := proxy.New(proxy.Config{Operator: rules(t, s.Allow...), Resolver: w, Dialer: w, Roots: v.roots})
	r := newRunner(t)
	r.Door = egress.Remote{Addr: serve(t, &egress.Service{Proxy: p, Tokens: token.Store{Client: theirs}}), Tokens: token.Store{Client: ours}}
	var out bytes.Buffer
	res, err := r.Run(t.Context(), s, runner.Streams{Stdout: &out, Stderr: &out})
	if err != nil || strings.Count(out.String(), "== control 200") != 3 || !strings.Contains(out.String(), "== header 403") {
		t.Fatalf("%+v, %v: %s", res, err, out.String())
	}
	checkCounts(t, res, map[string]int64{"secret_misplaced": 1})
	if seen := strings.Join(v.take(), "\n"); strings.Count(seen, "Bearer "+realValue+" ") != 3 {
		t.Errorf("the server has seen %s", seen)
	}
}
