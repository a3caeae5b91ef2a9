package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/runsc"
)

func (c Config) runtime() []*doctor.Check {
	return []*doctor.Check{
		{
			Code: "QD920", Name: "runsc", Title: "runsc is there, and is one program without parts elsewhere", Group: groupRuntime,
			Needs: []string{"QD901"}, Severity: doctor.Failure,
			DefaultFix: "set QUAVON_RUNSC to a runsc that `make` has built, or to a release's",
			Run:        c.runsc,
		},
		{
			Code: "QD921", Name: "runsc-access", Title: "everyone may run runsc, as it does itself as nobody", Group: groupRuntime,
			Needs: []string{"QD920"}, Severity: doctor.Failure, DefaultFix: "put runsc where everyone may read, as /usr/local/bin",
			Run: c.runscAccess,
		},
		{
			Code: "QD922", Name: "runsc-sidecars", Title: "runsc has the helpers of its own release", Group: groupRuntime,
			Needs: []string{"QD920"}, Severity: doctor.Failure,
			DefaultFix: "unpack runsc and gvisor-bin/ together from one release's archive", Run: c.runscSidecars,
		},
	}
}

func (c Config) runsc(ctx context.Context) doctor.Finding {
	file, err := c.Runsc()
	if err != nil {
		return doctor.Failed(err.Error(), fault.Hint(err))
	}
	loader, err := c.Host.Interpreter(file)
	switch {
	case err != nil:
		return doctor.Failed(fmt.Sprintf("%s is no program: %v", file, err), "")
	case loader != "":
		return doctor.Failed(fmt.Sprintf("%s needs %s, which a sandbox doesn't have: every run would end with "+
			"\"cannot read client sync file: EOF\"", file, loader),
			"build it with CGO_ENABLED=0, as `make` does, or set QUAVON_RUNSC to one that is")
	}
	version, err := c.runscVersion(ctx, file)
	if err != nil {
		return doctor.Unknown(err)
	}
	return doctor.Passed(version + " at " + file)
}

var runscForm = regexp.MustCompile(`runsc version (\S+)`)

func (c Config) runscVersion(ctx context.Context, file string) (string, error) {
	out, err := c.Host.Run(ctx, file, "--version")
	if err != nil {
		return "", err
	}
	m := runscForm.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s --version says %q", file, strings.TrimSpace(out))
	}
	return m[1], nil
}

// runscAccess walks from the top to runsc and its helpers: read and search for
// others everywhere, since runsc starts itself again as nobody.
func (c Config) runscAccess(context.Context) doctor.Finding {
	file, err := c.Runsc()
	if err != nil {
		return doctor.Unknown(err)
	}
	real, err := c.Host.Resolve(file)
	if err != nil {
		return doctor.Unknown(err)
	}
	need := map[string]fs.FileMode{}
	for p, mode := range map[string]fs.FileMode{real: 0o005, file: 0o005} {
		need[p] = mode
		for dir := path.Dir(p); ; dir = path.Dir(dir) {
			need[dir] = 0o001
			if dir == "/" {
				break
			}
		}
	}
	helpers := path.Join(path.Dir(real), runsc.HelpersDir)
	names, err := c.Host.ReadDir(helpers)
	if err == nil {
		need[helpers] = 0o005
	} else if !errors.Is(err, fs.ErrNotExist) {
		return doctor.Unknown(err)
	}
	for _, name := range names {
		need[path.Join(helpers, name)] = 0o005
	}
	var closed, paths []string
	for _, p := range sortedKeys(need) {
		info, err := c.Host.Stat(p)
		if err != nil {
			return doctor.Unknown(err)
		}
		if info.Mode.Perm()&need[p] != need[p] {
			closed, paths = append(closed, fmt.Sprintf("%s has mode %04o", p, info.Mode.Perm())), append(paths, p)
		}
	}
	if len(closed) > 0 {
		return doctor.Failed("runsc can't start itself again as nobody: "+closed[0],
			"run `"+openPaths(paths, need, helpers)+"`, or move runsc", closed...)
	}
	return doctor.Passed(fmt.Sprintf("%d files and directories on the way are open", len(need)))
}

