package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goTest runs the real `go test -json` over a module of one file and summarizes it.
func goTest(t *testing.T, src string, args ...string) (*summary, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n", "m_test.go": "package m\n" + src} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, _ := cmd.Output() // it fails when a test does
	var text strings.Builder
	s, err := summarize(strings.NewReader(string(out)), &text)
	if err != nil {
		t.Fatal(err)
	}
	return s, text.String()
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	const imports = "import (\"testing\"; \"time\")\nvar _ = time.Second\n"
	for name, c := range map[string]struct {
		src           string
		args          []string
		counts        [3]int // passed, failed, skipped
		ok, okNoSkips bool
		want          []string
	}{
		"pass": {
			src:    imports + `func TestA(t *testing.T) { t.Run("sub", func(t *testing.T) {}) }`,
			counts: [3]int{2, 0, 0}, ok: true, okNoSkips: true,
			want: []string{"ok  \tm\t", "\n2 passed, 0 failed, 0 skipped\n"},
		},
		"skip": {
			src:    imports + `func TestA(t *testing.T) {}; func TestB(t *testing.T) { t.Skip("no kvm") }`,
			counts: [3]int{1, 0, 1}, ok: true,
			want: []string{"skipped: m TestB", "no kvm"},
		},
		"fail": {
			src:    imports + `func TestA(t *testing.T) {}; func TestB(t *testing.T) { t.Error("why") }`,
			counts: [3]int{1, 1, 0},
			want:   []string{"why", "FAIL\tm\t"},
		},
		"panic": {
			src:    imports + `func TestA(t *testing.T) { go func() { panic("boom") }(); time.Sleep(time.Minute) }`,
			counts: [3]int{0, 1, 0},
			want:   []string{"boom", "FAIL\tm"},
		},
		"timeout": {
			src:    imports + `func TestA(t *testing.T) {}; func TestB(t *testing.T) { time.Sleep(time.Minute) }`,
			args:   []string{"-timeout=3s"}, // in which TestA has passed on a busy machine, too
			counts: [3]int{1, 1, 0},
			want:   []string{"test timed out"},
		},
		"doesn't build": {src: "var _ = undefined", counts: [3]int{0, 1, 0}, want: []string{"undefined: undefined"}},
		"no test":       {src: "", counts: [3]int{0, 0, 0}, want: []string{"0 passed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, text := goTest(t, c.src, c.args...)
			if got := [3]int{s.Passed, s.Failed, s.Skipped}; got != c.counts {
				t.Errorf("passed, failed, skipped: %v, want %v", got, c.counts)
			}
			if s.ok(false) != c.ok || s.ok(true) != c.okNoSkips {
				t.Errorf("ok %v, without skips %v; want %v, %v", s.ok(false), s.ok(true), c.ok, c.okNoSkips)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q isn't in\n%s", want, text)
				}
			}
		})
	}
}
