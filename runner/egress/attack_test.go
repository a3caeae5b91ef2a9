package egress_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/egresstest"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox/docker"
	"github.com/quavon/quavon/runner/sandbox/docker/dockertest"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/runner/state/statetest"
)

// attempt is that of testdata/attacker, outcome what it answers.
type attempt struct {
	Dial   string   `json:",omitempty"`
	Send   []byte   `json:",omitempty"`
	Pieces int      `json:",omitempty"`
	Then   []byte   `json:",omitempty"`
	TLS    string   `json:",omitempty"`
	Inside []byte   `json:",omitempty"`
	Protos []string `json:",omitempty"`
	Frames []frame  `json:",omitempty"`
	Raw    bool     `json:",omitempty"`
	Env    bool     `json:",omitempty"`
	Stay   bool     `json:",omitempty"`
	Stays  bool     `json:",omitempty"`
}

type frame struct {
	First     byte
	Text, Key []byte `json:",omitempty"`
}

type outcome struct{ Answer, Err string }

// attack is one row: what is tried and which reason the refusal has, "" for what
// never gets as far as the proxy. Resolves says that the name is allowed, so that
// asking for its address is no leak.
type attack struct {
	name string
	attempt
	reason   string
	resolves bool
}

func connect(target string) attempt {
	return attempt{Send: []byte("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n")}
}

func plain(lines ...string) attempt {
	return attempt{Send: []byte(strings.Join(lines, "\r\n") + "\r\n\r\n")}
}

func socks(kind byte, address string, port uint16) attempt {
	b := []byte{5, 1, 0, 5, 1, 0, kind}
	if kind == 3 {
		b = append(b, byte(len(address)))
	}
	b = append(b, address...)
	return attempt{Send: append(b, byte(port>>8), byte(port))}
}

// then goes on in a tunnel to the good host.
func then(b []byte, pieces int) attempt {
	a := connect("ok.example:443")
	a.Then, a.Pieces = b, pieces
	return a
}

// clientHello is what a client sends first.
func clientHello(name string, edit func(*tls.Config)) []byte {
	here, there := net.Pipe()
	cfg := &tls.Config{ServerName: name, InsecureSkipVerify: true}
	if edit != nil {
		edit(cfg)
	}
	go func() { _ = tls.Client(here, cfg).Handshake() }()
	buf := make([]byte, 16<<10)
	n, _ := there.Read(buf)
	there.Close()
	return buf[:n]
}

// records splits a hello over many records.
func records(hello []byte, size int) []byte {
	var out []byte
	for body := range slices.Chunk(hello[5:], size) {
		out = append(append(out, 22, 3, 1, byte(len(body)>>8), byte(len(body))), body...)
	}
	return out
}

