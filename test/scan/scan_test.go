//go:build scan

package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var (
	binDir   = flag.String("bin", "", "directory of quavon, quavon-guest and runsc")
	stateDir = flag.String("state", "", "state directory whose store has the image scanners")
	update   = flag.Bool("update", false, "write the expected findings anew")
)

// quavon runs it and returns stdout and its exit code.
func quavon(t *testing.T, dir string, args ...string) (out []byte, code int) {
	t.Helper()
	var errOut bytes.Buffer
	cmd := exec.Command(filepath.Join(*binDir, "quavon"), args...)
	cmd.Dir, cmd.Stderr = dir, &errOut
	cmd.Env = append(os.Environ(), "QUAVON_STATE_DIR="+*stateDir)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if code > 1 {
		t.Logf("quavon %.300q: exit code %d: %s", args, code, &errOut)
	}
	return out, code
}

// report is what the tests read of a scan's JSON form.
type report struct {
	Tools []struct {
		Name, Status string
		Errors       []string
		Wall         time.Duration `json:"wall_ns"`
		CPU          time.Duration `json:"cpu_ns"`
	}
	Findings []struct {
		Tool, Rule, Path, Fingerprint string
		Line                          int
	}
	Ignored, Unchanged int
	Took               time.Duration `json:"took_ns"`
}

func scan(t *testing.T, dir string, want int, args ...string) report {
	t.Helper()
	sarif := filepath.Join(t.TempDir(), "sarif")
	out, code := quavon(t, dir, append([]string{"scan", "-o", "json", "--sarif", sarif}, args...)...)
	if code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	validSARIF(t, sarif)
	return r
}

// validSARIF checks a document against the schema of OASIS.
func validSARIF(t *testing.T, path string) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../../runner/scan/testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Error(err)
	}
}

func (r report) lines() []string {
	var lines []string
	for _, f := range r.Findings {
		lines = append(lines, fmt.Sprintf("%s %s %s:%d", f.Tool, f.Rule, f.Path, f.Line))
	}
	slices.Sort(lines)
	return lines
}

// corpus is a copy of our flaws, with a secret that is put together here so that no
// scanner stumbles over this file.
func corpus(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/corpus")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "secrets/leak.txt", "token = \"ghp_"+"k3Xq9ZtB7vLm2RwN5pYc"+"8HsJ4dFgA6eQuV1x\" # gitleaks:allow\n")
	return dir
}

func write(t *testing.T, dir, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCorpus looks for each flaw of ours.
func TestCorpus(t *testing.T) {
	got := scan(t, corpus(t), 1)
	for _, tool := range got.Tools {
		if tool.Status != "ok" {
			t.Errorf("%s: %s %q", tool.Name, tool.Status, tool.Errors)
		}
	}
	const golden = "testdata/corpus.txt"
	text := strings.Join(got.lines(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), text); d != "" {
		t.Errorf("findings differ (-want +got):\n%s", d)
	}
}

// logTimes compares the scan's time with what it can't be below: that of the slowest
// scanner when it runs alone, and the processors' time for all.
func logTimes(t *testing.T, dir string, r report) {
	t.Helper()
	slowest, all := 0, time.Duration(0)
	var others []string
	for i, tool := range r.Tools {
		t.Logf("%-9s %-8s %6.2fs, CPU %6.2fs", tool.Name, tool.Status, tool.Wall.Seconds(), tool.CPU.Seconds())
		if all += tool.CPU; tool.Wall > r.Tools[slowest].Wall {
			slowest = i
		}
	}
	for i, tool := range r.Tools {
		if i != slowest {
			others = append(others, tool.Name)
		}
	}
	out, _ := quavon(t, dir, "scan", "-o", "json", "--disable", strings.Join(others, ","))
	var alone report
	if err := json.Unmarshal(out, &alone); err != nil {
		t.Fatal(err)
	}
	bound := max(alone.Tools[slowest].Wall, all/time.Duration(cpus()))
	ratio := r.Took.Seconds() / bound.Seconds()
	t.Logf("took %.2fs; %s alone %.2fs, CPU of all / %d %.2fs: %.2f times", r.Took.Seconds(), r.Tools[slowest].Name,
		alone.Tools[slowest].Wall.Seconds(), cpus(), all.Seconds()/float64(cpus()), ratio)
	if ratio > 1.3 && bound > 5*time.Second { // the sandbox's own start is no part of short ones
		t.Errorf("the scan takes %.2f times what its scanners need, more than 1.3", ratio)
	}
}

func cpus() int {
	out, err := exec.Command("nproc").Output()
	n := 1
	if err == nil {
		fmt.Sscan(string(out), &n)
	}
	return n
}

// repository makes one of dir, whose branch work has left main.
func repository(t *testing.T, dir string) (commit func(branch string)) {
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@t.example"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %s", args, out)
		}
	}
	git("init", "-q", "-b", "main")
	return func(branch string) {
		if branch != "main" {
			git("checkout", "-qb", branch)
		}
		git("add", "-f", ".")
		git("commit", "-qm", branch)
	}
}

