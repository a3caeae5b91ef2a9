package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// quavon runs /usr/bin/true in a sandbox, the whole path: limits, read-back, agent
// and cleaning up.
type quavon struct {
	binary, state, workspace string
	phases                   map[string][]time.Duration
}

// phaseOrder is the phases' names as they came.
var phaseOrder []string

func (q *quavon) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, q.binary, append([]string{"run", "--workspace", q.workspace}, args...)...)
	cmd.Env = append(os.Environ(), "QUAVON_STATE_DIR="+q.state)
	return cmd
}

// run is what a user types.
func (q *quavon) run(ctx context.Context) error {
	_, err := output(q.command(ctx, "--", "/usr/bin/true"))
	return err
}

// inPhases is run with a result to take the phases from, which costs a little.
func (q *quavon) inPhases(ctx context.Context) error {
	out, err := output(q.command(ctx, "--json", "--", "/usr/bin/true"))
	if err != nil {
		return err
	}
	var result struct {
		Phases []struct {
			Name string
			Took time.Duration `json:"took_ns"`
		}
	}
	if err := json.Unmarshal(out, &result); err != nil {
		return err
	}
	if q.phases == nil {
		q.phases = map[string][]time.Duration{}
	}
	for _, p := range result.Phases {
		if q.phases[p.Name] == nil {
			phaseOrder = append(phaseOrder, p.Name)
		}
		q.phases[p.Name] = append(q.phases[p.Name], p.Took)
	}
	return nil
}

// initTime is when the program's packages are ready, as Go's runtime traces it.
func (q *quavon) initTime(ctx context.Context) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, q.binary, "--help")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, err
	}
	var last float64
	for _, m := range regexp.MustCompile(`(?m)^init \S+ @([0-9.]+) ms, ([0-9.]+) ms clock`).FindAllSubmatch(out, -1) {
		at, _ := strconv.ParseFloat(string(m[1]), 64)
		took, _ := strconv.ParseFloat(string(m[2]), 64)
		last = max(last, at+took)
	}
	if last == 0 {
		return 0, errors.New("no inittrace in the output of --help")
	}
	return time.Duration(last * float64(time.Millisecond)), nil
}

// bareRun runs the runtime alone, with quavon's own flags and bundle.
type bareRun struct {
	argv   []string
	prefix string
	n      int
}

// capture starts a sandbox, takes its bundle and command line, and makes of them a
// bundle in dir that runs /usr/bin/true itself.
func (q *quavon) capture(ctx context.Context, dir string) (*bareRun, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("no sandbox came up"))
	defer cancel()
	cmd := q.command(ctx, "--", "/usr/bin/sleep", "60")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer cmd.Wait() //nolint:errcheck // it is interrupted
	defer cancel()
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		slots, _ := filepath.Glob(filepath.Join(q.state, "sandboxes", "*"))
		if len(slots) == 0 {
			continue
		}
		if argv := runtimeArgs(slots[0]); argv != nil {
			return q.rebase(slots[0], dir, argv)
		}
	}
	return nil, context.Cause(ctx)
}

// runtimeArgs is the command line of the slot's `runsc run`, nil before it runs.
func runtimeArgs(slot string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, _ := os.ReadFile(f)
		argv := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		if strings.HasSuffix(argv[0], "/runsc") && len(argv) > 2 && argv[len(argv)-2] == "--bundle="+slot+"/bundle" {
			return argv
		}
	}
	return nil
}

// rebase moves a slot's bundle and command line to dir.
func (q *quavon) rebase(slot, dir string, argv []string) (*bareRun, error) {
	data, err := os.ReadFile(filepath.Join(slot, "bundle", "config.json"))
	if err != nil {
		return nil, err
	}
	// The workspace's id-mapped mount is seen by that sandbox alone.
	text := strings.NewReplacer(slot+"/lower/0", q.workspace, slot, dir).Replace(string(data))
	var spec map[string]any
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return nil, err
	}
	spec["process"].(map[string]any)["args"] = []string{"/usr/bin/true"} //nolint:errcheck // what quavon writes
	if data, err = json.Marshal(spec); err != nil {
		return nil, err
	}
	for _, d := range []string{"bundle", "scratch", "runsc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], slot, dir)
	}
	return &bareRun{argv: argv}, os.WriteFile(filepath.Join(dir, "bundle", "config.json"), data, 0o600)
}

// stock is the same bundle by runsc as it comes: its default flags, and the same
// limits on memory and processes, which runsc then sets itself.
func (b *bareRun) stock(dir string) (*bareRun, error) {
	data, err := os.ReadFile(filepath.Join(dir, "bundle", "config.json"))
	if err != nil {
		return nil, err
	}
	var spec map[string]any
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, err
	}
	linux := spec["linux"].(map[string]any) //nolint:errcheck // what quavon writes
	linux["resources"] = map[string]any{"memory": map[string]any{"limit": 4 << 30}, "pids": map[string]any{"limit": 2098}}
	if data, err = json.Marshal(spec); err != nil {
		return nil, err
	}
	bundle := filepath.Join(dir, "stock")
	if err := os.MkdirAll(bundle, 0o700); err != nil {
		return nil, err
	}
	argv := []string{
		b.argv[0], "--root=" + filepath.Join(dir, "runsc"), "--platform=systrap", "--network=none", "run", "--bundle=" + bundle, "id",
	}
	return &bareRun{argv: argv, prefix: "stock-"}, os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o600)
}

func (b *bareRun) run(ctx context.Context) error {
	b.n++
	id := fmt.Sprintf("%sbare-%d", b.prefix, b.n)
	args := append(append([]string{}, b.argv[1:len(b.argv)-1]...), id)
	cmd := exec.CommandContext(ctx, b.argv[0], args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	_, err := output(cmd)
	return err
}

// dockerRun is a docker client and its flags.
type dockerRun []string

func (d dockerRun) run(ctx context.Context) error {
	args := append(append([]string{}, d[1:]...), "run", "--rm", "--runtime=runsc", "bench", "/bin/true")
	_, err := output(exec.CommandContext(ctx, d[0], args...))
	return err
}

// output runs cmd with pipes, as runsc needs, and puts stderr into the error.
func output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return out, err
}
