package compat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// jobUID is what a job runs as in a sandbox, so also what it runs as outside.
const jobUID = 60000

// timeout ends a side whose tests hang; what has run by then is compared all the same.
const timeout = 30 * time.Minute

// environment is all that a project's tests get, on both sides, besides HOME.
var environment = []string{
	"PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin",
	"LANG=C.UTF-8",
	"CI=true",
	"GOPROXY=off", "GOTOOLCHAIN=local", "GOFLAGS=-mod=vendor",
	"NO_COLOR=1",
}

// outcome is one run of a project's tests.
type outcome struct {
	Tests results
	Took  time.Duration
	// Output is the file that holds stdout and stderr, for whoever looks into a difference.
	Output string
}

// outside runs the tests on the host, from a copy, as an unprivileged user.
func (p *project) outside(ctx context.Context, workspace, scratch string) (*outcome, error) {
	dir, home, tmp := filepath.Join(scratch, "ws"), filepath.Join(scratch, "home"), filepath.Join(scratch, "tmp")
	if _, err := command(ctx, scratch, "cp", "-r", "--preserve=mode,timestamps,links", workspace, dir); err != nil {
		return nil, err
	}
	for _, d := range []string{home, tmp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("the tests hang outside"))
	defer cancel()
	argv := []string{"sh", "-c", p.Run}
	if os.Geteuid() == 0 {
		owner := fmt.Sprintf("%d:%[1]d", jobUID)
		if _, err := command(ctx, scratch, "chown", "-R", owner, dir, home, tmp); err != nil {
			return nil, err
		}
		argv = append(asJob(scratch), argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(environment, "HOME="+home, "TMPDIR="+tmp, "USER=quavon", "LOGNAME=quavon")
	return p.measure(cmd, filepath.Join(scratch, "outside.txt"))
}

// asJob starts a command as an unprivileged user with what a job has of a network:
// loopback alone, and the sandbox's names of it. Hosts differ in both, and some
// tests skip for want of an outside address or of IPv6.
func asJob(scratch string) []string {
	return []string{
		"unshare", "--mount", "--net", "--", "sh", "-c",
		`ip link set lo up && mount --bind "$1" /etc/hosts && shift && exec setpriv "$@"`, "sh", filepath.Join(scratch, "hosts"),
		fmt.Sprintf("--reuid=%d", jobUID), fmt.Sprintf("--regid=%d", jobUID), "--clear-groups", "--",
	}
}

// imageOf names the image that has an ecosystem's tools.
var imageOf = map[ecosystem]string{golang: "go", npm: "node", python: "python"}

// inside runs them by quavon run, on the workspace itself: with the host's tools,
// or in an image of the state directory images.
func (p *project) inside(ctx context.Context, quavon, images, workspace, scratch string) (*outcome, error) {
	result := filepath.Join(scratch, "result.json")
	args := []string{"run", "--timeout=" + timeout.String(), "--memory=6GiB", "--pids=4096", "--json=" + result}
	for _, e := range environment {
		args = append(args, "--env", e)
	}
	if images != "" {
		args = append(args, "--image", imageOf[p.Kind], "--user", fmt.Sprintf("%d:%d", jobUID, jobUID))
	}
	cmd := exec.CommandContext(ctx, quavon, append(args, "--", "sh", "-c", p.Run)...)
	cmd.Dir = workspace
	if images != "" {
		cmd.Env = append(os.Environ(), "QUAVON_STATE_DIR="+images)
	}
	return p.measure(cmd, filepath.Join(scratch, "inside.txt"))
}

// measure runs cmd and reads its results. A failing test is a result like any
// other, so the exit code says nothing here.
func (p *project) measure(cmd *exec.Cmd, output string) (*outcome, error) {
	file, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	start := time.Now()
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return nil, err
	}
	took := time.Since(start)
	if _, err := file.Seek(0, 0); err != nil {
		return nil, err
	}
	tests, err := parse(p.Kind, file)
	if err != nil {
		return nil, fmt.Errorf("%w; see %s", err, output)
	}
	return &outcome{tests, took, output}, nil
}
