//go:build scan

package scan

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packages are public ones, fetched with the ordinary clients; dir is where their
// files are then.
var packages = []struct{ name, fetch, dir string }{
	{"shelljs", "npm pack -s shelljs@0.8.5 && tar -xf shelljs-0.8.5.tgz", "package"},
	{"node-gyp", "npm pack -s node-gyp@10.2.0 && tar -xf node-gyp-10.2.0.tgz", "package"},
	{"paramiko", "pip download -q --no-deps --no-binary :all: paramiko==3.4.0 && tar -xf paramiko-3.4.0.tar.gz", "paramiko-3.4.0"},
	{"websocket", "GOFLAGS=-modcacherw GOMODCACHE=$PWD/m go mod download github.com/gorilla/websocket@v1.5.3", "m/github.com/gorilla/websocket@v1.5.3"},
}

// TestPackages compares a scan with the scanners run by hand, each in a sandbox of
// its own, in the same image. Where a scanner can write SARIF itself that is read, so
// that not both sides rest on our parsers.
func TestPackages(t *testing.T) {
	for _, p := range packages {
		t.Run(p.name, func(t *testing.T) {
			dir := t.TempDir()
			if out, err := exec.Command("sh", "-ec", "cd "+dir+" && "+p.fetch).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			dir = filepath.Join(dir, p.dir)
			got := scan(t, dir, 1)
			want := byHand(t, dir)
			if d := cmp.Diff(want, got.lines()); d != "" {
				t.Errorf("findings differ (-by hand +quavon scan):\n%s", d)
			}
			t.Logf("%d findings", len(want))
			logTimes(t, dir, got)
		})
	}
}

// commands are the scanners as a person would run them, heedless of what the code
// says about them.
var commands = []struct {
	tool, files, line string
	read              func(t *testing.T, tool string, out []byte) []string
}{
	{"ast-grep", "", "ast-grep scan --config /opt/rules/sgconfig.yml --no-ignore vcs --format sarif .", fromSARIF},
	{"gitleaks", "", "gitleaks dir --no-banner --redact --ignore-gitleaks-allow --report-format sarif --report-path - .", fromSARIF},
	{"bandit", "*.py", "bandit -q -r -f json --ignore-nosec .", fromBandit},
	{"gosec", "*.go", "gosec -quiet -nosec -fmt sarif ./...", fromSARIF},
	{"ruff", "*.py", "ruff check --isolated --no-cache --ignore-noqa --select S --output-format sarif .", fromSARIF},
	{"eslint", "*.[jt]s", "eslint --config /opt/npm/eslint.config.mjs --format json .", fromESLint},
}

func byHand(t *testing.T, dir string) (lines []string) {
	t.Helper()
	for _, c := range commands {
		if c.files != "" {
			out, err := exec.Command("find", dir, "-name", c.files).Output()
			if err != nil || len(out) == 0 {
				continue
			}
		}
		out, code := quavon(t, dir, "run", "--image", "scanners", "--", "sh", "-c", c.line)
		if code > 1 {
			t.Errorf("%s: exit code %d", c.tool, code)
		}
		lines = append(lines, c.read(t, c.tool, out)...)
	}
	slices.Sort(lines)
	return lines
}

func line(tool, rule, path string, n int) string {
	path = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(path, "file://"), "/workspace/"), "./")
	return fmt.Sprintf("%s %s %s:%d", tool, rule, path, n)
}

func parse(t *testing.T, tool string, out []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(out, into); err != nil && len(out) > 0 {
		t.Errorf("%s: %v: %.300s", tool, err, out)
	}
}

func fromSARIF(t *testing.T, tool string, out []byte) (lines []string) {
	t.Helper()
	var doc struct {
		Runs []struct {
			Results []struct {
				RuleID    string
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	parse(t, tool, out, &doc)
	for _, run := range doc.Runs {
		for _, r := range run.Results {
			if r.RuleID != "" && r.RuleID != "invalid-syntax" {
				at := r.Locations[0].PhysicalLocation
				lines = append(lines, line(tool, r.RuleID, at.ArtifactLocation.URI, at.Region.StartLine))
			}
		}
	}
	return lines
}

func fromBandit(t *testing.T, tool string, out []byte) (lines []string) {
	t.Helper()
	var doc struct {
		Results []struct {
			ID   string `json:"test_id"`
			File string `json:"filename"`
			Line int    `json:"line_number"`
		}
	}
	parse(t, tool, out, &doc)
	for _, r := range doc.Results {
		lines = append(lines, line(tool, r.ID, r.File, r.Line))
	}
	return lines
}

func fromESLint(t *testing.T, tool string, out []byte) (lines []string) {
	t.Helper()
	var doc []struct {
		FilePath string
		Messages []struct {
			RuleID string
			Line   int
		}
	}
	parse(t, tool, out, &doc)
	for _, f := range doc {
		for _, m := range f.Messages {
			if m.RuleID != "" {
				lines = append(lines, line(tool, m.RuleID, f.FilePath, m.Line))
			}
		}
	}
	return lines
}
