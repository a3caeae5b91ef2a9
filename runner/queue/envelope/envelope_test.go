package envelope

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

var now = time.UnixMilli(1_800_000_000_000)

func secret(fill byte) []byte {
	s := make([]byte, KeySize)
	for i := range s {
		s[i] = fill + byte(i)
	}
	return s
}

func ring(t testing.TB, fills ...byte) *Keyring {
	t.Helper()
	var secrets [][]byte
	for _, f := range fills {
		secrets = append(secrets, secret(f))
	}
	k, err := NewKeyring(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sample() Envelope {
	return Envelope{
		Context: Context{
			Purpose: PurposeResult, Audience: "submitters/default", Job: "j1", Attempt: 2, Runner: "r1", Thread: Nonce{9: 7},
		},
		Nonce: Nonce{1, 2, 3}, NotBefore: now, Expiry: now.Add(time.Hour), Payload: []byte("secret payload"),
	}
}

func expected(e Envelope) Expect {
	return Expect{Context: e.Context, Now: now.Add(time.Minute), Skew: time.Second}
}

func seal(t testing.TB, k *Keyring, e Envelope) []byte {
	t.Helper()
	raw, err := k.Seal(e)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestSealAndOpen(t *testing.T) {
	k := ring(t, 1)
	for _, payload := range [][]byte{nil, []byte("x"), make([]byte, MaxPayload)} {
		e := sample()
		e.Payload = payload
		raw := seal(t, k, e)
		got, err := k.Open(raw, expected(e))
		if err != nil || !bytes.Equal(got.Payload, payload) || got.Context != e.Context || got.Nonce != e.Nonce ||
			!got.NotBefore.Equal(e.NotBefore) || !got.Expiry.Equal(e.Expiry) {
			t.Errorf("payload of %d bytes: %+v, %v", len(payload), got.Context, err)
		}
	}
	e := sample()
	e.Payload = make([]byte, MaxPayload+1)
	if _, err := k.Seal(e); CauseOf(err) != Malformed {
		t.Errorf("too large a payload: %v", err)
	}
	if raw := seal(t, k, sample()); bytes.Contains(raw, []byte("secret")) {
		t.Error("the payload can be read")
	}
}

// The bytes are fixed: runners of other versions must read them.
func TestGolden(t *testing.T) {
	raw := seal(t, ring(t, 1), sample())
	const want = "UVNFAQEbRpaMY0W8qwISc3VibWl0dGVycy9kZWZhdWx0AmoxAAAAAgJyMQAAAAAAAAAAAAcAAAAAAAABAgMAAAAAAAAAAAAAAAAAAAABoxhcUAAAAAGjGJM+gAAAAB7rD9SEypgrCIu1Akf71jOEpQYzh5OdMiVaMBpMh1386I4q1d6rosvkWI2/FqK5Bk6NbFfZzKCIX/h0IXeR4w=="
	if got := base64.StdEncoding.EncodeToString(raw); got != want {
		t.Errorf("the format has changed: bump the version.\n%s", got)
	}
}

// Every single bit counts, and every length.
func TestTampered(t *testing.T) {
	k, e := ring(t, 1), sample()
	raw := seal(t, k, e)
	for i := range len(raw) * 8 {
		bad := bytes.Clone(raw)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := k.Open(bad, expected(e)); CauseOf(err) == "" {
			t.Fatalf("bit %d of byte %d: %v", i%8, i/8, err)
		}
	}
	for n := range len(raw) {
		if _, err := k.Open(raw[:n], expected(e)); CauseOf(err) != Malformed {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
	if _, err := k.Open(append(bytes.Clone(raw), 0), expected(e)); CauseOf(err) != Malformed {
		t.Error("a byte more was accepted")
	}
}

func TestRefused(t *testing.T) {
	k := ring(t, 1)
	for name, c := range map[string]struct {
		edit func(*Expect)
		want Cause
	}{
		"audience":   {func(w *Expect) { w.Context.Audience = "runners/default" }, WrongAudience},
		"purpose":    {func(w *Expect) { w.Context.Purpose = PurposeHealth }, WrongContext},
		"job":        {func(w *Expect) { w.Context.Job = "j2" }, WrongContext},
		"attempt":    {func(w *Expect) { w.Context.Attempt = 3 }, WrongContext},
		"runner":     {func(w *Expect) { w.Context.Runner = "r2" }, WrongContext},
		"thread":     {func(w *Expect) { w.Context.Thread = Nonce{} }, WrongContext},
		"early":      {func(w *Expect) { w.Now = now.Add(-2 * time.Second) }, TooEarly},
		"expired":    {func(w *Expect) { w.Now = now.Add(time.Hour + time.Second) }, Expired},
		"far future": {func(w *Expect) { w.Now = now.AddDate(200, 0, 0) }, Expired},
	} {
		e := sample()
		want := expected(e)
		c.edit(&want)
		if _, err := k.Open(seal(t, k, e), want); CauseOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	e := sample()
	if _, err := ring(t, 2).Open(seal(t, k, e), expected(e)); CauseOf(err) != WrongKey {
		t.Errorf("another key: %v", err)
	}
	want := expected(e)
	want.Context.Attempt, want.Context.Runner, want.AnyDelivery = 0, "", true
	if _, err := k.Open(seal(t, k, e), want); err != nil {
		t.Errorf("any delivery: %v", err)
	}
}

// Parts of two envelopes don't make a third.
func TestSwapped(t *testing.T) {
	k := ring(t, 1)
	a, b := sample(), sample()
	b.Nonce, b.Payload = Nonce{4}, []byte("other  payload")
	ra, rb := seal(t, k, a), seal(t, k, b)
	for cut := 1; cut < len(ra); cut++ {
		mixed := append(bytes.Clone(ra[:cut]), rb[cut:]...)
		if _, err := k.Open(mixed, expected(a)); err == nil && !bytes.Equal(mixed, ra) && !bytes.Equal(mixed, rb) {
			t.Fatalf("a mix at %d opened", cut)
		}
	}
}

func TestRotation(t *testing.T) {
	before, during, after := ring(t, 1), ring(t, 2, 1), ring(t, 2)
	e := sample()
	old := seal(t, before, e)
	if _, err := during.Open(old, expected(e)); err != nil {
		t.Errorf("old message while rotating: %v", err)
	}
	if _, err := after.Open(old, expected(e)); CauseOf(err) != WrongKey {
		t.Errorf("old message after rotating: %v", err)
	}
	if _, err := after.Open(seal(t, during, e), expected(e)); err != nil {
		t.Errorf("new message: %v", err)
	}
}

func TestParseKeyring(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	for name, c := range map[string]struct {
		text string
		keys int
	}{
		"one":        {b64(secret(1)), 1},
		"newline":    {b64(secret(1)) + "\n", 1},
		"crlf":       {b64(secret(1)) + "\r\n", 1},
		"url":        {base64.RawURLEncoding.EncodeToString(secret(200)), 1},
		"two":        {"# new\n" + b64(secret(1)) + "\n\n" + b64(secret(2)), 2},
		"twice":      {b64(secret(1)) + "\n" + b64(secret(1)), 0},
		"short":      {b64(secret(1)[:31]), 0},
		"long":       {b64(append(secret(1), 1)), 0},
		"zeros":      {b64(make([]byte, KeySize)), 0},
		"empty":      {"", 0},
		"not base64": {"correct horse battery staple", 0},
		"hex":        {fmt.Sprintf("%x", secret(1)), 0},
		"too many":   {manyKeys(MaxKeys + 1), 0},
	} {
		k, err := ParseKeyring([]byte(c.text))
		switch {
		case c.keys == 0 && err == nil:
			t.Errorf("%s: accepted", name)
		case c.keys > 0 && (err != nil || len(k.roots) != c.keys):
			t.Errorf("%s: %v", name, err)
		case err != nil && len(c.text) > 8 && strings.Contains(err.Error(), c.text[:8]):
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
	k := ring(t, 1)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(format, k); strings.Contains(s, string(secret(1))) || strings.Contains(s, "2 3 4") {
			t.Errorf("%s shows the key", format)
		}
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for range n {
		s := make([]byte, KeySize)
		_, _ = rand.Read(s)
		b.WriteString(base64.StdEncoding.EncodeToString(s) + "\n")
	}
	return b.String()
}

func TestGuard(t *testing.T) {
	var g Guard
	n, until := Nonce{1}, now.Add(time.Hour)
	for _, c := range []struct {
		attempt uint32
		end     bool
		at      time.Time
		ok      bool
	}{
		{1, false, now, true},
		{1, false, now, false}, // the same delivery again
		{3, false, now, true},  // redelivery, another runner had the second
		{2, false, now, false},
		{4, true, now, true},
		{5, false, now, false}, // it has ended
		{6, false, now.Add(59 * time.Minute), false},
		{1, false, now.Add(2 * time.Hour), true}, // forgotten: no such envelope opens any more
	} {
		err := g.Admit(n, c.attempt, until, c.at)
		if (err == nil) != c.ok || err != nil && CauseOf(err) != Replayed {
			t.Errorf("%+v: %v", c, err)
		}
		if c.end {
			g.End(n)
		}
	}
	for i := range 1000 {
		if err := g.Admit(Nonce{2, byte(i), byte(i >> 8)}, 1, now.Add(3*time.Hour), now.Add(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	_ = g.Admit(Nonce{3}, 1, now.Add(9*time.Hour), now.Add(8*time.Hour))
	if len(g.seen) != 1 {
		t.Errorf("%d entries are kept after all have expired", len(g.seen))
	}
}

func FuzzOpen(f *testing.F) {
	k := ring(f, 1)
	e := sample()
	raw := seal(f, k, e)
	f.Add(raw)
	f.Add(raw[:len(raw)-1])
	f.Add([]byte(magic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := k.Open(b, expected(e))
		if err == nil && !bytes.Equal(b, raw) {
			t.Errorf("forged: %+v", got)
		}
		if err != nil && CauseOf(err) == "" {
			t.Errorf("an error that isn't a refusal: %v", err)
		}
		h, err := parse(b)
		if err != nil {
			return
		}
		// What parses is written back as the same bytes: there is one spelling.
		h.Payload = make([]byte, len(b)-h.size-macSize-tagSize)
		head, err := appendHeader(nil, h.key, h.Envelope)
		if err != nil || !bytes.Equal(head, b[:h.size]) {
			t.Errorf("another spelling: %v\n%x\n%x", err, head, b[:h.size])
		}
	})
}

func BenchmarkSealOpen(b *testing.B) {
	k := ring(b, 1)
	e := sample()
	e.Payload = make([]byte, 1024)
	for b.Loop() {
		raw, _ := k.Seal(e)
		if _, err := k.Open(raw, expected(e)); err != nil {
			b.Fatal(err)
		}
	}
}
