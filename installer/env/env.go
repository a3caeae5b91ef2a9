// Package env is the phase that writes into .env what an installation needs there, and
// leaves everything else as it is.
package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/aymanbagabas/go-udiff"

	"github.com/quavon/quavon/installer/dotenv"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/installer/regular"
	"github.com/quavon/quavon/runner/fault"
)

// Profile is the one that sandboxes are in.
const Profile = "sandbox"

// Settings that are written.
const (
	KeyGID     = "QUAVON_DOCKER_GID"
	KeyBackend = "QUAVON_SANDBOX_BACKEND"
)

// Env is the phase.
type Env struct {
	Target *phase.Target
	// Backend is the one that was asked for by name, "" for none.
	Backend string
	// Shell looks up the operator's environment.
	Shell func(string) string
}

var _ phase.Phase = (*Env)(nil)

// Name implements phase.Phase.
func (*Env) Name() string { return phase.Env }

// HasSandbox says whether a directory's .env switches sandboxes on already.
func HasSandbox(t *phase.Target) (bool, error) {
	f, _, err := read(t.Env())
	if err != nil {
		return false, err
	}
	value, _ := f.Get(dotenv.ProfilesKey)
	return dotenv.HasProfile(value, Profile), nil
}

func read(path string) (*dotenv.File, []byte, error) {
	data, err := regular.ReadFile(path, dotenv.MaxSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	f, err := dotenv.Parse(data)
	if err != nil {
		return nil, nil, fault.Wrap(err, path, fault.Hint(err))
	}
	return f, data, nil
}

// Plan implements phase.Phase.
func (e *Env) Plan(context.Context) ([]phase.Change, error) {
	before, after, set, err := e.edit()
	if err != nil {
		return nil, err
	}
	var changes []phase.Change
	if !bytes.Equal(before, after) {
		c := phase.Change{Action: phase.Edit, Target: e.Target.Env(), Summary: "set " + strings.Join(set, ", ")}
		if before == nil {
			c.Action = phase.Create
		}
		c.Diff = diff(string(before), string(after))
		changes = append(changes, c)
	}
	for _, key := range []string{dotenv.ProfilesKey, KeyGID, KeyBackend} {
		if e.Shell != nil && e.Shell(key) != "" {
			changes = append(changes, phase.Change{
				Action: phase.Check, Target: key,
				Summary: "is set in this shell too, where your own `docker compose` takes it from; quavon uses .env",
			})
		}
	}
	return changes, nil
}

// diff shows lines that change and none around them: these may be secrets. So may be a last
// line that gets its line's end, which is no change to show.
func diff(before, after string) string {
	before, after = lines(before), lines(after)
	edits := udiff.Lines(before, after)
	text, err := udiff.ToUnified(".env before", ".env after", before, edits, 0)
	if err != nil {
		return ""
	}
	return text
}

// lines is a text whose lines all end in the same way.
func lines(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// Apply implements phase.Phase.
func (e *Env) Apply(_ context.Context, tx phase.Tx, _ phase.Reporter) error {
	before, after, _, err := e.edit()
	if err != nil || bytes.Equal(before, after) {
		return err
	}
	return tx.WriteFile(e.Target.Env(), after, 0o600)
}

// Undo implements phase.Phase.
func (*Env) Undo(context.Context, phase.Act, phase.How, phase.Reporter) error { return nil }

// edit is the file before and after, and what is set.
func (e *Env) edit() (before, after []byte, set []string, err error) {
	f, before, err := read(e.Target.Env())
	if err != nil {
		return nil, nil, nil, err
	}
	want, err := e.want(f)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, w := range want {
		if old, ok := f.Get(w[0]); ok && old == w[1] {
			continue
		}
		if err := f.Set(w[0], w[1]); err != nil {
			return nil, nil, nil, fault.Wrap(err, e.Target.Env(), fault.Hint(err))
		}
		set = append(set, w[0])
	}
	return before, f.Bytes(), set, nil
}

// want are settings and their values.
func (e *Env) want(f *dotenv.File) (list [][2]string, err error) {
	if !e.Target.Sandbox {
		return nil, nil
	}
	profiles, _ := f.Get(dotenv.ProfilesKey)
	list = append(list, [2]string{dotenv.ProfilesKey, dotenv.AddProfile(profiles, Profile)})
	if e.Target.Socket != "" {
		gid, err := group(e.Target.Socket)
		if err != nil {
			return nil, err
		}
		list = append(list, [2]string{KeyGID, gid})
	}
	if e.Backend != "" {
		list = append(list, [2]string{KeyBackend, e.Backend})
	}
	return list, nil
}

// group is the one that may use the engine's socket.
func group(socket string) (string, error) {
	info, err := os.Stat(socket)
	if err != nil {
		return "", fault.Wrap(err, "look at the Docker engine's socket", "start Docker, or set DOCKER_HOST")
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&fs.ModeSocket == 0 {
		return "", fault.New(fmt.Sprintf("%s is no socket", socket), "set DOCKER_HOST to the engine's")
	}
	return strconv.Itoa(int(st.Gid)), nil
}
