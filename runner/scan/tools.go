package scan

import (
	"path"
	"slices"
	"strings"
)

// tool is a scanner: how it is run, and how its output is read.
type tool struct {
	Name string
	// Argv is run in the root of what is scanned, or in each directory with Marker.
	Argv   []string
	Marker string
	// Only lists the endings of files it is for; without such files it isn't run.
	Only []string
	Env  map[string]string
	// OK lists the exit codes of a scanner that has run to its end.
	OK []int
	// URI is where the scanner comes from.
	URI   string
	parse func(out []byte, to *sink) error
}

// Files that the driver makes for the scanners: so that neither a configuration in
// the scanned directory nor comments in its files switch rules off.
const (
	emptyINI      = "/tmp/quavon-scan/bandit.ini"
	emptyIgnore   = "/tmp/quavon-scan/gitleaksignore"
	eslintFormat  = "/tmp/quavon-scan/format.cjs"
	eslintCompact = `module.exports = results => JSON.stringify(results.map(r => ({filePath: r.filePath, messages: r.messages.map(m => ({
  ruleId: m.ruleId, severity: m.severity, fatal: m.fatal, message: m.message,
  line: m.line, column: m.column, endLine: m.endLine, endColumn: m.endColumn }))})));`
)

var files = map[string]string{emptyINI: "[bandit]\n", emptyIgnore: "", eslintFormat: eslintCompact}

var (
	python     = []string{".py", ".pyi", ".pyw"}
	javascript = []string{".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"}
)

// tools are all scanners. They run beside each other: the sandbox's processors are
// shared out among them, so that one that is slow by itself never waits for its turn.
var tools = []tool{
	{
		Name: "gosec", Marker: "go.mod", Only: []string{".go"}, OK: []int{0},
		Argv: []string{"gosec", "-fmt", "json", "-no-fail", "-nosec", "-color=false", "./..."},
		// A missing module is to be found out at once.
		Env: map[string]string{
			"GOPROXY": "off", "GOENV": "off", "GOTELEMETRY": "off", "GOFLAGS": "-buildvcs=false",
		},
		URI:   "https://github.com/securego/gosec",
		parse: parseGosec,
	},
	{
		Name: "eslint", Only: javascript, OK: []int{0, 1},
		Argv: []string{
			"eslint", "--config", "/opt/npm/eslint.config.mjs", "--no-inline-config",
			"--no-error-on-unmatched-pattern", "--no-warn-ignored", "--format", eslintFormat, ".",
		},
		URI: "https://eslint.org", parse: parseESLint,
	},
	{
		Name: "bandit", Only: python, OK: []int{0},
		Argv: []string{
			"bandit", "-q", "-r", "-f", "json", "--exit-zero", "--ignore-nosec", "--ini", emptyINI,
			"-x", ".svn,CVS,.bzr,.hg,.git,__pycache__,.tox,.eggs,*.egg,*/node_modules/*,*/.venv/*,*/venv/*", ".",
		},
		URI: "https://bandit.readthedocs.io", parse: parseBandit,
	},
	{
		Name: "ast-grep", OK: []int{0, 1},
		Argv: []string{
			"ast-grep", "scan", "--config", "/opt/rules/sgconfig.yml", "--json=compact",
			"--no-ignore", "vcs", "--no-ignore", "dot", "--no-ignore", "exclude", "--no-ignore", "global", "--no-ignore", "parent",
			"--globs", "!**/node_modules/**", "--globs", "!**/.venv/**", "--globs", "!**/venv/**", ".",
		},
		URI: "https://ast-grep.github.io", parse: parseASTGrep,
	},
	{
		Name: "gitleaks", OK: []int{0},
		Argv: []string{
			"gitleaks", "dir", "--no-banner", "--no-color", "--redact", "--ignore-gitleaks-allow", "--gitleaks-ignore-path", emptyIgnore,
			"--exit-code", "0", "--report-format", "json", "--report-path", "-", parent,
		},
		Env: map[string]string{"GITLEAKS_CONFIG_TOML": "[extend]\nuseDefault = true\n"},
		URI: "https://gitleaks.io", parse: parseGitleaks,
	},
	{
		Name: "ruff", Only: append([]string{".ipynb"}, python...), OK: []int{0},
		Argv: []string{
			"ruff", "check", "--isolated", "--select", "S", "--output-format", "json", "--exit-zero",
			"--ignore-noqa", "--no-respect-gitignore", "--no-cache", ".",
		},
		URI: "https://docs.astral.sh/ruff", parse: parseRuff,
	},
}

// parent stands for the directory above the scanned one, where that holds nothing
// else.
const parent = ".."

// argv is the command for what is at root.
func (t tool) argv(root string) []string {
	argv := slices.Clone(t.Argv)
	if i := slices.Index(argv, parent); i >= 0 && path.Dir(root) == "/" {
		argv[i] = "."
	}
	return argv
}

// Names lists the scanners.
func Names() []string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names
}

// Known says whether a scanner has this name.
func Known(name string) bool { return slices.Contains(Names(), name) }

// Describe is a scanner's command, as a person would type it.
func Describe(name string) string {
	for _, t := range tools {
		if t.Name == name {
			return strings.Join(t.Argv, " ")
		}
	}
	return ""
}