// openPaths gives others no more than is needed: directories on the way can be passed
// through and not listed.
func openPaths(paths []string, need map[string]fs.FileMode, helpers string) string {
	passed, run := []string{"chmod", "o+x"}, []string{"chmod", "o+rx"}
	all := []string{"chmod", "-R", "o+rx", helpers}
	inHelpers := false
	for _, p := range paths {
		switch {
		case p == helpers || path.Dir(p) == helpers:
			inHelpers = true
		case need[p] == 0o001:
			passed = append(passed, p)
		default:
			run = append(run, p)
		}
	}
	var commands []string
	for _, words := range [][]string{passed, run} {
		if len(words) > 2 {
			commands = append(commands, fault.Words(words...))
		}
	}
	if inHelpers {
		commands = append(commands, fault.Words(all...))
	}
	return strings.Join(commands, " && ")
}

var (
	upstreamForm = regexp.MustCompile(`^release-(\d{8})\.\d+$`)
	ownForm      = regexp.MustCompile(`^release-\d{8}-[0-9a-f]+$`)
)

// splitRelease is the first whose archive has helpers beside runsc.
const splitRelease = "20260817"

func (c Config) runscSidecars(ctx context.Context) doctor.Finding {
	file, err := c.Runsc()
	if err != nil {
		return doctor.Unknown(err)
	}
	version, err := c.runscVersion(ctx, file)
	if err != nil {
		return doctor.Unknown(err)
	}
	real, err := c.Host.Resolve(file)
	if err != nil {
		return doctor.Unknown(err)
	}
	dir := path.Join(path.Dir(real), runsc.HelpersDir)
	names, err := c.Host.ReadDir(dir)
	upstream := upstreamForm.FindStringSubmatch(version)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case err != nil && !missing:
		return doctor.Unknown(err)
	case missing && upstream != nil && upstream[1] >= splitRelease:
		return doctor.Failed(fmt.Sprintf("%s is of release %s, whose helpers are missing: there is no %s", real, version, dir), unpack(dir))
	case missing && (upstream != nil || ownForm.MatchString(version)):
		return doctor.Passed(version + " needs no helpers: it is built in one piece")
	case missing:
		return doctor.Unknown(fmt.Errorf("it isn't known whether a runsc of version %q needs helpers, and it has none", version))
	case len(names) == 0:
		return doctor.Failed(dir+" is empty", unpack(dir))
	}
	return c.sameRelease(ctx, version, dir, names)
}

// unpack takes runsc and its helpers from one archive. What is there of another release
// goes first: it may have had helpers that this one hasn't.
func unpack(dir string) string {
	return "get the archive of one release, then run `" + fault.Words("rm", "-rf", dir) + " && " +
		fault.Words("tar", "-xf", "gvisor.tar.bz2", "-C", path.Dir(dir)) + "`"
}

// sameRelease asks every helper for its version. One that doesn't answer leaves the
// question open.
func (c Config) sameRelease(ctx context.Context, version, dir string, names []string) doctor.Finding {
	var other []string
	slices.Sort(names)
	for _, name := range names {
		out, err := c.Host.Run(ctx, path.Join(dir, name), "--version")
		if err != nil {
			return doctor.Unknown(fmt.Errorf("which release %s is of: %w", path.Join(dir, name), err))
		}
		if !slices.Contains(strings.Fields(out), version) {
			first, _, _ := strings.Cut(out, "\n")
			other = append(other, fmt.Sprintf("%s says %q", path.Join(dir, name), first))
		}
	}
	if len(other) > 0 {
		return doctor.Failed("helpers are of another release than runsc's "+version, unpack(dir), other...)
	}
	return doctor.Passed(fmt.Sprintf("%d helpers of %s", len(names), version))
}
