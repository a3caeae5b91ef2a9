package commands

import "testing"

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain, ünï and \t":   "plain, ünï and \t",
		"a\x1b[2Jb\rc":        `a\x1b[2Jb\rc`,
		"a\nquavon: forged":   "a\n  quavon: forged",
		"\xff\u009b\u202e�":   `\xff\u009b\u202e�`,
		"del\x7f nul\x00 end": `del\x7f nul\x00 end`,
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
