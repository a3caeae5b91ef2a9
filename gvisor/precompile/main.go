// Command precompile writes the seccomp tables that upstream's release build of
// runsc carries and its Go module leaves out, as an overlay for `go build`.
//
// A runsc without them compiles its own seccomp programs at every start, which
// costs tens of milliseconds in the sandbox and again in its file server. The
// programs come from upstream's own generators; this command only keeps those a
// Quavon sandbox can ask for and gives them the form upstream's build would.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	sentry "gvisor.dev/gvisor/runsc/boot/filter/config"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter/config"
)

// table is one file of the module that upstream's build replaces.
type table struct {
	path     string // below the module's directory
	generate func() ([]precompiledseccomp.Program, error)
}

var tables = []table{
	{"runsc/boot/filter/filter_precompiled.go", sentry.PrecompiledPrograms},
	{"runsc/fsgofer/filter/filter_precompiled.go", gofer.PrecompiledPrograms},
}

func main() {
	module := flag.String("module", "", "directory of the gvisor.dev/gvisor module")
	out := flag.String("out", "", "directory to write the tables and overlay.json to")
	flag.Parse()
	if err := run(*module, *out); err != nil {
		fmt.Fprintln(os.Stderr, "precompile:", err)
		os.Exit(1)
	}
}

// run writes every table and, last, the overlay.json that names them, so that
// an overlay.json is never there without its tables.
func run(module, out string) error {
	if module == "" || out == "" {
		return errors.New("-module and -out are needed")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	replace := make(map[string]string, len(tables))
	for _, t := range tables {
		stub := filepath.Join(module, t.path)
		file := filepath.Join(out, strings.ReplaceAll(t.path, "/", "_"))
		if err := t.write(stub, file); err != nil {
			return fmt.Errorf("%s: %w", t.path, err)
		}
		replace[stub] = file
	}
	return writeOverlay(filepath.Join(out, "overlay.json"), replace)
}

// write fills the stub's table and writes the result to file.
func (t table) write(stub, file string) error {
	src, err := os.ReadFile(stub)
	if err != nil {
		return err
	}
	programs, err := t.generate()
	if err != nil {
		return err
	}
	filled, err := fill(string(src), programs)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(filled), 0o644)
}

// What the stub says where upstream's build says otherwise.
const (
	emptyTable = "\tprograms := make(map[string]precompiledseccomp.Program)\n"
	disabled   = "const PrecompilationDisabledAtBuildTime = true\n"
	enabled    = "const PrecompilationDisabledAtBuildTime = false\n"
)

// fill returns the stub with the wanted programs registered. It fails when the
// stub isn't the one it knows, rather than build a runsc without tables.
func fill(stub string, programs []precompiledseccomp.Program) (string, error) {
	if strings.Count(stub, emptyTable) != 1 || strings.Count(stub, disabled) != 1 {
		return "", errors.New("the stub has changed upstream; compare it with emptyTable and disabled")
	}
	var register strings.Builder
	register.WriteString(emptyTable)
	kept := 0
	for _, p := range programs {
		if wanted(p.Name) {
			register.WriteString(p.Registration("\t", "precompiledseccomp", "programs"))
			kept++
		}
	}
	if kept == 0 {
		return "", fmt.Errorf("none of %d programs is one we use", len(programs))
	}
	return strings.NewReplacer(emptyTable, register.String(), disabled, enabled).Replace(stub), nil
}

// wanted tells whether a program's options are ones a Quavon sandbox may have:
// no host network and no device passed through. Every program kept costs a
// copy when runsc registers the table, and upstream has hundreds.
func wanted(key string) bool {
	for _, never := range []string{"HostNetwork=true", "NVProxy=true", "TPUProxy=true", "RDMAProxy=true"} {
		if strings.Contains(key, never) {
			return false
		}
	}
	return true
}

// writeOverlay writes the file that `go build -overlay` takes, in one step, so
// that an interrupted run leaves none.
func writeOverlay(path string, replace map[string]string) error {
	data, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
