package commands

import (
	"cmp"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/state"
	"github.com/quavon/quavon/runner/toolchain"
	"github.com/quavon/quavon/runner/workspace"
)

// toolDir is no workspace, but the system's place for tools that come as a whole.
const toolDir = "/opt"

// cacheDir is where a cache is shown when the operator doesn't say.
const cacheDir = "/cache"

// goModules is the part of a cache that holds Go's modules. Go is pointed at it
// only when it is there: an empty one would hide modules shown with --ro.
const goModules = "go-mod"

// cacheEnv points the common tools at cacheDir.
var cacheEnv = []string{
	"XDG_CACHE_HOME=" + cacheDir + "/xdg",
	"GOCACHE=" + cacheDir + "/go-build",
	"npm_config_cache=" + cacheDir + "/npm",
	"YARN_CACHE_FOLDER=" + cacheDir + "/yarn",
	"PIP_CACHE_DIR=" + cacheDir + "/pip",
	"UV_CACHE_DIR=" + cacheDir + "/uv",
	"CARGO_HOME=" + cacheDir + "/cargo",
	"GRADLE_USER_HOME=" + cacheDir + "/gradle",
	"CCACHE_DIR=" + cacheDir + "/ccache",
}

// spec translates the options into a job for a backend that enforces have.
func (o *runOptions) spec(have sandbox.Policies) (job.Spec, error) {
	s := job.Spec{
		ID:      "run-" + strings.ToLower(rand.Text()[:16]),
		Root:    o.root(),
		Collect: o.Collect,
		Limits:  o.limits(have),
	}
	if err := o.addMounts(&s); err != nil {
		return job.Spec{}, err
	}
	if o.Workspace != "none" && (o.Write || o.Patch != "" || o.JSON != "") {
		s.Changes = job.ChangesList
		if o.Write || o.Patch != "" {
			s.Changes = job.ChangesContent
		}
	}
	argv, err := o.argv()
	if err != nil {
		return job.Spec{}, err
	}
	s.Steps = []job.Step{{Argv: argv, Env: o.environ(s.Mounts), TTY: o.TTY, Network: job.NetworkNone}}
	if len(o.Net) > 0 {
		s.Allow, s.Steps[0].Network = o.Net, job.NetworkRegistries
	}
	s.Secrets, err = o.secrets(s.Mounts)
	return s, err
}

// secrets reads --secret.
func (o *runOptions) secrets(mounts []job.Mount) ([]job.Secret, error) {
	f := secretFlags{texts: o.Secrets, workspace: o.Workspace, lookupEnv: o.LookupEnv}
	for _, m := range mounts {
		f.shown = append(f.shown, m.Source)
	}
	return f.read()
}

// limits are those asked for, and those defaults that the backend enforces:
// rootless, some can't hold, and a limit that doesn't hold is worse than none.
func (o *runOptions) limits(have sandbox.Policies) job.Limits {
	l := job.Limits{
		Memory: int64(o.Memory), CPUs: o.CPUs, Pids: o.Pids, Disk: int64(o.Disk),
		Output: int64(o.OutputLimit), Wall: o.Timeout,
	}
	unless := func(flag string, p sandbox.Policy, drop func()) {
		if why, ok := have[p]; !o.asked(flag) && (!ok || why != sandbox.Enforced) {
			o.Log.Info("default limit left out", "limit", flag, "why", why)
			drop()
		}
	}
	unless("memory", sandbox.PolicyMemory, func() { l.Memory = 0 })
	unless("pids", sandbox.PolicyPids, func() { l.Pids = 0 })
	unless("disk", sandbox.PolicyDisk, func() { l.Disk = 0 })
	return l
}

func (o *runOptions) addMounts(s *job.Spec) error {
	if o.Workspace != "none" {
		if err := cmp.Or(o.checkOutput("--patch", o.Patch), o.checkOutput("--out", o.Out), o.checkPlaces()); err != nil {
			return err
		}
		source, err := directory("--workspace", o.Workspace)
		if err != nil {
			return err
		}
		m := job.Mount{Source: source, Target: job.WorkspaceDir, Mode: job.MountOverlay}
		if o.Write {
			m.Protect = []string{".git"}
		}
		s.Mounts = append(s.Mounts, m)
	}
	for _, c := range o.Caches {
		dir, target := splitMount(c, cacheDir)
		if err := o.checkCache(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fault.Wrap(err, "can't make the cache directory", "name a directory that you can write: --cache DIR")
		}
		if err := addMount(s, "--cache", dir, target, job.MountOverlay); err != nil {
			return err
		}
	}
	for _, r := range o.ReadOnly {
		dir, target := splitMount(r, "")
		if err := o.checkOutput("--ro", dir); err != nil {
			return err
		}
		if err := addMount(s, "--ro", dir, target, job.MountReadOnly); err != nil {
			return err
		}
	}
	return nil
}

