package secret_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/secret"
)

const value = "s3cr3t/+value="

func bound(t testing.TB, url, header string) secret.Bound {
	t.Helper()
	b, err := secret.Bind(job.Secret{URL: url, Header: header})
	if err != nil {
		t.Fatal(err)
	}
	return secret.Bound{Binding: b, Placeholder: secret.Mint(), Value: job.NewValue(value)}
}

func basic(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }

func TestResolve(t *testing.T) {
	t.Parallel()
	b := bound(t, "https://api.example/v1", "Authorization")
	set, p, other := secret.Set{b}, b.Placeholder, secret.Mint()
	at := policy.Request{Scheme: policy.HTTPS, Name: "api.example", Port: 443}
	with := func(edit func(*policy.Request)) policy.Request {
		q := at
		edit(&q)
		return q
	}
	for _, c := range []struct {
		name                     string
		to                       policy.Request
		target, key, field, want string
		err                      error
	}{
		{"nothing", at, "/v1", "x", "a", "a", nil},
		{"whole", at, "/v1", "authorization", p, value, nil},
		{"bearer", at, "/v1/x?y=%2e%2e", "authorization", "Bearer " + p, "Bearer " + value, nil},
		{"token", at, "/v1/", "authorization", "token " + p, "token " + value, nil},
		{"password", at, "/v1/@a%2fb", "authorization", basic("git:" + p), basic("git:" + value), nil},
		{"user", at, "/v1", "authorization", basic(p + ":"), basic(value + ":"), nil},
		{"basic without a secret", at, "/v1", "authorization", basic("a:b"), basic("a:b"), nil},
		{"unknown", at, "/v1", "authorization", "Bearer " + other, "", secret.ErrUnknown},
		{"unknown in basic", at, "/v1", "authorization", basic("x:" + other), "", secret.ErrUnknown},
		{"other field", at, "/v1", "x-other", p, "", secret.ErrMisplaced},
		{"basic in another field", at, "/v1", "x-other", basic("a:" + p), "", secret.ErrMisplaced},
		{"part of a value", at, "/v1", "authorization", "Bearer x" + p, "", secret.ErrMisplaced},
		{"twice", at, "/v1", "authorization", p + " " + p, "", secret.ErrMisplaced},
		{"both parts of basic", at, "/v1", "authorization", basic(p + ":" + p), "", secret.ErrMisplaced},
		{"part of a password", at, "/v1", "authorization", basic("a:x" + p), "", secret.ErrMisplaced},
		{"other path", at, "/v2", "authorization", p, "", secret.ErrMisplaced},
		{"part of a segment", at, "/v1x", "authorization", p, "", secret.ErrMisplaced},
		{"dots", at, "/v1/../v2", "authorization", p, "", secret.ErrMisplaced},
		{"encoded dots", at, "/v1/%2e%2E/v2", "authorization", p, "", secret.ErrMisplaced},
		{"twice encoded", at, "/v1/%252e%252e%252fv2", "authorization", p, "", secret.ErrMisplaced},
		{"five times encoded", at, "/v1/%2525252525252e.", "authorization", p, "", secret.ErrMisplaced},
		{"encoded slash", at, "/v1/..%2fv2", "authorization", p, "", secret.ErrMisplaced},
		{"backslash", at, `/v1/..\v2`, "authorization", p, "", secret.ErrMisplaced},
		{"parameters", at, "/v1/..;x/v2", "authorization", p, "", secret.ErrMisplaced},
		{"overlong dots", at, "/v1/%c0%ae%c0%ae/v2", "authorization", p, "", secret.ErrMisplaced},
		{"full-width dots", at, "/v1/%ef%bc%8e%ef%bc%8e/v2", "authorization", p, "", secret.ErrMisplaced},
		{"a bad escape", at, "/v1/%zz", "authorization", p, "", secret.ErrMisplaced},
		{"plain", with(func(q *policy.Request) { q.Scheme, q.Port = policy.HTTP, 80 }), "/v1", "authorization", p, "", secret.ErrMisplaced},
		{"port", with(func(q *policy.Request) { q.Port = 8443 }), "/v1", "authorization", p, "", secret.ErrMisplaced},
		{"host", with(func(q *policy.Request) { q.Name = "x.api.example" }), "/v1", "authorization", p, "", secret.ErrMisplaced},
	} {
		got, err := set.Resolve(c.to, c.target, c.key, c.field)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	for _, target := range []string{"/v1/" + p, "/v1?t=" + p, "/v1/" + strings.ReplaceAll(p, "_", "%5f"), "/?" + strings.ReplaceAll(p, "_", "%255F"), "/%zz/" + strings.ReplaceAll(p, "_", "%5F") + "%"} {
		if err := set.CheckTarget(target); !errors.Is(err, secret.ErrMisplaced) {
			t.Errorf("%s: %v", target, err)
		}
	}
	if err := set.CheckTarget("/v1/quavon_secret_x"); err != nil {
		t.Error(err)
	}
}

func TestBind(t *testing.T) {
	t.Parallel()
	for _, bad := range [][2]string{
		{"api.example", "A"},
		{"ftp://api.example", "A"},
		{"https://*.example.org", "A"},
		{"https://10.0.0.1", "A"},
		{"https://API.example", "A"},
		{"https://api.example/a/../b", "A"},
		{"https://api.example/a?b", "A"},
		{"https://u@api.example", "A"},
		{"https://api.example", "Host"},
		{"https://api.example", "Content-Length"},
		{"https://api.example:0", "A"},
		{"GET=https://api.example", "A"},
	} {
		if b, err := secret.Bind(job.Secret{URL: bad[0], Header: bad[1]}); err == nil {
			t.Errorf("%v is %+v", bad, b)
		}
	}
}

// No way of showing a value shows it, wherever it is held.
func TestValuesAreNotShown(t *testing.T) {
	t.Parallel()
	b := bound(t, "https://api.example", "Authorization")
	held := struct {
		inner secret.Bound
		list  secret.Set
		p     *secret.Bound
	}{b, secret.Set{b}, &b}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, x := range []any{b, &b, b.Value, held, &held, []any{b}} {
			got := fmt.Sprintf(verb, x)
			if strings.Contains(got, value) || strings.Contains(got, fmt.Sprintf("%x", value)) {
				t.Errorf("%s of %T shows it: %s", verb, x, got)
			}
		}
	}
}