func attacks(t *testing.T, host string, udp, unix string) []attack {
	var list []attack
	add := func(name string, a attempt, reason string) {
		list = append(list, attack{name: name, attempt: a, reason: reason})
	}
	allowed := func(name string, a attempt, reason string) {
		list = append(list, attack{name: name, attempt: a, reason: reason, resolves: true})
	}
	for _, ip := range []string{
		"127.0.0.1", "127.1", "0177.0.0.1", "0x7f.1", "0x7F000001", "2130706433", "017700000001", "127.0.0.1.", "169.254.169.254",
		"[::1]", "[::ffff:127.0.0.1]", "[fe80::1%25lo]", "::1", "0", "[v1.x]",
	} {
		add("CONNECT to "+ip, connect(ip+":443"), "ip_literal")
		add("GET from "+ip, plain("GET http://"+ip+"/ HTTP/1.1", "Host: "+ip), "ip_literal")
	}
	add("SOCKS to an IPv4 address", socks(1, "\x7f\x00\x00\x01", 443), "ip_literal")
	add("SOCKS to an IPv6 address", socks(4, strings.Repeat("\x00", 15)+"\x01", 443), "ip_literal")
	add("SOCKS to an address as a name", socks(3, "127.0.0.1", 443), "ip_literal")
	add("SOCKS to another host", socks(3, "evil.example", 443), "host_not_allowed")
	add("SOCKS BIND", attempt{Send: []byte("\x05\x01\x00\x05\x02\x00\x03\x0aok.example\x01\xbb")}, "socks_command")
	add("SOCKS UDP", attempt{Send: []byte("\x05\x01\x00\x05\x03\x00\x03\x0aok.example\x01\xbb")}, "socks_command")

	for name, host := range map[string]string{
		"another host": "evil.example", "a subdomain": "x.ok.example", "a parent": "example", "a wildcard's base": "wild.example",
		"a name that ends alike": "notok.example", "a wildcard without a label's edge": "xwild.example", "a final dot": "evil.example.",
		"exfiltration by name": "73656372657473.canary.example", "another host in capitals": "EVIL.EXAMPLE",
	} {
		add("CONNECT to "+name, connect(host+":443"), "host_not_allowed")
		add("GET from "+name, plain("GET http://"+host+"/ HTTP/1.1", "Host: "+host), "host_not_allowed")
	}
	for name, host := range map[string]string{
		"two final dots": "ok.example..", "a full-width dot": "ok\uff0eexample", "an ideographic dot": "ok\u3002example",
		"a full-width letter": "\uff4fk.example", "a Kelvin sign": "o\u212a.example", "a soft hyphen": "ok\u00ad.example",
		"an empty label": "ok..example", "a NUL": "ok.example\x00.evil.example",
	} {
		reason := "bad_name"
		if !isASCII(host) || strings.Contains(host, "\x00") {
			reason = "bad_request" // a target is printable ASCII
		}
		add("CONNECT with "+name, connect(host+":443"), reason)
	}
	add("SOCKS with a Kelvin sign", socks(3, "o\u212a.example", 443), "bad_name")
	add("SOCKS with a NUL", socks(3, "ok.example\x00", 443), "bad_name")

	for _, port := range []string{"22", "25", "8443"} {
		add("CONNECT to port "+port, connect("ok.example:"+port), "port_not_allowed")
	}
	add("CONNECT to the port of plain HTTP", connect("ok.example:80"), "scheme_not_allowed")
	for _, port := range []string{"0", "65536", "443a", "+443", "0443", ""} {
		add("CONNECT to port "+port+", which is none", connect("ok.example:"+port), "bad_request")
	}
	add("CONNECT without a port", connect("ok.example"), "bad_request")
	add("CONNECT with user information", connect("ok.example@evil.example:443"), "bad_request")
	add("a URL with user information", plain("GET http://ok.example@evil.example/ HTTP/1.1", "Host: ok.example"), "bad_request")
	add("a URL with a backslash", plain(`GET http://evil.example\@ok.example/ HTTP/1.1`, "Host: ok.example"), "bad_request")
	add("a URL with a fragment", plain("GET http://ok.example/#@evil.example/ HTTP/1.1", "Host: ok.example"), "bad_request")
	add("a path that isn't allowed", plain("GET http://paths.example/private HTTP/1.1", "Host: paths.example"), "path_not_allowed")
	add("a path that climbs", plain("GET http://paths.example/pub/../private HTTP/1.1", "Host: paths.example"), "path_not_allowed")
	add("a path that climbs encoded", plain("GET http://paths.example/pub/%2e%2e/private HTTP/1.1", "Host: paths.example"), "path_not_allowed")
	add("a method that isn't allowed", plain("DELETE http://ok.example/ HTTP/1.1", "Host: ok.example"), "method_not_allowed")
	add("https without CONNECT", plain("GET https://ok.example/ HTTP/1.1", "Host: ok.example"), "bad_request")
	add("the proxy as a server", plain("GET / HTTP/1.1", "Host: ok.example"), "bad_request")

	for _, a := range []string{"private", "mapped", "nat64", "sixtofour", "cgnat", "metadata", "ula", "compat", "loopback", "multicast", "teredo"} {
		allowed("a name that leads to "+a, connect(a+".priv.example:443"), "address_forbidden")
	}
	allowed("a name that was bound anew", connect("rebind.example:443"), "address_forbidden")

	evil, good := clientHello("evil.example", nil), clientHello("ok.example", nil)
	none := clientHello("", nil)
	allowed("fronting", then(evil, 0), "sni_mismatch")
	allowed("fronting in pieces", then(evil, 40), "sni_mismatch")
	allowed("fronting in records", then(records(evil, 7), 0), "sni_mismatch")
	allowed("no server name", then(none, 0), "sni_missing")
	allowed("an encrypted hello", then(egresstest.WithExtension(good, 0xfe0d), 0), "ech")
	allowed("no TLS", then([]byte("GET /attack HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 0), "not_tls")
	allowed("SSH", then([]byte("SSH-2.0-x\r\n"), 0), "not_tls")
	allowed("an old hello", then([]byte("\x80\x2e\x01\x03\x01"), 0), "not_tls")
	add("a Host that fronts", plain("GET http://ok.example/ HTTP/1.1", "Host: evil.example"), "host_mismatch")
	add("CONNECT with another Host", plain("CONNECT ok.example:443 HTTP/1.1", "Host: evil.example:443"), "host_mismatch")

	get := "POST http://ok.example/attack HTTP/1.1"
	for name, head := range map[string][]string{
		"TE and CL": {get, "Host: ok.example", "Transfer-Encoding: chunked", "Content-Length: 4"},
		"two CL":    {get, "Host: ok.example", "Content-Length: 4", "Content-Length: 5"}, "the same CL twice": {get, "Host: ok.example", "Content-Length: 4", "Content-Length: 4"},
		"a list of CL": {get, "Host: ok.example", "Content-Length: 4, 4"}, "a signed CL": {get, "Host: ok.example", "Content-Length: +4"},
		"two TE":      {get, "Host: ok.example", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"},
		"TE xchunked": {get, "Host: ok.example", "Transfer-Encoding: xchunked"}, "TE gzip, chunked": {get, "Host: ok.example", "Transfer-Encoding: gzip, chunked"},
		"a space before the colon": {get, "Host: ok.example", "Transfer-Encoding : chunked"}, "a folded header": {get, "Host: ok.example", "X: a", " b"},
		"a bare CR": {get, "Host: ok.example", "X: a\rTransfer-Encoding: chunked"}, "two Hosts": {get, "Host: ok.example", "Host: evil.example"},
		"no Host": {get, "X: a"}, "HTTP/2.0": {"GET http://ok.example/attack HTTP/2.0", "Host: ok.example"}, "HTTP/0.9": {"GET http://ok.example/attack"},
		"a NUL in a header": {get, "Host: ok.example", "X: \x00"}, "chunked in HTTP/1.0": {"POST http://ok.example/attack HTTP/1.0", "Host: ok.example", "Transfer-Encoding: chunked"},
		"CONNECT with a body": {"CONNECT ok.example:443 HTTP/1.1", "Host: ok.example:443", "Content-Length: 4"},
	} {
		add("smuggling with "+name, plain(head...), "bad_request")
	}
	add("smuggling with a bare LF", attempt{Send: []byte("GET http://ok.example/attack HTTP/1.1\nHost: ok.example\n\n")}, "bad_request")
	add("smuggling with one bare LF", attempt{Send: []byte(get + "\r\nHost: ok.example\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n")}, "bad_request")

	for name, address := range map[string]string{
		"TCP to this host": "tcp " + host, "IPv6 to this host": "tcp [::1]" + host[strings.LastIndex(host, ":"):], "UDP to this host": "udp " + udp,
		"an abstract socket of this host": "unix @" + unix, "TCP outside": "tcp 198.41.0.4:443", "IPv6 outside": "tcp [2001:503:ba3e::2:30]:443",
		"DNS outside": "udp 198.41.0.4:53", "a neighbour": "tcp 10.0.0.1:80", "the cloud's metadata": "tcp 169.254.169.254:80",
	} {
		add("past the door: "+name, attempt{Dial: address, Send: []byte("attack")}, "")
	}
	add("a raw socket", attempt{Raw: true}, "")
	return list
}

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r > 0x7f }) }

// secretAddrs is where names lead to that an allow list has, but no job may reach.
var secretAddrs = map[string]string{
	"private": "10.0.0.1", "mapped": "::ffff:169.254.169.254", "nat64": "64:ff9b::a9fe:a9fe", "sixtofour": "2002:a9fe:a9fe::", "cgnat": "100.64.0.1",
	"metadata": "168.63.129.16", "ula": "fd00:ec2::254", "compat": "::127.0.0.1", "loopback": "127.0.0.2", "multicast": "224.0.0.251", "teredo": "2001::1",
}

// arena is a sandbox in which the attacker runs, with the door open.
type arena struct {
	w      *world
	stdin  io.Writer
	stdout *bufio.Scanner
}

// try lets the attacker try something.
func (a *arena) try(t *testing.T, what attempt) outcome {
	t.Helper()
	line, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.stdin.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	return a.told(t)
}

// told is the attacker's next answer.
func (a *arena) told(t *testing.T) outcome {
	t.Helper()
	if !a.stdout.Scan() {
		t.Fatal("the attacker has gone")
	}
	var o struct {
		Answer []byte
		Err    string
	}
	if err := json.Unmarshal(a.stdout.Bytes(), &o); err != nil {
		t.Fatal(err)
	}
	return outcome{string(o.Answer), o.Err}
}

// control shows that the same client gets through the same door now: by plain HTTP, and
// by the way into TLS that it was given.
func (a *arena) control(t *testing.T, tunnel attempt) {
	t.Helper()
	a.w.take()
	tunnel.TLS = "ok.example"
	for name, c := range map[string]attempt{"plain": plain("GET http://ok.example/control HTTP/1.1", "Host: ok.example"), "TLS": tunnel} {
		if o := a.try(t, c); !strings.HasPrefix(o.Answer, "HTTP/1.1 200") || !strings.Contains(o.Answer, "you reached /control") {
			t.Errorf("the %s control fails: %+v", name, o)
		}
	}
	_, seen, hit := a.w.take()
	want := []string{"GET ok.example/control", "GET ok.example/control", "sni ok.example"}
	if slices.Sort(seen); !slices.Equal(seen, want) || len(hit) > 0 {
		t.Errorf("the control reached %v, and the victim saw %v", seen, hit)
	}
}

// attack tries one row and shows that nobody saw it.
func (a *arena) attack(t *testing.T, row attack) {
	t.Helper()
	way := connect("OK.example.:443")
	if bytes.HasPrefix(row.Send, []byte{5}) {
		way = socks(3, "OK.example.", 443)
	}
	a.control(t, way)
	o := a.try(t, row.attempt)
	asked, seen, hit := a.w.take()
	if strings.Contains(o.Answer, "you reached") || row.reason == "" && !row.resolves && o.Err == "" {
		t.Errorf("it got through: %+v", o)
	}
	if len(seen) > 0 || len(hit) > 0 {
		t.Errorf("the servers saw %v, the victim %v", seen, hit)
	}
	if len(asked) > 0 && !row.resolves {
		t.Errorf("the name server was asked for %v", asked)
	}
	a.control(t, way)
}

// place is what isolates the attacker: a runner, and what its job runs in. The attacker is
// /attacker/attacker there.
type place func(t *testing.T) (*runner.Runner, job.Root, []job.Mount)

func onRunsc(t *testing.T) (*runner.Runner, job.Root, []job.Mount) {
	t.Helper()
	return newRunner(t), job.Root{Kind: job.RootHost}, []job.Mount{{Source: attacker(t), Target: "/attacker", Mode: job.MountReadOnly}}
}

// TestAttacks: the same table, whatever isolates.
func TestAttacks(t *testing.T) {
	ours, theirs := valkeys(t)
	everywhere(t, func(t *testing.T, p place) {
		t.Helper()
		underAttack(t, p, ours, theirs)
	})
}

func everywhere(t *testing.T, do func(*testing.T, place)) {
	t.Helper()
	t.Parallel()
	engine := dockertest.Later(t)
	for name, p := range map[string]place{
		runsc.Name: onRunsc, docker.Runsc: onDocker(docker.Runsc, engine), docker.Runc: onDocker(docker.Runc, engine),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			do(t, p)
		})
	}
}