// TestAChangeCanNotMove: nor can what scanners take for lines, and git doesn't, make a
// new finding one on an old line.
func TestAChangeCanNotMove(t *testing.T) {
	dir := t.TempDir()
	commit := repository(t, dir)
	old := map[string]string{
		"a.js": strings.Repeat("f();\n", 20), "a.py": strings.Repeat("x = 1\n", 20), "b.py": strings.Repeat("x = 1\n", 20),
		"a.go":   "package main\n\nimport \"crypto/md5\"\n\nfunc main() {}\n" + strings.Repeat("\n", 20),
		"go.mod": "module m.example\n\ngo 1.26\n",
		"n.ipynb": `{"cells":[{"cell_type":"code","execution_count":null,"metadata":{},"outputs":[],"source":["x = 1\n"]}],` + "\n" +
			`"metadata":{"language_info":{"name":"python"}},"nbformat":4,"nbformat_minor":5}` + "\n",
	}
	for path, text := range old {
		write(t, dir, path, text)
	}
	commit("main")
	write(t, dir, "a.js", "/*\r\r\u2028\r\r*/ eval(process.argv[2]);\n"+old["a.js"])
	write(t, dir, "a.py", "#\r#\r#\r#\rimport sys; eval(sys.argv[1])\n"+old["a.py"])
	write(t, dir, "b.py", "# coding: utf-7\n#+AAoACgAKAAoACg-import sys; eval(sys.argv[1])\n"+old["b.py"])
	write(t, dir, "a.go", strings.Replace(old["a.go"], "func main() {}", "//line a.go:20\nfunc main() { md5.New() }", 1))
	write(t, dir, "n.ipynb", strings.Replace(old["n.ipynb"], `"x = 1\n"`, `"eval(input())\n"`, 1))
	commit("work")
	got := scan(t, dir, 1, "--changed", "main").lines()
	for _, want := range []string{
		"eslint security/detect-eval-with-expression a.js:1", "bandit B307 a.py:1", "ruff S307 a.py:1", "gosec G401 a.go:", "ruff S307 n.ipynb:1", "bandit B307 b.py:",
	} {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("%s is missing", want)
		}
	}
	t.Log(strings.Join(got, "\n"))
}

// TestAChangeCanNotHide: neither comments nor files of the change switch rules off,
// and the configuration is the base branch's.
func TestAChangeCanNotHide(t *testing.T) {
	dir := corpus(t)
	commit := repository(t, dir)
	write(t, dir, ".quavon/config.yml", "tools: {sast: {disable: [gosec], ignorePaths: ['js/**']}}\n")
	commit("main")
	for path, text := range map[string]string{
		".quavon/config.yml": "tools: {sast: {disable: [gitleaks, bandit, ruff, ast-grep, eslint], ignorePaths: ['**']}}\n",
		".gitleaksignore":    "secrets/more.txt:github-pat:1\n",
		".gitleaks.toml":     "title = 'none'\n",
		".bandit":            "[bandit]\nskips: B301,B307\n",
		".gitignore":         "*.py\n*.txt\n",
		".ignore":            "*\n",
		"ruff.toml":          "exclude = ['*']\n",
		"pyproject.toml":     "[tool.ruff]\nexclude = ['*']\n[tool.bandit]\nskips = ['B307']\n",
		"eslint.config.js":   "export default [];\n",
		"sgconfig.yml":       "ruleDirs: []\n",
		"py/new.py":          "import sys\n\neval(sys.argv[1])  # noqa # nosec\n",
		"js/new.js":          "eval(process.argv[2]);\n",
		"secrets/more.txt":   "token = \"ghp_" + "k3Xq9ZtB7vLm2RwN5pYc" + "8HsJ4dFgA6eQuV1z\" # gitleaks:allow\n",
	} {
		write(t, dir, path, text)
	}
	commit("work")
	want := []string{"bandit B307 py/new.py:3", "gitleaks github-pat secrets/more.txt:1", "ruff S307 py/new.py:3"}
	got := scan(t, dir, 1, "--changed", "main")
	if d := cmp.Diff(want, got.lines()); d != "" {
		t.Errorf("findings differ (-want +got):\n%s", d)
	}
	if got.Ignored == 0 || got.Unchanged == 0 {
		t.Errorf("%d ignored, %d unchanged", got.Ignored, got.Unchanged)
	}
	prints := map[string]string{}
	for _, f := range got.Findings {
		prints[f.Tool] = f.Fingerprint
	}
	write(t, dir, "py/new.py", "# moved\nimport sys\n\n\nif True:\n    eval(sys.argv[1])\n")
	for _, f := range scan(t, dir, 1, "--changed", "main").Findings {
		if f.Path == "py/new.py" && f.Tool == "ruff" && f.Line != 6 {
			t.Errorf("%+v", f)
		}
	}
}

// TestToolErrors: what can't be loaded is said, and the rest counts.
func TestToolErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.py", "eval(input())\n")
	write(t, dir, "later/go.mod", "module later.example\n\ngo 1.99\n")
	write(t, dir, "later/main.go", "package main\n\nfunc main() {}\n")
	got := scan(t, dir, 1)
	for _, tool := range got.Tools {
		want := map[string]string{"gosec": "error", "eslint": "skipped"}[tool.Name]
		if want == "" {
			want = "ok"
		}
		if tool.Status != want {
			t.Errorf("%s: %s %q", tool.Name, tool.Status, tool.Errors)
		}
		if tool.Name == "gosec" && !strings.Contains(strings.Join(tool.Errors, "\n"), "1.99") {
			t.Errorf("gosec doesn't say why: %q", tool.Errors)
		}
	}
	if len(got.Findings) == 0 {
		t.Error("the rest doesn't count")
	}
	if err := os.Remove(filepath.Join(dir, "a.py")); err != nil {
		t.Fatal(err)
	}
	scan(t, dir, 3)
	scan(t, dir, 0, "--disable", "gosec")
}