func scrub(p *secret.Patterns, pieces ...[]byte) []byte {
	s := secret.Scrubber{Patterns: p}
	var out []byte
	for _, piece := range pieces {
		out = append(out, s.Next(nil, piece)...)
	}
	return s.Flush(out)
}

func TestScrubForms(t *testing.T) {
	t.Parallel()
	p := secret.Set{bound(t, "https://api.example", "A")}.Patterns()
	for _, form := range []string{
		value, url.QueryEscape(value), strings.ToLower(url.QueryEscape(value)), url.PathEscape(value), strings.ReplaceAll(value, "/", `\/`),
		base64.StdEncoding.EncodeToString([]byte("a:" + value)), base64.StdEncoding.EncodeToString([]byte("abc" + value + "x")),
		base64.URLEncoding.EncodeToString([]byte("x" + value + "yz")), each("%%%02x"), each("%%%02X"), each(`\u%04x`), each(`\x%02X`), each("&#%d;"),
		each("&#x%X;"), each("%02x"), each("%02X"), each("%c\x00"), each("\x00%c"), each("%c\r\n"), each(`%c\n`), strings.ToUpper(value),
		"s&#x33;cr%33t\\/&#43;v\\u0061lue%3d", wrapped(base64.StdEncoding.EncodeToString([]byte("ab"+value)), 5),
	} {
		whole := "before " + form + " after"
		got := string(scrub(p, []byte(whole)))
		if len(got) != len(whole) || !strings.Contains(got, "******") || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%q became %q", whole, got)
		}
		for i := range len(form) - 5 {
			if strings.Contains(got, form[i:i+6]) {
				t.Errorf("%q became %q", whole, got)
				break
			}
		}
	}
}