// underAttack goes through the table in one sandbox. Valkey is another job's, whose
// token the attacker knows.
func underAttack(t *testing.T, p place, ours, theirs valkey.Client) {
	t.Helper()
	w := newWorld(t)
	w.names["ok.example"] = []netip.Addr{goodAddr}
	w.names["paths.example"] = []netip.Addr{goodAddr}
	w.names["rebind.example"] = []netip.Addr{goodAddr, netip.MustParseAddr("127.0.0.1")}
	for name, addr := range secretAddrs {
		w.names[pname(name+".priv.example")] = []netip.Addr{netip.MustParseAddr(addr)}
	}
	host, udp, unix := victims(t, w)
	list := []string{"ok.example", "GET+POST=http://ok.example", "http://paths.example/pub", "*.wild.example", "*.priv.example", "rebind.example"}
	r, root, mounts := p(t)
	r.Door = egress.Local{Proxy: proxy.New(proxy.Config{Operator: rules(t, list...), Resolver: w, Dialer: w})}
	a, ended := enter(t, r, job.Spec{
		ID: "attack-" + strings.ToLower(rand.Text()[:8]), Root: root, Allow: list, Mounts: mounts,
		Steps: []job.Step{{Argv: []string{"/attacker/attacker"}, Network: job.NetworkRegistries}, afterwards(t)},
	})
	a.w = w
	a.victimsHear(t, host, udp, unix)
	first := connect("rebind.example:443")
	first.TLS = "rebind.example"
	if o := a.try(t, first); !strings.Contains(o.Answer, "you reached") {
		t.Errorf("the first answer of the name server is fine, but: %+v", o)
	}
	want := map[string]int64{}
	for _, row := range attacks(t, host, udp, unix) {
		want[row.reason]++
		t.Run(row.name, func(t *testing.T) { a.attack(t, row) })
	}
	want["bad_request"]++
	t.Run("another job's token", func(t *testing.T) { a.withToken(t, ours, theirs) })
	a.victimsHear(t, host, udp, unix)
	a.leave(t)
	res := ended()
	delete(want, "")
	checkCounts(t, res, want)
}

