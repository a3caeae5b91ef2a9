package dotenv

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/sirupsen/logrus"
)

func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard) // compose-go warns of variables that aren't set
	os.Exit(m.Run())
}

// TestSet covers cases EN-01, EN-03 and the spellings that compose reads.
func TestSet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, key, value, want string }{
		{"nothing there", "", "K", "v", "K=v\n"},
		{"no final newline", "K=secret", "NEW", "1", "K=secret\nNEW=1\n"},
		{"no final newline, CRLF", "A=1\r\nK=secret", "NEW", "1", "A=1\r\nK=secret\r\nNEW=1\r\n"},
		{"CRLF", "A=b\r\nC=d\r\n", "A", "x", "A=x\r\nC=d\r\n"},
		{"byte order mark", bom + "A=b\n", "A", "c", bom + "A=c\n"},
		{"export", "export A=b\n", "A", "c", "export A=c\n"},
		{"spaces", "  A = b \n", "A", "c", "  A = c \n"},
		{"colon", "A: b\n", "A", "c", "A: c\n"},
		{"the last one counts", "A=1\nB=x\nA=2\nC=y", "A", "3", "A=1\nB=x\nA=3\nC=y"},
		{"comment stays", "A=b # why\n", "A", "c", "A=c # why\n"},
		{"comment as value stays", "A= # why\n", "A", "c", "A= c # why\n"},
		{"commented out", "#A=b\n", "A", "c", "#A=b\nA=c\n"},
		{"single quotes", "A='b' # why\n", "A", "c d", "A='c d' # why\n"},
		{"double quotes", "A=\"b\"\n", "A", "c d", "A=\"c d\"\n"},
		{"double quotes don't protect", "A=\"b\"\n", "A", "p$ss", "A='p$ss'\n"},
		{"quotes and all", "", "A", `a$b'c"d\ #e`, `A='a$b\'c"d\ #e'` + "\n"},
		{"several lines", "A=\"l1\nl2\"\nB=2\n", "A", "x", "A=\"x\"\nB=2\n"},
		{"not within another's lines", "B=\"l1\nA=no\nl3\"\n", "A", "x", "B=\"l1\nA=no\nl3\"\nA=x\n"},
		{"behind a quoted value", "A=\"x\"y\nB=2\n", "A", "z", "A=\"z\"y\nB=2\n"},
		{"empty", "A=\nB=2\n", "A", "x", "A=x\nB=2\n"},
		{"same again", "A='b' # why\n", "A", "b", "A='b' # why\n"},
		{"name alone", "A\nB=2\n", "A", "x", "A\nB=2\nA=x\n"},
		{"used by others", "A=1\nB=$A\n", "A", "2", "A=2\nB=$A\n"},
		{"prefix of another", "AB=1\n", "A", "2", "AB=1\nA=2\n"},
	} {
		f, err := Parse([]byte(c.in))
		if err == nil {
			err = f.Set(c.key, c.value)
		}
		if err != nil || string(f.Bytes()) != c.want {
			t.Errorf("%s: %v\n got %q\nwant %q", c.name, err, f.Bytes(), c.want)
			continue
		}
		if got := composeReads(t, f.Bytes())[c.key]; got != c.value {
			t.Errorf("%s: compose reads %q", c.name, got)
		}
	}
}

func composeReads(t *testing.T, data []byte) map[string]string {
	t.Helper()
	values, err := dotenv.Parse(strings.NewReader(string(data)))
	if err != nil {
		t.Fatalf("compose refuses %q: %v", data, err)
	}
	return values
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, key, value, want string }{
		{"line break", "", "A", "a\nb", "line break"},
		{"ends in a backslash", "", "A", `C:\dir\`, "backslash"},
		{"backslash and quote", "", "A", `a\'b`, "backslash"},
		{"name", "", "A B", "x", "no name"},
		{"bad template", "A=1\nB=${\n", "A", "x", "line 2"},
		{"space in a name", "A=1\n\nA B=c\n", "A", "x", "line 3"},
		{"open quote", "A=1\nB='secretvalue\nC=2\n", "A", "x", "line 2"},
		{"carriage returns only", "A=b\rB=c\r", "A", "x", "line 1"},
	} {
		f, err := Parse([]byte(c.in))
		if err == nil {
			err = f.Set(c.key, c.value)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secretvalue") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestUnset(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want, err string }{
		{"middle", "A=1\nK=v # ours\nB=2\n", "A=1\nB=2\n", ""},
		{"all of them", "K=1\nA=1\nK=2", "A=1\n", ""},
		{"several lines", "A=1\nK='a\nb'\nB=2\n", "A=1\nB=2\n", ""},
		{"not there", "A=1", "A=1", ""},
		{"shared line", "A='x' K=v\n", "A='x' K=v\n", "shares its line"},
	} {
		f, err := Parse([]byte(c.in))
		if err != nil {
			t.Fatal(err)
		}
		err = f.Unset("K")
		if string(f.Bytes()) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %q", c.name, err, f.Bytes())
		}
	}
}

