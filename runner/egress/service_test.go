package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/egress/token"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
	"github.com/quavon/quavon/test/loopback"
)

// valkeys starts Valkey with the shipped users and connects as two of them.
func valkeys(t *testing.T) (sandbox, proxyUser valkey.Client) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sandboxtest.Module(t), "templates/valkey/users.acl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"default", "sandbox", "egress"} {
		text = bytes.ReplaceAll(text, []byte("@"+strings.ToUpper(user)+"_PASSWORD_SHA256@"), fmt.Appendf(nil, "%x", sha256.Sum256([]byte(user))))
	}
	file := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	server := queuetest.Start(t, "--aclfile", file)
	as := func(user string) valkey.Client {
		s := server.Settings()
		s.Username, s.Password = user, user
		c, err := conn.Open(s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	return as("sandbox"), as("egress")
}

// service runs the egress service with a world behind it, and returns its address.
func service(t *testing.T, w *world, tokens valkey.Client, operator ...string) string {
	t.Helper()
	return serve(t, &egress.Service{
		Proxy:  proxy.New(proxy.Config{Operator: rules(t, operator...), Resolver: w, Dialer: w}),
		Tokens: token.Store{Client: tokens},
	})
}

func serve(t *testing.T, s *egress.Service) string {
	t.Helper()
	return serveAt(t, s, "127.0.0.1:0")
}

func serveAt(t *testing.T, s *egress.Service, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// The whole way of a runner with the service: token, door, tally, and what is left.
func TestServiceServesASandbox(t *testing.T) {
	t.Parallel()
	ours, theirs := valkeys(t)
	w := newWorld(t)
	w.names["ok.example"], w.names["own.example"] = []netip.Addr{goodAddr}, []netip.Addr{goodAddr}
	r := newRunner(t)
	r.Door = egress.Remote{Addr: service(t, w, theirs, "http://ok.example", "http://operator.example"), Tokens: token.Store{Client: ours}}
	s := script(t.TempDir(), 1, get+strings.ReplaceAll(get, "ok.", "own.")+strings.ReplaceAll(get, "ok.", "operator."))
	s.Allow = []string{"http://ok.example", "http://own.example"}
	var out bytes.Buffer
	res, err := r.Run(t.Context(), s, runner.Streams{Stdout: &out, Stderr: &out})
	if err != nil || out.String() != "200 403 403 " {
		t.Fatalf("%v, %v: %q", res, err, out.String())
	}
	if res.Egress == nil || res.Egress.Connections != 1 || res.Egress.Refused != 2 || len(res.Egress.Refusals) != 2 {
		t.Errorf("counted %+v", res.Egress)
	}
	if keys, err := theirs.Do(t.Context(), theirs.B().Get().Key(token.Prefix+"x").Build()).ToString(); !valkey.IsValkeyNil(err) {
		t.Errorf("%v, %v", keys, err)
	}
}

// speak says something to the service and returns all that it answers.
func speak(t *testing.T, addr, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, text)
	answer, _ := io.ReadAll(c) // a reset is an answer too
	return string(answer)
}

const ask = "GET http://ok.example/x HTTP/1.1\r\nHost: ok.example\r\n\r\n"

func connectLine(t token.Token) string { return "quavon-egress/1 connect " + string(t) + "\n" }

// openStep is the door of a step of a job's, which may reach http://ok.example.
func openStep(t *testing.T, store token.Store, addr string) (token.Token, *net.TCPConn) {
	t.Helper()
	tok := token.Mint()
	if err := store.Put(t.Context(), tok, token.Grant{Job: "j", Allow: []string{"http://ok.example"}}); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_, _ = io.WriteString(c, "quavon-egress/1 session "+string(tok)+"\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "ok\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return tok, c.(*net.TCPConn)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	ours, theirs := valkeys(t)
	w := newWorld(t)
	w.names["ok.example"] = []netip.Addr{goodAddr}
	addr := service(t, w, theirs, "http://ok.example")
	store := token.Store{Client: ours}
	ctx := t.Context()

	open := func() (token.Token, *net.TCPConn) { return openStep(t, store, addr) }
	control := func(tok token.Token) {
		t.Helper()
		if got := speak(t, addr, connectLine(tok)+ask); !strings.Contains(got, "you reached") {
			t.Errorf("the control fails: %q", got)
		}
		w.take()
	}
	nothing := func(what, text string) {
		t.Helper()
		got := speak(t, addr, text)
		if asked, seen, hit := w.take(); got != "" || len(asked)+len(seen)+len(hit) > 0 {
			t.Errorf("%s: answered %q, reached %v %v %v", what, got, asked, seen, hit)
		}
	}
	tok, session := open()
	control(tok)
	minted := token.Mint()
	if err := store.Put(ctx, minted, token.Grant{Allow: []string{"http://ok.example"}}); err != nil {
		t.Fatal(err)
	}
	nothing("a token that was never minted", connectLine(token.Mint())+ask)
	nothing("a token without a session", connectLine(minted)+ask)
	nothing("no token", ask)
	nothing("an empty token", connectLine("")+ask+strings.Repeat("x", 100))
	nothing("a verb that isn't one", strings.Replace(connectLine(tok), "connect", "CONNECT", 1)+ask)
	nothing("another version", strings.Replace(connectLine(tok), "/1", "/2", 1)+ask)
	control(tok)
	if got := speak(t, addr, "quavon-egress/1 session "+string(tok)+"\n"); got != "the token is in use\n" {
		t.Errorf("a second session: %q", got)
	}
	if got := speak(t, addr, "quavon-egress/1 session "+string(token.Mint())+"\n"); !strings.Contains(got, "not known") {
		t.Errorf("a session without a token: %q", got)
	}

	// What is open is cut when the session ends, and when the token is revoked.
	for name, end := range map[string]func(tok token.Token, session *net.TCPConn){
		"the session ends":     func(_ token.Token, s *net.TCPConn) { s.Close() },
		"the token is revoked": func(tok token.Token, _ *net.TCPConn) { _ = store.Delete(ctx, tok) },
	} {
		tok, session := open()
		control(tok)
		held, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(held, connectLine(tok))
		end(tok, session)
		_ = held.SetDeadline(time.Now().Add(time.Minute))
		if n, err := held.Read(make([]byte, 1)); n > 0 || err == nil || os.IsTimeout(err) {
			t.Errorf("%s: the connection is not cut: %v", name, err)
		}
		held.Close()
		nothing(name, connectLine(tok)+ask)
	}
	control(tok)
	session.Close()
}

// Nobody but the sandbox's user writes tokens, and the proxy's sees nothing else.
func TestTheProxysUserOnlyReadsTokens(t *testing.T) {
	t.Parallel()
	ours, theirs := valkeys(t)
	tok := token.Mint()
	ctx := t.Context()
	store := token.Store{Client: ours}
	if err := store.Put(ctx, tok, token.Grant{Job: "j", Step: 2, Allow: []string{"a.example"}}); err != nil {
		t.Fatal(err)
	}
	if g, err := (token.Store{Client: theirs}).Get(ctx, tok); err != nil || g.Job != "j" || g.Step != 2 || len(g.Allow) != 1 {
		t.Errorf("%+v, %v", g, err)
	}
	read := token.Store{Client: theirs}
	for what, err := range map[string]error{
		"write": read.Put(ctx, token.Mint(), token.Grant{}), "renew": read.Renew(ctx, tok), "delete": read.Delete(ctx, tok),
		"read a job": theirs.Do(ctx, theirs.B().Get().Key("quavon-sandbox:job:1").Build()).Error(),
	} {
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("the proxy's user may %s: %v", what, err)
		}
	}
	if err := store.Renew(ctx, tok); err != nil {
		t.Error(err)
	}
	if err := store.Delete(ctx, tok); err != nil {
		t.Error(err)
	}
	if err := store.Renew(ctx, tok); err == nil {
		t.Error("a deleted token was renewed")
	}
}

func TestNoServiceNoStep(t *testing.T) {
	t.Parallel()
	ours, _ := valkeys(t)
	r := newRunner(t)
	r.Door = egress.Remote{Addr: net.JoinHostPort(loopback.Free(t)), Tokens: token.Store{Client: ours}}
	res, err := r.Run(t.Context(), script(t.TempDir(), 1, "true"), runner.Streams{})
	if fault.Code(err) != string(job.ReasonSandboxUnavailable) || len(res.Steps) > 0 || fault.Hint(err) == "" {
		t.Errorf("%+v, %v", res, err)
	}
}
