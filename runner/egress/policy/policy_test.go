package policy

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	for in, want := range map[string]Name{
		"a": "a", "OK.Example.": "ok.example", "xn--bcher-kva.example": "xn--bcher-kva.example", "_srv.a-b.example": "_srv.a-b.example",
		"1.2.3.4a": "1.2.3.4a", "0xg": "0xg", "127.example": "127.example", long + ".x": Name(long + ".x"),
	} {
		if got, err := Canonical(in); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"127.0.0.1", "127.1", "0x7f.1", "0X7F000001", "0x", "2130706433", "0177.0.0.1", "1.2.3.4.", "a.1", "[::1]", "::1", "fe80::1%lo", "1:2", "[a]",
	} {
		if got, err := Canonical(in); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %q, %v; want ErrAddress", in, got, err)
		}
	}
	for _, in := range []string{
		"", ".", "a..", "a..b", ".a", "-a", "a-", "a.-b", long + "a.x", strings.Repeat("a.", 126) + "aa", "a b", "a\x00b", "a/b", "a@b", "a\\b", "*.a",
		"o\u212a", "\uff4fk", "ok\u3002x", "ok\u00ad", "b\u00fccher", "a\nb", "a\xff",
	} {
		if got, err := Canonical(in); !errors.Is(err, ErrName) {
			t.Errorf("%q: %q, %v; want ErrName", in, got, err)
		}
	}
}

