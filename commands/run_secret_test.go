package commands

import (
	"encoding/csv"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/fault"
)

func TestSecretFlag(t *testing.T) {
	t.Parallel()
	const value = "s3cret-value"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const bound = "id=TOKEN,url=https://api.example/v1,header=Authorization"
	for _, from := range []string{"env=MINE", "src=" + file} {
		s := specFor(t, everything, map[string]string{"MINE": value}, "-w", "none", "--net", "api.example", "--secret", bound+","+from, "true")
		if len(s.Secrets) != 1 || s.Secrets[0].Name != "TOKEN" || s.Secrets[0].Value.Reveal() != value {
			t.Errorf("%s: %v", from, s.Secrets)
		}
	}
	o := &runOptions{Argv: []string{"true"}, Secrets: []string{bound + ",env=A"}}
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "without --net") {
		t.Errorf("without --net: %v", err)
	}
	for _, bad := range []string{
		value, bound, bound + ",value=" + value, bound + "," + value, bound + ",env=" + value, bound + ",src=/nowhere/" + value,
		bound + ",env=A,src=B", bound + ",env=A,env=" + value, "url=https://api.example,header=A,env=" + value,
		bound + `,"src=` + value, bound + `,src="` + value + `"`, bound + ",env=A\n" + bound + ",env=" + value,
	} {
		refusedSecret(t, secretFlags{texts: []string{bad}}, value)
	}
}

// refusedSecret wants an error that says what to write, and shows no value.
func refusedSecret(t *testing.T, f secretFlags, value string) {
	t.Helper()
	f.lookupEnv = func(string) (string, bool) { return "", false }
	_, err := f.read()
	if err == nil || fault.Hint(err) == "" || fault.Code(err) != "rejected" || strings.Contains(err.Error(), value) {
		t.Errorf("%+v: %v", f.texts, err)
	}
}

// A secret's file is the caller's: not one that a job's link leads to, nor one that the
// job sees.
func TestSecretFile(t *testing.T) {
	t.Parallel()
	const value = "s3cret-value"
	ws, own := t.TempDir(), t.TempDir()
	write := func(path string) {
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, at string) {
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(ws, "seen"))
	write(filepath.Join(own, `a, "b"`))
	link(filepath.Join(own, `a, "b"`), filepath.Join(ws, "planted"))
	link(own, filepath.Join(ws, "dir"))
	link(filepath.Join(ws, "seen"), filepath.Join(own, "to-seen"))
	link(filepath.Join(own, `a, "b"`), filepath.Join(own, "mine"))
	with := func(src string) secretFlags {
		return secretFlags{
			texts: []string{"id=A,url=https://api.example,header=B," + csvField("src="+src)}, workspace: ws, shown: []string{ws},
		}
	}
	for _, bad := range []string{ws + "/seen", ws + "/planted", ws + `/dir/a, "b"`, own + "/to-seen", ws + "/../" + filepath.Base(ws) + "/seen"} {
		refusedSecret(t, with(bad), value)
	}
	for _, good := range []string{own + `/a, "b"`, own + "/mine"} {
		if list, err := with(good).read(); err != nil || list[0].Value.Reveal() != value {
			t.Errorf("%s: %v, %v", good, list, err)
		}
	}
}

// csvField quotes a part.
func csvField(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// FuzzSecretFlag: whatever is written, an error doesn't show it, and what is read is
// what encoding/csv would write again.
func FuzzSecretFlag(f *testing.F) {
	f.Add("id=A,url=https://api.example,header=B,env=C")
	f.Add(`id=A,"url=https://api.example/a,b",header=B,"src=/a ""b"""`)
	f.Add("id=A\nid=B")
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := secretParts(text)
		if err != nil {
			if len(text) > 12 && strings.Contains(err.Error()+fault.Hint(err), text) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		var b strings.Builder
		w := csv.NewWriter(&b)
		row := []string{}
		for k, v := range parts {
			row = append(row, k+"="+v)
		}
		if err := w.Write(row); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		if again, err := secretParts(b.String()); err != nil || !maps.Equal(parts, again) {
			t.Errorf("%q: %v, again %v, %v", text, parts, again, err)
		}
	})
}
