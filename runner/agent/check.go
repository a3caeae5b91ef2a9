package agent

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"

	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// checkCommand refuses what the agent would refuse, before it is sent.
func checkCommand(c Command) error {
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return fault.New("the command is empty", "give the program to run")
	case len(c.Argv) > wire.MaxArgs || size(c.Argv) > wire.MaxArgBytes:
		return fault.New(
			fmt.Sprintf("the command's arguments are longer than %d bytes, or more than %d", wire.MaxArgBytes, wire.MaxArgs),
			"put them in a file of the workspace")
	case len(c.Env) > wire.MaxEnv || size(c.Env) > wire.MaxEnvBytes:
		return fault.New(
			fmt.Sprintf("the command's environment is longer than %d bytes, or more than %d entries", wire.MaxEnvBytes, wire.MaxEnv),
			"pass fewer variables, or put them in a file of the workspace")
	case !path.IsAbs(c.Dir) || len(c.Dir) > wire.MaxPath:
		return fault.New(fmt.Sprintf("the working directory %.200q isn't an absolute path", c.Dir), "give an absolute path in the sandbox")
	}
	for _, s := range append(append([]string{c.Dir}, c.Argv...), c.Env...) {
		if strings.IndexByte(s, 0) >= 0 {
			return fault.New("an argument or variable holds a zero byte", "remove it: no program can receive it")
		}
	}
	return nil
}

// size counts strings with a final zero byte each, as the kernel stores them.
func size(list []string) int {
	n := len(list)
	for _, s := range list {
		n += len(s)
	}
	return n
}

// CheckGuest refuses a guest binary that can't run in a sandbox of this host:
// not ELF, for another machine, or in need of a dynamic loader. Whether it speaks
// our protocol version shows in the handshake.
func CheckGuest(file string) error {
	err := checkELF(file)
	if err == nil {
		return nil
	}
	hint := "build it with make, or name another with QUAVON_GUEST"
	if errors.Is(err, os.ErrNotExist) {
		hint = "build it with make: it is made beside quavon"
	}
	return fault.Wrap(err, "use "+file+" as quavon-guest", hint).WithCode(string(job.ReasonSandboxUnavailable))
}

// machines maps Go's architectures to ELF's.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func checkELF(file string) error {
	fi, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0 {
		return errors.New("it is not an executable file")
	}
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("it is not an ELF binary: %w", err)
	}
	defer f.Close()
	if want := machines[runtime.GOARCH]; f.Machine != want || f.Class != elf.ELFCLASS64 {
		return fmt.Errorf("it is for %v, this machine is %v", f.Machine, want)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it is linked dynamically, and a sandbox has no libraries for it: build it with CGO_ENABLED=0")
		}
	}
	return nil
}
