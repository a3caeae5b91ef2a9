package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quavon/quavon/installer/daemonjson"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker/dockerd"
	"github.com/quavon/quavon/runner/state"
)

// plan is what is to be done.
type plan struct {
	daemon *daemon
	// found is a runtime of others that is used as it is.
	found *registered
	// want is what the engine must have in the end: our entry, or what somebody has
	// made of it.
	want registered
	// version is a directory's name; unpack says that it isn't there yet.
	// use says that it isn't noted yet who uses it.
	source  *source
	version string
	use     bool
	unpack  bool
	link    bool
	was     string
	// before and after are daemon.json; reload says that dockerd must read it.
	path          string
	before, after []byte
	note          string
	reload        bool
	// doubt is what dockerd has against its file as it is.
	doubt string
}

// maxFile bounds a daemon.json, in bytes.
const maxFile = 1 << 20

func (r *Runtime) plan(ctx context.Context) (*plan, error) {
	d, info, err := r.find(ctx)
	if err != nil {
		return nil, err
	}
	p := &plan{daemon: d, path: r.DaemonJSON}
	have, listed := info.Runtimes[Name]
	if listed && (have.Path != r.entry().Path || byFlag(d.args)) {
		p.found = &have
		if len(have.Args) > 0 {
			err = info.scripts()
		}
		return p, errors.Join(err, have.check())
	}
	if err := d.sees("/"); err != nil {
		return nil, err
	}
	if err := state.Check(r.lib()); err != nil {
		return nil, fault.Wrap(err, "others could change what dockerd runs as root", "use --lib with a directory of root's alone")
	}
	if p.path == "" {
		p.path = d.configFile()
	}
	if err := r.edit(p, have, listed); err != nil {
		return nil, fault.Wrap(err, p.path, fault.Hint(err))
	}
	if len(p.want.Args) > 0 {
		if err := info.scripts(); err != nil {
			return nil, err
		}
	}
	p.reload = p.after != nil || !listed || !have.same(p.want)
	p.use = !user{r.Target.Dir, p.path}.noted(r.lib())
	return p, r.planProgram(ctx, p)
}

// byFlag says that dockerd has our runtime by one of its flags, where it stays.
func byFlag(args []string) bool {
	for _, added := range dockerd.Flags(args, "add-runtime") {
		if name, _, _ := strings.Cut(added, "="); name == Name {
			return true
		}
	}
	return false
}

// find is the engine's dockerd, when it is one that can be given a runtime.
func (r *Runtime) find(ctx context.Context) (*daemon, engineInfo, error) {
	e := engine{r.Target.Socket}
	info, err := e.usable(ctx)
	if err != nil {
		return nil, info, err
	}
	d, err := r.host.findDaemon(ctx, e, info)
	return d, info, err
}

func (r *Runtime) planProgram(ctx context.Context, p *plan) (err error) {
	if p.source, err = r.source(ctx); err != nil {
		return err
	}
	p.version = "runsc-" + p.source.version
	// A version that is there was put there whole; but something may have happened since.
	if _, err := checkProgram(ctx, filepath.Join(r.lib(), p.version, "runsc")); err != nil {
		if ctx.Err() != nil {
			return err
		}
		p.unpack = true
	}
	to, err := os.Readlink(r.link())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, r.link()+" is in the way", "move it away")
	}
	p.was, p.link = to, to != p.version
	return nil
}

// edit works out daemon.json.
func (r *Runtime) edit(p *plan, have registered, listed bool) error {
	data, err := bounded.ReadFile(p.path, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := daemonjson.Parse(data)
	if err != nil {
		return err
	}
	if refused := f.Refusals(p.daemon.args); len(refused) > 0 {
		return fault.New("dockerd would not start with it: "+strings.Join(refused, "; "), "correct "+p.path)
	}
	if twice := f.Twice(p.daemon.args); len(twice) > 0 {
		return fault.New("dockerd reads it no more, as it has flags for the same: "+strings.Join(twice, ", "),
			"keep each setting in one place: `systemctl edit docker` for flags, or daemon.json")
	}
	ours := r.entry()
	p.want = registered{Path: ours.Path, Args: ours.Args}
	if raw, there := f.Runtime(Name); there && !f.Has(Name, ours) {
		// Somebody has changed our entry. When dockerd has it like that, it is theirs.
		var theirs registered
		if json.Unmarshal(raw, &theirs) == nil && listed && theirs.same(have) {
			p.want = have
			return have.check()
		}
		return fault.New(fmt.Sprintf("it registers %s as %.200s, which dockerd doesn't have", Name, raw),
			"reload dockerd when it is right, else remove the entry")
	}
	if err := f.SetRuntime(Name, ours); err != nil {
		return err
	}
	if now := f.Bytes(); string(now) != string(data) {
		p.before, p.after = data, now
		if f.Converted != "" {
			p.note = "; it was " + f.Converted + " and will be UTF-8"
		}
	}
	return nil
}

// unchanged refuses to write over what somebody has changed since it was looked at.
func (p *plan) unchanged() error {
	now, err := bounded.ReadFile(p.path, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(now) != string(p.before) || (now == nil) != (p.before == nil) {
		return fault.New(p.path+" was changed while runsc was being installed", "install again")
	}
	return nil
}

// check looks at the program once more where dockerd will run it, and at the way there.
func (r *Runtime) check(ctx context.Context, p *plan) error {
	path := filepath.Join(r.lib(), p.version, "runsc")
	if _, err := checkProgram(ctx, path); err != nil {
		return err
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fault.New(fmt.Sprintf("%s has mode %04o, and runsc starts itself again as nobody", dir, info.Mode().Perm()),
				"chmod o+x "+dir)
		}
		if dir == "/" {
			return p.daemon.sees(r.entry().Path)
		}
	}
}
