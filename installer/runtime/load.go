package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/pause"
)

// validateTime bounds `dockerd --validate`, which takes a tenth of a second.
const validateTime = 30 * time.Second

// validate lets dockerd look at the file that is to be. It doesn't find everything, and
// so isn't the only check; and where it already refuses the file that is there, with
// which dockerd runs, it may know less than dockerd does: what it says is the doubt.
func (d *daemon) validate(ctx context.Context, before, after []byte) (doubt string, err error) {
	if _, err := os.Stat(d.exe); err != nil {
		return "", nil //nolint:nilerr // its program is elsewhere, or was replaced: the reload will tell
	}
	why, err := d.refuses(ctx, after)
	if err != nil || why == "" {
		return "", err
	}
	if already, err := d.refuses(ctx, before); err != nil || already != "" {
		return already, err
	}
	return "", fault.New("dockerd refuses the daemon.json that is to be: "+why, "correct daemon.json: see `dockerd --validate`")
}

// refuses is what dockerd says against a file, "" for nothing.
func (d *daemon) refuses(ctx context.Context, data []byte) (string, error) {
	f, err := os.CreateTemp("", "quavon-daemon-*.json")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		return "", errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	bound, cancel := context.WithTimeoutCause(ctx, validateTime, errors.New("dockerd --validate did not end in time"))
	defer cancel()
	cmd := exec.CommandContext(bound, d.exe, "--validate", "--config-file", f.Name())
	// It looks for its helpers in its own PATH.
	if environ, err := os.ReadFile(d.proc(d.pid, "environ")); err == nil {
		cmd.Env = strings.Split(strings.TrimRight(string(environ), "\x00"), "\x00")
	}
	out, err := cmd.CombinedOutput()
	switch {
	case bound.Err() != nil:
		return "", context.Cause(bound)
	case err != nil:
		return lastLine(out), nil
	}
	return "", nil
}

func lastLine(out []byte) string {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	return fmt.Sprintf("%.300s", lines[len(lines)-1])
}

// reload makes dockerd read its file again: by its manager, whose unit may have none of
// that, else by a signal.
func (d *daemon) reload(ctx context.Context) error {
	if d.manager.kind != "" {
		err := d.manager.run(ctx, "reload")
		if err == nil || ctx.Err() != nil || !d.isDockerd(d.pid) {
			return err
		}
	}
	fd, err := unix.PidfdOpen(d.pid, 0)
	if err != nil {
		return fault.Wrap(err, "reach dockerd", "start it again")
	}
	defer unix.Close(fd)
	if !d.isDockerd(d.pid) {
		return fault.New("dockerd has ended", "start it again")
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGHUP, nil, 0); err != nil {
		return fault.Wrap(err, "make dockerd read its file again", "install as root")
	}
	return nil
}

// await looks until the engine has the entry.
func (d *daemon) await(ctx context.Context, want registered, patience time.Duration) error {
	last := ""
	for end := time.Now().Add(patience); time.Now().Before(end); {
		info, err := d.info(ctx)
		have, ok := info.Runtimes[Name]
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			last = "it doesn't answer: " + err.Error()
		case ok && have.same(want):
			return nil
		case ok:
			last = "it has " + have.String()
		default:
			last = "it lists no " + Name
		}
		if d.manager.kind == "" && !d.isDockerd(d.pid) {
			break // and nobody starts it again
		}
		if err := pause.For(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	if !d.isDockerd(d.pid) {
		return fault.New("dockerd ended when it was to read its file again", d.manager.log()+", and start it")
	}
	return fault.New("dockerd did not load the runtime: "+last, d.manager.log()+"; "+d.riskOfRestart(ctx))
}

// riskOfRestart says what a restart would stop.
func (d *daemon) riskOfRestart(ctx context.Context) string {
	if d.manager.kind == "" {
		return "or restart it by hand, and install again"
	}
	const flag = "add --accept-risk=restart-docker to restart it"
	info, err := d.info(ctx)
	if err != nil || info.LiveRestoreEnabled {
		return flag
	}
	names, err := d.running(ctx, "")
	if err != nil || len(names) == 0 {
		return flag
	}
	return flag + ", which stops " + strings.Join(names, ", ")
}

// restart restarts dockerd, and waits until it answers; it is another process then.
func (d *daemon) restart(ctx context.Context) error {
	if err := d.manager.run(ctx, "restart"); err != nil {
		return err
	}
	for end := time.Now().Add(startTime); time.Now().Before(end); {
		if info, err := d.info(ctx); err == nil {
			if next, err := d.findDaemon(ctx, d.engine, info); err == nil {
				*d = *next
				return nil
			}
		}
		if err := pause.For(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return fault.New("dockerd doesn't answer after its restart", d.manager.log())
}
