package host

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/quavon/quavon/doctor"
)

// What follows does what a fix says in words, with nothing known but what the report says
// and what is in the file.

var placeForm = regexp.MustCompile(`line (\d+)`)

// lineOf is the number of the line that a finding names.
func (h *house) lineOf(text string) int {
	h.Helper()
	m := placeForm.FindStringSubmatch(text)
	if m == nil {
		h.Fatalf("%q names no line", text)
	}
	n, err := strconv.Atoi(m[1])
	h.must(err)
	return n
}

func (h *house) editLine(path string, number int, change func(string) string) {
	h.Helper()
	h.edit(path, func(s string) string {
		lines := strings.SplitAfter(s, "\n")
		lines[number-1] = change(lines[number-1])
		return strings.Join(lines, "")
	})
}

func dropLine(path string) func(*house, doctor.Finding) {
	return func(h *house, f doctor.Finding) {
		h.editLine(path, h.lineOf(f.Message), func(string) string { return "" })
	}
}

// dropComma takes the comma away that stands before the place that is named.
func dropComma(h *house, f doctor.Finding) {
	n := h.lineOf(f.Message)
	h.editLine(daemonPath, n-1, func(s string) string { return strings.Replace(s, ",\n", "\n", 1) })
}

// dropKeys takes out of daemon.json the keys, or the runtimes, that are named.
func dropKeys(h *house, f doctor.Finding) {
	h.edit(daemonPath, func(s string) string {
		var keys map[string]any
		h.must(json.Unmarshal([]byte(s), &keys))
		for _, d := range f.Details {
			for _, word := range regexp.MustCompile(`[a-z][a-z0-9-]+`).FindAllString(d, -1) {
				delete(keys, word)
				if runtimes, ok := keys["runtimes"].(map[string]any); ok && strings.HasPrefix(d, "runtime ") {
					delete(runtimes, word)
				}
			}
		}
		out, err := json.Marshal(keys)
		h.must(err)
		return string(out)
	})
}

// dropArguments takes the arguments of runtimes out that are named.
func dropArguments(h *house, f doctor.Finding) {
	h.edit(daemonPath, func(s string) string {
		for _, m := range regexp.MustCompile(`daemon\.json: (--\S+) weakens`).FindAllStringSubmatch(strings.Join(f.Details, "\n"), -1) {
			s = strings.Replace(s, fmt.Sprintf(", %q", m[1]), "", 1)
		}
		return s
	})
}

// setNamed sets a variable as the fix writes it.
func setNamed(name string) func(*house, doctor.Finding) {
	return func(h *house, f doctor.Finding) {
		m := regexp.MustCompile(name + `=(\S+)`).FindStringSubmatch(f.Fix)
		if m == nil {
			h.Fatalf("%q sets no %s", f.Fix, name)
		}
		h.Setenv(name, m[1])
	}
}

// setRunsc sets the variable that the fix names.
func setRunsc(h *house, f doctor.Finding) {
	m := regexp.MustCompile(`set (QUAVON_\w+)`).FindStringSubmatch(f.Fix)
	if m == nil {
		h.Fatalf("%q sets nothing", f.Fix)
	}
	h.Setenv(m[1], os.Getenv(envBinary))
}

// getArchive makes an archive of a release where the command is typed.
func getArchive(h *house, _ doctor.Finding) {
	dir := h.TempDir()
	for _, name := range []string{"runsc", "gvisor-bin/sentry", "gvisor-bin/gofer"} {
		h.write(filepath.Join(dir, name), says(newRelease), 0o755)
	}
	h.run("tar", "-cf", "/srv/work/gvisor.tar.bz2", "-C", dir, ".")
}

// quoteLine writes the line that is named as NAME='value'.
func quoteLine(h *house, f doctor.Finding) {
	h.editLine(envPath, h.lineOf(f.Message), quoted)
}

// quoteNamed does so for each line that a detail names, if the fix says so.
func quoteNamed(h *house, f doctor.Finding) {
	for _, d := range f.Details {
		m := regexp.MustCompile(`^line \d+, (\w+):`).FindStringSubmatch(d)
		if m == nil || !strings.Contains(f.Fix, "write "+m[1]+"='value'") {
			h.Fatalf("%q isn't what %q is about", f.Fix, d)
		}
		h.editLine(envPath, h.lineOf(d), quoted)
	}
}

// quoted is an assignment with a plain name, and quotes around what was meant.
func quoted(line string) string {
	name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
	return strings.ReplaceAll(name, " ", "_") + "='" + strings.NewReplacer(`"`, "", "'", "").Replace(value) + "'\n"
}

// writeAssignment writes the line of .env that the fix shows.
func writeAssignment(h *house, f doctor.Finding) {
	commands, _ := typed(f.Fix)
	h.write(envPath, commands[0]+"\n", 0o600)
}

// moveSecrets puts each secret that the fix names into a file.
func moveSecrets(h *house, f doctor.Finding) {
	for _, m := range regexp.MustCompile(`take (\w+) out, .*: (\w+_FILE)=`).FindAllStringSubmatch(f.Fix, -1) {
		h.edit(envPath, func(s string) string {
			_, value, _ := strings.Cut(strings.TrimSpace(s), m[1]+"=")
			h.write("/opt/quavon/one-secret", value, 0o600)
			return m[2] + "=/opt/quavon/one-secret\n"
		})
	}
}