// TestProfiles covers case EN-06.
func TestProfiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, added, removed string }{
		{"", "sandbox", ""},
		{"a,", "a,sandbox", "a,"},
		{"a, b", "a,b,sandbox", "a, b"},
		{"a b", "a b,sandbox", "a b"},
		{"sandbox", "sandbox", ""},
		{"a, sandbox ,b", "a, sandbox ,b", "a,b"},
		{"*", "*", "*"},
		{"sandboxes", "sandboxes,sandbox", "sandboxes"},
	} {
		if got := AddProfile(c.in, "sandbox"); got != c.added {
			t.Errorf("add to %q: %q", c.in, got)
		}
		if got := RemoveProfile(c.in, "sandbox"); got != c.removed {
			t.Errorf("remove from %q: %q", c.in, got)
		}
	}
}

func TestRevert(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, before, after, now, want string }{
		{"added", "A=1\n", "A=1\nK=v\n", "A=2\nK=v\nB=3\n", "A=2\nB=3\n"},
		{"changed", "K=1\n", "K=2\n", "K=2 # c\nB=3\n", "K=1 # c\nB=3\n"},
		{"changed since", "K=1\n", "K=2\n", "K=3\n", "K=3\n"},
		{"removed since", "A=1\n", "A=1\nK=2\n", "A=1\n", "A=1\n"},
		{"profiles", "COMPOSE_PROFILES=a\n", "COMPOSE_PROFILES=a,sandbox\n", "COMPOSE_PROFILES=a,sandbox,b\n", "COMPOSE_PROFILES=a,b\n"},
		{"file of ours, more in it", "", "K=v\n", "K=v\nB=1\n", "B=1\n"},
		{"file of ours", "", "K=v\n", "K=v\n", ""},
	} {
		var before []byte
		if c.before != "" {
			before = []byte(c.before)
		}
		next, ok, err := Revert(before, []byte(c.after), []byte(c.now))
		if err != nil || !ok || string(next) != c.want {
			t.Errorf("%s: %v %v %q", c.name, ok, err, next)
		}
	}
}

// TestRandomFiles: whatever file compose reads and whatever value is set, compose
// reads the value, and all else as before.
func TestRandomFiles(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 1))
	set := 0
	for range 20000 {
		text, key, value := randomFile(r), fmt.Sprintf("K%d", r.IntN(4)), randomValue(r)
		if checkSet(t, text, key, value) {
			set++
		}
	}
	if set < 5000 {
		t.Fatalf("only %d of 20000 were settings that can be written", set)
	}
}

// checkSet says whether the value could be set.
func checkSet(t *testing.T, text, key, value string) bool {
	t.Helper()
	f, err := Parse([]byte(text))
	if err != nil {
		return false
	}
	before := composeReads(t, []byte(text))
	statements := scan(f.text)
	for name := range before {
		found := false
		for _, s := range statements {
			found = found || s.key == name
		}
		if !found {
			t.Fatalf("compose reads %q, we don't\nin %q", name, text)
		}
	}
	if f.Set(key, value) != nil {
		if string(f.Bytes()) != text {
			t.Fatalf("a refused change was made\nin %q", text)
		}
		return false
	}
	after := composeReads(t, f.Bytes())
	if after[key] != value {
		t.Fatalf("%s is %q, not %q\nin  %q\nout %q", key, after[key], value, text, f.Bytes())
	}
	for name, was := range before {
		if name != key && name != "" && after[name] != was && !strings.Contains(text, "$") {
			t.Fatalf("%s was %q and is %q\nin  %q\nout %q", name, was, after[name], text, f.Bytes())
		}
	}
	// The lines of others are there, byte for byte.
	rest := string(f.Bytes())
	for _, s := range statements {
		if s.key == key || s.key == "" {
			continue
		}
		raw := strings.TrimPrefix(text, bom)[s.start:s.end]
		i := strings.Index(rest, raw)
		if i < 0 {
			t.Fatalf("%q is gone\nin  %q\nout %q", raw, text, f.Bytes())
		}
		rest = rest[i+len(raw):]
	}
	return true
}

var pieces = []string{
	"A", "K0", "K1", "K2", "=", "=", "=", ":", "\n", "\n", "\n", "\r\n", " ", "\t", "'", "\"", "\\", "$", "${K1}", "$K2", "#", " # c",
	"export ", "v", "x y", "é", "-", ".", "\ufeff",
}

func randomFile(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(8) {
		switch r.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "K%d=%s\n", r.IntN(4), randomValue(r))
		case 1:
			fmt.Fprintf(&b, "export K%d='v%d'%s\r\n", r.IntN(4), r.IntN(9), []string{"", " # c"}[r.IntN(2)])
		default:
			for range r.IntN(6) {
				b.WriteString(pieces[r.IntN(len(pieces))])
			}
		}
	}
	return b.String()
}

func randomValue(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(6) {
		b.WriteString([]string{"a", "$", "'", "\"", "\\", " ", "#", "=", "\n", "é", "{", "}", "$b", "/", "-"}[r.IntN(15)])
	}
	return b.String()
}

func FuzzSet(f *testing.F) {
	f.Add("A='x' # c\nexport K=\"l1\nl2\"\n", "K", "v w")
	f.Add("K", "K", "")
	f.Add("A=1\r\nK= # c", "K", "$'")
	f.Fuzz(func(t *testing.T, text, key, value string) { checkSet(t, text, key, value) })
}