// enter starts the attacker. It ends when ended is called, which returns the job's
// result.
func enter(t *testing.T, r *runner.Runner, spec job.Spec) (a *arena, ended func() job.Result) {
	t.Helper()
	stdin, toStdin := io.Pipe()
	fromStdout, stdout := io.Pipe()
	var stderr bytes.Buffer
	results := make(chan job.Result, 1)
	go func() {
		res, err := r.Run(t.Context(), spec, runner.Streams{Stdin: stdin, Stdout: stdout, Stderr: &stderr})
		if err != nil || res.Exit != 0 {
			t.Errorf("%+v, %v, stderr %s", res, err, stderr.String())
		}
		stdout.Close()
		stdin.Close() // who still writes to it would wait for ever
		results <- res
	}()
	return &arena{stdin: toStdin, stdout: bufio.NewScanner(fromStdout)}, func() job.Result {
		toStdin.Close()
		return <-results
	}
}

// checkCounts compares the refusals of a job with the rows of the table.
func checkCounts(t *testing.T, res job.Result, want map[string]int64) {
	t.Helper()
	if res.Egress == nil {
		t.Fatal("nothing was counted")
	}
	var total int64
	got := map[string]int64{}
	for _, r := range res.Egress.Refusals {
		got[r.Reason] += r.Count
	}
	for reason, n := range want {
		total += n
		if got[reason] != n {
			t.Errorf("%d refusals are %s, want %d", got[reason], reason, n)
		}
	}
	if res.Egress.Refused != total {
		t.Errorf("%d refusals, want %d: %+v", res.Egress.Refused, total, res.Egress.Refusals)
	}
}

func newRunner(t *testing.T) *runner.Runner {
	t.Helper()
	d := statetest.Dir(t)
	return &runner.Runner{
		Backend: runsc.New(sandboxtest.Runsc(t), d), Guest: sandboxtest.Guest(t),
		Store: d.Path("toolchain"), Spool: d.Path(), Grace: 300 * time.Millisecond,
	}
}

// victims are live listeners of this host that a job must not reach past the door: TCP
// on every address, UDP, and an abstract socket.
func victims(t *testing.T, w *world) (tcp, udp, unix string) {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := net.ListenPacket("udp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	unix = "quavon-victim-" + rand.Text()
	x, err := net.Listen("unix", "@"+unix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); u.Close(); x.Close() })
	go w.watch(l)
	go w.watch(x)
	go func() {
		for b := make([]byte, 100); ; {
			n, from, err := u.ReadFrom(b)
			if err != nil {
				return
			}
			w.note(&w.hit, fmt.Sprintf("%q from %s", b[:n], from))
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, udpPort, _ := net.SplitHostPort(u.LocalAddr().String())
	return hostAddr(t) + ":" + port, hostAddr(t) + ":" + udpPort, unix
}

// hostAddr is an address of this host that isn't loopback, if it has one.
func hostAddr(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}
