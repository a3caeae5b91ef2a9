package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/installer/daemonjson"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox/docker/dockerd"
)

// daemon is the dockerd behind a socket.
type daemon struct {
	socket string
	pid    int
	args   []string
	// exe is its program as this process can run it.
	exe string
}

// Times of dockerd.
const (
	answerTime = 10 * time.Second
	loadTime   = 15 * time.Second
	startTime  = 60 * time.Second
	maxAnswer  = 16 << 20
)

// findDaemon asks the socket who listens there. With systemd's sockets that is systemd,
// which knows the rest.
func findDaemon(ctx context.Context, socket string) (*daemon, error) {
	if socket == "" {
		return nil, fault.New("there is no Docker engine", "install Docker Engine 24 or newer, or use --backend runsc")
	}
	d := &daemon{socket: socket}
	asked, cancel := context.WithTimeoutCause(ctx, answerTime, errors.New("the engine did not answer in time"))
	defer cancel()
	pid, err := dockerd.Peer(asked, socket)
	if err != nil {
		return nil, fault.Wrap(err, "reach the Docker engine at "+socket, "start it: `systemctl start docker`")
	}
	if !isDockerd(pid) {
		out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=MainPID", "--value", "docker.service").Output()
		if pid, _ = strconv.Atoi(strings.TrimSpace(string(out))); err != nil || !isDockerd(pid) {
			if pid, err = onlyDockerd(); err != nil {
				return nil, err
			}
		}
	}
	d.pid = pid
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, fault.Wrap(err, "look at dockerd", "install as root")
	}
	argv := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	d.args = argv[1:]
	if d.exe, err = os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
		return nil, fault.Wrap(err, "look at dockerd", "install as root")
	}
	return d, nil
}

func isDockerd(pid int) bool {
	if pid <= 0 {
		return false
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.TrimSpace(string(name)) == "dockerd"
}

// onlyDockerd is the one dockerd there is.
func onlyDockerd() (int, error) {
	var all []int
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range names {
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && isDockerd(pid) {
			all = append(all, pid)
		}
	}
	if len(all) != 1 {
		return 0, fault.New(fmt.Sprintf("the dockerd behind the socket can't be told: %d processes of that name are seen here", len(all)),
			"register runsc by hand, as docs/install.md says, reload dockerd, and install again")
	}
	return all[0], nil
}

// sameRoot refuses a dockerd that sees other files than we do.
func (d *daemon) sameRoot() error {
	ours, err := os.Stat("/")
	if err != nil {
		return err
	}
	theirs, err := os.Stat(fmt.Sprintf("/proc/%d/root/.", d.pid))
	if err != nil {
		return fault.Wrap(err, "look at dockerd's files", "install as root")
	}
	if !os.SameFile(ours, theirs) {
		return fault.New("dockerd runs in a container, where a runsc of this host isn't",
			"register runsc where dockerd runs, as docs/install.md says, and install again")
	}
	return nil
}

// configFile is the file that dockerd reads.
func (d *daemon) configFile() string {
	if named := dockerd.Flags(d.args, "config-file"); len(named) > 0 {
		path := named[len(named)-1]
		if filepath.IsAbs(path) {
			return path
		}
		if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", d.pid)); err == nil {
			return filepath.Join(dir, path)
		}
	}
	return "/etc/docker/daemon.json"
}

// get asks the engine.
func (d *daemon) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errors.New("the engine did not answer in time"))
	defer cancel()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.socket)
	}
	c := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", path, resp.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into)
}

// engineInfo is what is read of the engine's /info.
type engineInfo struct {
	ServerVersion, OperatingSystem, DockerRootDir string

	SecurityOptions    []string
	Runtimes           map[string]registered
	LiveRestoreEnabled bool
}

// registered is a runtime that the engine has.
type registered struct {
	Path string   `json:"path"`
	Args []string `json:"runtimeArgs"`
	Type string   `json:"runtimeType"`
}

func (r registered) String() string {
	if r.Path == "" {
		return r.Type
	}
	return strings.Join(append([]string{r.Path}, r.Args...), " ")
}

// check refuses an entry whose program isn't there: dockerd only warns of that.
func (r registered) check() error {
	if !filepath.IsAbs(r.Path) {
		return nil // dockerd looks it up by itself
	}
	if _, err := os.Stat(r.Path); errors.Is(err, fs.ErrNotExist) {
		return fault.New("Docker has runsc registered at "+r.Path+", where there is none",
			"put it there, or remove the entry from daemon.json and restart dockerd")
	}
	return nil
}

func (d *daemon) info(ctx context.Context) (i engineInfo, err error) {
	if err := d.get(ctx, "/info", &i); err != nil {
		return i, fault.Wrap(err, "ask the Docker engine at "+d.socket, "start it: `systemctl start docker`")
	}
	return i, nil
}

// usable refuses engines whose daemon.json is not where or what it seems.
func (i engineInfo) usable() error {
	rootless := func(o string) bool { return o == "name=rootless" || strings.HasPrefix(o, "name=rootless,") }
	switch {
	case strings.HasPrefix(i.DockerRootDir, "/var/snap/docker/"):
		return fault.New("Docker is the snap's, which can't run a runsc of this host",
			"`snap remove docker`, then install docker-ce or docker.io")
	case i.OperatingSystem == "Docker Desktop":
		return fault.New("Docker is Docker Desktop, in a machine of its own, where a runsc of this host isn't",
			"install Docker Engine on this host, and `docker context use default`")
	case slices.ContainsFunc(i.SecurityOptions, rootless):
		return fault.New("Docker is rootless: it has neither limits nor networks that isolate a job",
			"use a rootful engine, or --backend runsc")
	}
	var st unix.Statfs_t
	if err := unix.Statfs(i.DockerRootDir, &st); err == nil && st.Flags&unix.ST_NOEXEC != 0 {
		return fault.New(i.DockerRootDir+" is mounted noexec, where dockerd keeps the start script of a runtime with arguments",
			"mount it without noexec, or register runsc by hand without runtimeArgs")
	}
	return nil
}

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
		out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=MainPID", "--value", "docker.service").Output()
		if err == nil && strings.TrimSpace(string(out)) == strconv.Itoa(d.pid) {
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
