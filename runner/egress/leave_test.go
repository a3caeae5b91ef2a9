package egress_test

import (
	"encoding/json"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/egress/token"
	"github.com/quavon/quavon/runner/job"
)

// victimsHear shows that what must see nothing would: this host reaches all of it.
func (a *arena) victimsHear(t *testing.T, tcp, udp, unix string) {
	t.Helper()
	a.w.take()
	for _, to := range [][2]string{{"tcp", tcp}, {"udp", udp}, {"unix", "@" + unix}, {"tcp", a.w.victim.Addr().String()}} {
		c, err := net.Dial(to[0], to[1])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "x")
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if _, _, hit := a.w.take(); len(hit) == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the victim at %s hears nothing", to)
			}
		}
		c.Close()
	}
}

// withToken tries to use the open door of another job at the egress service.
func (a *arena) withToken(t *testing.T, ours, theirs valkey.Client) {
	t.Helper()
	p := proxy.New(proxy.Config{Operator: rules(t, "http://ok.example"), Resolver: a.w, Dialer: a.w})
	addr := serveAt(t, &egress.Service{Proxy: p, Tokens: token.Store{Client: theirs}}, ":0")
	_, port, _ := net.SplitHostPort(addr)
	addr = net.JoinHostPort(hostAddr(t), port)
	store := token.Store{Client: ours}
	tok, _ := openStep(t, store, addr)
	go func() { // as the runner of that job does
		for t.Context().Err() == nil {
			_ = store.Renew(t.Context(), tok)
			time.Sleep(time.Second)
		}
	}()
	for range 2 {
		if got := speak(t, addr, connectLine(tok)+ask); !strings.Contains(got, "you reached") {
			t.Errorf("from this host: %q", got)
		}
		a.attack(t, attack{attempt: attempt{Dial: "tcp " + addr, Send: []byte(connectLine(tok) + ask)}})
	}
	a.attack(t, attack{attempt: attempt{Send: []byte(connectLine(tok) + ask)}, reason: "bad_request"})
}

// afterwards is a step without a network, in which the attacker looks around.
func afterwards(t *testing.T) job.Step {
	t.Helper()
	argv := []string{"/attacker/attacker"}
	for _, what := range []attempt{{Env: true}, {Stays: true}, plain("GET http://ok.example/x HTTP/1.1", "Host: ok.example")} {
		line, err := json.Marshal(what)
		if err != nil {
			t.Fatal(err)
		}
		argv = append(argv, string(line))
	}
	return job.Step{Argv: argv}
}

// proxyEnv is what tells tools of the door.
var proxyEnv = []string{
	"HTTPS_PROXY=http://127.0.0.1:3128", "HTTP_PROXY=http://127.0.0.1:3128", "NODE_USE_ENV_PROXY=1", "NO_PROXY=localhost,127.0.0.1,::1",
	"http_proxy=http://127.0.0.1:3128", "https_proxy=http://127.0.0.1:3128", "no_proxy=localhost,127.0.0.1,::1",
}

// ofProxies are the variables about proxies, sorted.
func ofProxies(env string) []string {
	list := slices.DeleteFunc(strings.Split(env, "\n"), func(v string) bool { return !strings.Contains(strings.ToLower(v), "_proxy") })
	slices.Sort(list)
	return list
}

// leave ends the step with the network, from which a process and a connection are left
// over, and shows that the next step has neither these nor the door.
func (a *arena) leave(t *testing.T) {
	t.Helper()
	if got := ofProxies(a.try(t, attempt{Env: true}).Answer); !slices.Equal(got, proxyEnv) {
		t.Errorf("the step with a network has %q", got)
	}
	if o := a.try(t, attempt{Stay: true}); o.Answer != "holds" {
		t.Errorf("nobody stays: %+v", o)
	}
	if o := a.try(t, attempt{Stays: true}); o.Answer != "1" {
		t.Errorf("nobody sees who stays: %+v", o)
	}
	a.control(t, connect("ok.example:443"))
	a.stdin.(io.Closer).Close()
	if got := ofProxies(a.told(t).Answer); len(got) > 0 {
		t.Errorf("the step without a network has %q", got)
	}
	if o := a.told(t); o.Answer != "0" {
		t.Errorf("%s processes are left over: %s", o.Answer, o.Err)
	}
	if o := a.told(t); !strings.Contains(o.Err, "refused") {
		t.Errorf("the door is still there: %+v", o)
	}
	if asked, seen, hit := a.w.take(); len(asked)+len(seen)+len(hit) > 0 {
		t.Errorf("after the step %v were asked for, the servers saw %v, the victim %v", asked, seen, hit)
	}
}
