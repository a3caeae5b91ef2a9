package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
)

const stub = "package filter\n\n" + disabled + "\nfunc registerPrograms() {\n" + emptyTable + "\tprecompiledPrograms = programs\n}\n"

func TestFillKeepsOnlyWhatASandboxCanAskFor(t *testing.T) {
	got, err := fill(stub, []precompiledseccomp.Program{
		{Name: "HostNetwork=false NVProxy=false", Bytecode32: []uint32{0xfeedface}},
		{Name: "HostNetwork=true NVProxy=false", Bytecode32: []uint32{0xdeadbeef}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "table.go", got, parser.AllErrors); err != nil {
		t.Errorf("the table isn't Go: %v", err)
	}
	for text, want := range map[string]bool{"0xfeedface": true, "0xdeadbeef": false, enabled: true, disabled: false} {
		if strings.Contains(got, text) != want {
			t.Errorf("contains %q: want %v in\n%s", text, want, got)
		}
	}
}

func TestFillRefuses(t *testing.T) {
	wanted := []precompiledseccomp.Program{{Name: "HostNetwork=false"}}
	for name, c := range map[string]struct {
		stub     string
		programs []precompiledseccomp.Program
	}{
		"a stub it doesn't know": {"package filter\n", wanted},
		"a table with no use":    {stub, []precompiledseccomp.Program{{Name: "HostNetwork=true"}}},
	} {
		if got, err := fill(c.stub, c.programs); err == nil {
			t.Errorf("%s: accepted as\n%s", name, got)
		}
	}
}
