package guest

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/sandbox"
)

// defaultPath is searched when the environment has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookPath finds a program as execvp does, except that relative entries of PATH
// are passed over.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	search := defaultPath
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			search = v // the last one wins, as for the program itself
		}
	}
	for _, dir := range filepath.SplitList(search) {
		if !path.IsAbs(dir) {
			continue
		}
		file := path.Join(dir, name)
		if fi, err := os.Stat(file); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%.200s: not found in PATH", name)
}

// checkExec refuses a command that breaks the protocol's bounds, or that would
// share the agent's uid and so could reach it.
func checkExec(r *agentpb.Exec) error {
	switch {
	case len(r.GetArgv()) == 0 || r.GetArgv()[0] == "":
		return errors.New("the command is empty")
	case len(r.GetArgv()) > wire.MaxArgs || len(r.GetEnv()) > wire.MaxEnv:
		return errors.New("too many arguments or variables")
	case !path.IsAbs(r.GetDir()) || len(r.GetDir()) > wire.MaxPath:
		return errors.New("the working directory isn't an absolute path")
	case r.GetTimeoutNs() < 0 || r.GetGraceNs() < 0:
		return errors.New("a time is negative")
	}
	for _, id := range append([]uint32{r.GetUid(), r.GetGid()}, r.GetGroups()...) {
		if id == sandbox.AgentUID || id == 1<<32-1 {
			return fmt.Errorf("id %d is not for commands", id)
		}
	}
	return nil
}
