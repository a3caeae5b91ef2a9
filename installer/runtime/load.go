package runtime

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/installer/daemonjson"
	"github.com/quavon/quavon/runner/fault"
)

// validate lets dockerd look at the file that is to be. It doesn't find everything, and
// so isn't the only check; and where it already refuses the file that is there, with
// which dockerd runs, it knows less than dockerd does.
func (d *daemon) validate(ctx context.Context, before, after []byte) error {
	if after == nil {
		return nil
	}
	if _, err := os.Stat(d.exe); err != nil {
		return nil //nolint:nilerr // its program is elsewhere, or was replaced: the reload will tell
	}
	why, err := d.refuses(ctx, after)
	if err != nil || why == "" {
		return err
	}
	if already, err := d.refuses(ctx, before); err != nil || already != "" {
		return err
	}
	return fault.New("dockerd refuses the daemon.json that is to be: "+why, "correct daemon.json: see `dockerd --validate`")
}

// refuses is what dockerd says against a file, "" for nothing.
func (d *daemon) refuses(ctx context.Context, data []byte) (string, error) {
	f, err := os.CreateTemp("", "quavon-daemon-*.json")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, d.exe, "--validate", "--config-file", f.Name())
	// It looks for its helpers in its own PATH.
	if environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", d.pid)); err == nil {
		cmd.Env = strings.Split(strings.TrimRight(string(environ), "\x00"), "\x00")
	}
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return lastLine(out), nil
	}
	return "", nil
}

func lastLine(out []byte) string {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	return fmt.Sprintf("%.300s", lines[len(lines)-1])
}

// reload makes dockerd read its file again: by its service manager, else by a signal.
func (d *daemon) reload(ctx context.Context) error {
	if argv := d.manager(ctx, "reload"); argv != nil {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err == nil {
			return nil
		} else if ctx.Err() != nil {
			return context.Cause(ctx)
		} else if len(out) > 0 && !isDockerd(d.pid) {
			return fault.New(strings.Join(argv, " ")+": "+lastLine(out), "see `journalctl -u docker`")
		}
	}
	fd, err := unix.PidfdOpen(d.pid, 0)
	if err != nil {
		return fault.Wrap(err, "reach dockerd", "start it again")
	}
	defer unix.Close(fd)
	if !isDockerd(d.pid) {
		return fault.New("dockerd has ended", "start it again")
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGHUP, nil, 0); err != nil {
		return fault.Wrap(err, "make dockerd read its file again", "install as root")
	}
	return nil
}

// manager is the command by which the host manages this dockerd, nil for none.
func (d *daemon) manager(ctx context.Context, verb string) []string {
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		if mainPID(ctx) == d.pid {
			return []string{"systemctl", verb, "docker.service"}
		}
	}
	if _, err := os.Stat("/run/openrc/softlevel"); err == nil && exec.CommandContext(ctx, "rc-service", "docker", "status").Run() == nil {
		return []string{"rc-service", "docker", verb}
	}
	return nil
}

// await looks until the engine has the entry.
func (d *daemon) await(ctx context.Context, want daemonjson.Entry) error {
	last := ""
	for end := time.Now().Add(loadTime); time.Now().Before(end); {
		info, err := d.info(ctx)
		have, ok := info.Runtimes[Name]
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			last = "it doesn't answer: " + err.Error()
		case ok && have.Path == want.Path && slices.Equal(have.Args, want.Args):
			return nil
		case ok:
			last = "it has " + have.String()
		default:
			last = "it lists no " + Name
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
	if !isDockerd(d.pid) {
		return fault.New("dockerd ended when it was to read its file again", "see `journalctl -u docker`, and start it")
	}
	return fault.New("dockerd did not load the runtime: "+last, "see its log, `journalctl -u docker`; "+d.riskOfRestart(ctx))
}

// riskOfRestart says what a restart would stop.
func (d *daemon) riskOfRestart(ctx context.Context) string {
	const flag = "add --accept-risk=restart-docker to restart it"
	info, err := d.info(ctx)
	if err != nil || info.LiveRestoreEnabled {
		return flag
	}
	var running []struct{ Names []string }
	if err := d.get(ctx, "/containers/json", &running); err != nil || len(running) == 0 {
		return flag
	}
	var names []string
	for _, c := range running {
		names = append(names, strings.TrimPrefix(strings.Join(c.Names, ","), "/"))
	}
	return flag + ", which stops " + strings.Join(names, ", ")
}

// restart needs a service manager: a dockerd that somebody started by hand is theirs.
func (d *daemon) restart(ctx context.Context) error {
	argv := d.manager(ctx, "restart")
	if argv == nil {
		return fault.New("no service manager of this host runs dockerd", "restart it by hand, and install again")
	}
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fault.New(strings.Join(argv, " ")+": "+lastLine(out), "see `journalctl -u docker`")
	}
	for end := time.Now().Add(startTime); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		if next, err := findDaemon(ctx, d.socket); err == nil {
			if _, err := next.info(ctx); err == nil {
				*d = *next
				return nil
			}
		}
	}
	return fault.New("dockerd doesn't answer after its restart", "see `journalctl -u docker`")
}

// startAgain starts a dockerd that has ended, where the host has a manager for it.
func startAgain(ctx context.Context, show interface{ Line(string) }) bool {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return false
	}
	show.Line("starting dockerd again")
	return exec.CommandContext(ctx, "systemctl", "start", "docker.service").Run() == nil
}