var canonicalForm = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$`)

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"OK.Example.", "127.1", "0x7f.1", "a..", "\u212a", "[::1]", "1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Canonical(s)
		if err != nil {
			return
		}
		if !canonicalForm.MatchString(string(n)) || len(n) > 253 || !strings.EqualFold(strings.TrimSuffix(s, "."), string(n)) {
			t.Errorf("%q became %q", s, n)
		}
		if again, err := Canonical(string(n)); err != nil || again != n {
			t.Errorf("%q isn't stable: %q, %v", n, again, err)
		}
		if _, err := netip.ParseAddr(string(n)); err == nil {
			t.Errorf("%q is an address", n)
		}
	})
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	open := Addresses{Private: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("100.64.0.0/10")}}
	for addr, want := range map[string]struct{ closed, opened bool }{
		"198.41.0.4": {true, true}, "2001:503:ba3e::2:30": {true, true}, "::ffff:198.41.0.4": {true, true}, "2600::1": {true, true},
		"10.1.2.3": {false, true}, "10.2.0.1": {false, false}, "fd00::1": {false, true}, "100.64.0.1": {false, true}, "::ffff:10.1.0.1": {false, true},
		// never, whatever is opened
		"100.100.100.200": {}, "fd00:ec2::254": {}, "fd20:ce::254": {}, "169.254.169.254": {}, "169.254.170.2": {}, "168.63.129.16": {}, "192.0.0.192": {},
		"127.0.0.1": {}, "::1": {}, "0.0.0.0": {}, "::": {}, "fe80::1": {}, "fe80::1%eth0": {}, "::ffff:169.254.169.254": {}, "::169.254.169.254": {},
		"64:ff9b::a9fe:a9fe": {}, "64:ff9b:1::1": {}, "2002:a9fe:a9fe::": {}, "2001::1": {}, "198.18.0.1": {}, "fec0::1": {}, "224.0.0.1": {}, "ff02::1": {},
		"255.255.255.255": {}, "240.0.0.1": {}, "192.0.2.1": {}, "2001:db8::1": {}, "3fff::1": {}, "5f00::1": {}, "100::1": {}, "4000::1": {}, "192.88.99.1": {},
	} {
		a := netip.MustParseAddr(addr)
		if got := (Addresses{}).Check(a) == nil; got != want.closed {
			t.Errorf("%s is reachable: %v", addr, got)
		}
		if got := open.Check(a) == nil; got != want.opened {
			t.Errorf("%s is reachable with private networks: %v", addr, got)
		}
	}
	for _, s := range []string{"0.0.0.0/0", "127.0.0.0/8", "169.254.0.0/16", "10.0.0.0/7", "::/0", "fe80::/10", "10.0.0.1/8", "8.8.8.8/32", "x", "::ffff:10.0.0.0/104"} {
		if p, err := ParsePrivate(s); err == nil {
			t.Errorf("%s was taken as %s", s, p)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"ok.example": "https://ok.example:443", "*.ok.example:8443": "https://*.ok.example:8443", "tcp://ok.example:22": "tcp://ok.example:22",
		"GET+PUT=http://ok.example/a=b": "GET+PUT=http://ok.example:80/a=b", "http://ok.example:81": "http://ok.example:81",
	} {
		r, err := Parse(in)
		if err != nil || r.String() != want {
			t.Errorf("%q: %q, %v", in, r.String(), err)
		}
		if again, err := Parse(r.String()); err != nil || again.String() != want {
			t.Errorf("%q isn't stable: %v", want, err)
		}
	}
	for _, in := range []string{
		"", "OK.example", "ok.example.", "*", "*.example", "a*.example", "x.*.example", "127.0.0.1", "10.0.0.0/8", "[::1]:443", "ok.example:0", "ok.example:0443",
		"ok.example:70000", "tcp://ok.example", "ftp://ok.example", "https://ok.example/x", "GET=ok.example", "get=http://ok.example", "GET+=http://ok.example", "GET,PUT=http://ok.example", "GET http://ok.example",
		"http://ok.example/a/../b", "http://ok.example/%2e", "http://ok.example/a?b", "http://ok.example//", " ok.example", "ok.example ", "a@ok.example",
	} {
		if r, err := Parse(in); err == nil {
			t.Errorf("%q was taken as %s", in, r)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	p, err := New([]string{"ok.example", "*.wild.example", "http://ok.example/pub/", "PUT=http://up.example", "tcp://any.example:9"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	plain := func(n Name, method, path string) Request {
		return Request{Name: n, Port: 80, Scheme: HTTP, Method: method, Path: path}
	}
	for _, c := range []struct {
		q    Request
		want Reason
	}{
		{Request{Name: "ok.example", Port: 443, Scheme: HTTPS}, ""},
		{Request{Name: "ok.example", Port: 444, Scheme: HTTPS}, ReasonPort},
		{Request{Name: "ok.example", Port: 80, Scheme: HTTPS}, ReasonScheme},
		{Request{Name: "ok.example", Port: 443, Scheme: HTTP, Method: "GET", Path: "/"}, ReasonScheme},
		{Request{Name: "a.b.wild.example", Port: 443, Scheme: HTTPS}, ""},
		{Request{Name: "wild.example", Port: 443, Scheme: HTTPS}, ReasonHost},
		{Request{Name: "xwild.example", Port: 443, Scheme: HTTPS}, ReasonHost},
		{Request{Name: "any.example", Port: 9, Scheme: HTTPS}, ""},
		{Request{Name: "any.example", Port: 9, Scheme: HTTP, Method: "GET", Path: "/"}, ReasonScheme},
		{plain("ok.example", "GET", "/pub/x?y=/../"), ""},
		{plain("ok.example", "HEAD", "/pub"), ""},
		{plain("ok.example", "GET", "/public"), ReasonPath},
		{plain("ok.example", "GET", "/pub/../x"), ReasonPath},
		{plain("ok.example", "GET", "/pub/%2e%2e/x"), ReasonPath},
		{plain("ok.example", "GET", "/pub//x"), ReasonPath},
		{plain("ok.example", "POST", "/pub/x"), ReasonMethod},
		{plain("up.example", "PUT", "/"), ""},
		{plain("up.example", "GET", "/"), ReasonMethod},
	} {
		if _, why := p.Decide(c.q); why != c.want {
			t.Errorf("%+v: %q, want %q", c.q, why, c.want)
		}
	}
}

// A request needs a rule on each list, and TLS is checked unless neither asks for it.
func TestBothLists(t *testing.T) {
	t.Parallel()
	operator, _ := New([]string{"*.a.example", "tcp://x.b.example:443", "tcp://y.b.example:443"}, nil)
	own, _ := New([]string{"x.a.example", "other.example", "x.b.example", "tcp://y.b.example:443"}, nil)
	for name, want := range map[Name]Scheme{"x.a.example": HTTPS, "y.a.example": "", "other.example": "", "x.b.example": HTTPS, "y.b.example": TCP} {
		r, why := Both{operator, own}.Decide(Request{Name: name, Port: 443, Scheme: HTTPS})
		if (why == "") != (want != "") || why == "" && r.Scheme != want {
			t.Errorf("%s: %v, %s", name, r, why)
		}
		if _, turned := (Both{own, operator}).Decide(Request{Name: name, Port: 443, Scheme: HTTPS}); turned != why && want != "" {
			t.Errorf("%s: turned round it is %q", name, turned)
		}
	}
}