// each writes every byte of the value in a format.
func each(format string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// wrapped breaks lines.
func wrapped(s string, size int) string {
	var lines []string
	for line := range slices.Chunk([]byte(s), size) {
		lines = append(lines, string(line))
	}
	return strings.Join(lines, "\n")
}

// naive masks by looking at every position.
func naive(text, pattern string) string {
	out := []byte(text)
	for i := range text {
		if strings.HasPrefix(text[i:], pattern) {
			copy(out[i:], strings.Repeat("*", len(pattern)))
		}
	}
	return string(out)
}

// FuzzScrub: however a stream is cut, the same comes out as of the whole, and it is what
// looking at every position gives.
func FuzzScrub(f *testing.F) {
	f.Add("aabaaab aabaaab", "aabaaab", uint16(3), uint16(9))
	f.Add("xabababab", "abababab", uint16(2), uint16(5))
	f.Add("secretsecresecret", "secretsecre", uint16(7), uint16(8))
	f.Add("a%62\\u0063d&#101;f\r\ng\x00h%4", "abcdefgh", uint16(2), uint16(7))
	f.Add("%%61%62&amp&amp;%25a%252", "%ab&amp;%", uint16(1), uint16(9))
	f.Fuzz(func(t *testing.T, text, pattern string, a, b uint16) {
		if len(pattern) < 8 || len(pattern) > 200 {
			return
		}
		p := secret.Set{{Value: job.NewValue(pattern)}}.Patterns()
		whole := scrub(p, []byte(text))
		if len(whole) != len(text) || strings.Contains(string(whole), pattern) && !strings.Contains(pattern, "*") {
			t.Fatalf("%q became %q", text, whole)
		}
		if want := naive(text, pattern); strings.Count(want, "*") > strings.Count(string(whole), "*") {
			t.Fatalf("%q became %q, want at least %q", text, whole, want)
		}
		i, j := int(a)%(len(text)+1), int(b)%(len(text)+1)
		i, j = min(i, j), max(i, j)
		if cut := scrub(p, []byte(text[:i]), []byte(text[i:j]), []byte(text[j:])); !bytes.Equal(cut, whole) {
			t.Fatalf("cut at %d and %d: %q, whole %q", i, j, cut, whole)
		}
		var single [][]byte
		for k := range text {
			single = append(single, []byte(text)[k:k+1])
		}
		if len(single) == len(text) {
			if cut := scrub(p, single...); !bytes.Equal(cut, whole) {
				t.Fatalf("byte by byte: %q, whole %q", cut, whole)
			}
		}
	})
}

// FuzzFinder: what is found in a stream is what is in the text.
func FuzzFinder(f *testing.F) {
	p := secret.Mint()
	f.Add(p)
	f.Add("quavon_quavon_secret_" + p[14:])
	f.Add("quavon_secret_AAAAq" + p)
	set := secret.Set{}
	f.Fuzz(func(t *testing.T, text string) {
		var find secret.Finder
		found := false
		for i := range len(text) {
			found = find.Next(text[i]) || found
			if n := find.Pending(); n > i+1 || n >= secret.Size {
				t.Fatal(n)
			}
		}
		want := false
		for i := range text {
			want = want || isPlaceholder(text[i:])
		}
		if found != want {
			t.Fatalf("%q: found %v", text, found)
		}
		if _, err := set.Resolve(policy.Request{}, "/", "x", text); found && err == nil {
			t.Fatal("it isn't refused")
		}
		_ = set.CheckTarget(text)
	})
}

func isPlaceholder(s string) bool {
	rest, ok := strings.CutPrefix(s, "quavon_secret_")
	return ok && len(rest) >= 26 && strings.Trim(rest[:26], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// Memory is bounded by the secrets, not by the stream.
func TestScrubberHoldsLittle(t *testing.T) {
	t.Parallel()
	p := secret.Set{{Value: job.NewValue(strings.Repeat("ab", 2048))}}.Patterns()
	s := secret.Scrubber{Patterns: p}
	in, total := bytes.Repeat([]byte("ab"), 16<<10), 0
	for range 100 {
		total += len(s.Next(nil, in))
	}
	if held := 100*len(in) - total; held > 2*4096 {
		t.Errorf("%d bytes are held", held)
	}
}

func BenchmarkScrub(b *testing.B) {
	p := secret.Set{{Value: job.NewValue(value)}}.Patterns()
	s := secret.Scrubber{Patterns: p}
	text := bytes.Repeat([]byte("some text of a response, with words\n"), 1000)
	b.SetBytes(int64(len(text)))
	var buf []byte
	for b.Loop() {
		buf = s.Next(buf[:0], text)
	}
}