// checkOutput refuses what a link in the workspace leads to: to write there, or to show
// it.
func (o *runOptions) checkOutput(flag, path string) error {
	if path == "" || path == "-" || o.Workspace == "none" {
		return nil
	}
	err := workspace.CheckOutput(path, o.Workspace)
	if err == nil {
		return nil
	}
	return &fault.Error{What: flag, Err: err, Hint: fault.Hint(err), Code: string(job.ReasonRejected)}
}

// checkCache refuses a cache that a link in the workspace leads to, and what
// looks like DIR:PATH with a relative PATH.
func (o *runOptions) checkCache(dir string) error {
	if _, err := os.Stat(dir); err != nil && strings.Contains(dir, ":") {
		return fault.New("--cache "+dir+": the path after the colon isn't absolute, and there is no such directory",
			"write --cache DIR:/PATH, or make the directory first").WithCode(string(job.ReasonRejected))
	}
	return o.checkOutput("--cache", dir)
}

// addMount shows dir at target; "" is the place it has on the host.
func addMount(s *job.Spec, flag, dir, target string, mode job.MountMode) error {
	source, err := directory(flag, dir)
	if err != nil {
		return err
	}
	if target == "" {
		if target, err = filepath.Abs(dir); err != nil {
			return fault.Wrap(err, flag+" "+dir, "write an absolute path")
		}
	}
	s.Mounts = append(s.Mounts, job.Mount{Source: source, Target: target, Mode: mode})
	return nil
}

// splitMount splits DIR[:PATH], where PATH is absolute, so that a colon in DIR
// does no harm.
func splitMount(s, otherwise string) (dir, target string) {
	if i := strings.LastIndex(s, ":/"); i > 0 {
		return s[:i], filepath.Clean(s[i+1:])
	}
	return s, otherwise
}

// directory is the real path of a host directory that may be shown to a job.
func directory(flag, dir string) (string, error) {
	if flag == "--ro" && filepath.Clean(dir) == toolDir {
		return toolDir, nil
	}
	real, err := workspace.CheckWorkspace(dir)
	if err == nil {
		err = fitsHost(real)
	}
	if err != nil {
		hint := fault.Hint(err)
		if flag == "--ro" || flag == "--cache" {
			hint = "name a directory that you can read, and neither a home nor one of the system's"
		}
		return "", &fault.Error{What: flag + " " + dir, Err: err, Hint: hint, Code: string(job.ReasonRejected)}
	}
	return real, nil
}

// fitsHost refuses what the caller can't read, and quavon's own state, which
// other jobs are made from.
func fitsHost(dir string) error {
	if err := unix.Access(dir, unix.R_OK|unix.X_OK); err != nil {
		return fault.Wrap(err, "it can't be read", "run quavon as a user who may read it")
	}
	own, err := state.Default()
	if err != nil {
		return err
	}
	if own, err = filepath.EvalSymlinks(own); err != nil {
		return nil //nolint:nilerr // there is none yet
	}
	if job.Within(dir, own) || job.Within(own, dir) {
		return fault.New("it is or holds the state of quavon, "+own, "name a directory of your own project")
	}
	return nil
}

// environ is the job's environment besides the sandbox's base.
func (o *runOptions) environ(mounts []job.Mount) []string {
	var shown []job.Mount
	cache := ""
	for _, m := range mounts {
		if m.Target == cacheDir {
			cache = m.Source
		}
		if m.Target != job.WorkspaceDir {
			shown = append(shown, m)
		}
	}
	var env []string
	if o.image == nil {
		env = append(env, "PATH="+toolchain.Path(o.env("PATH"), shown))
	}
	if o.TTY {
		term := o.env("TERM")
		if term == "" {
			term = "xterm"
		}
		env = append(env, "TERM="+term)
	}
	if cache != "" {
		env = append(env, cacheEnv...)
		if _, err := os.Stat(filepath.Join(cache, goModules)); err == nil {
			env = append(env, "GOMODCACHE="+cacheDir+"/"+goModules)
		}
	}
	for _, e := range o.Env {
		if strings.Contains(e, "=") {
			env = append(env, e)
		} else if v, ok := o.LookupEnv(e); ok {
			env = append(env, e+"="+v)
		}
	}
	return env
}
