package compose

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// oldest compose plugin that understands all of the compose file.
var oldest = [2]int{2, 20}

// cli runs `docker compose` on an installation.
type cli struct {
	target *phase.Target
	// file is a compose file to use instead of the one in place, nil for that one.
	file []byte
}

// stopTime is how long an interrupted `docker compose` may take to end.
const stopTime = 30 * time.Second

// inherited is what the program itself needs of the shell's variables.
var inherited = []string{"PATH", "HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DOCKER_CONFIG"}

// command is docker compose with our files. Settings come from .env alone: a ${NAME} of the
// operator's files that the shell answered would be another in the next shell.
func (c cli) command(ctx context.Context, args ...string) *exec.Cmd {
	file := c.target.Compose()
	if c.file != nil {
		file = "-"
	}
	all := []string{
		"compose", "--ansi=never", "--progress=plain", "--project-name=" + Project,
		"--project-directory=" + c.target.Dir, "--file=" + file,
	}
	if path := override(c.target); path != "" {
		all = append(all, "--file="+path)
	}
	if _, err := os.Stat(c.target.Env()); err == nil {
		all = append(all, "--env-file="+c.target.Env())
	}
	cmd := exec.CommandContext(ctx, "docker", append(all, args...)...)
	cmd.Dir = c.target.Dir
	if c.file != nil {
		cmd.Stdin = bytes.NewReader(c.file)
	}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, "DOCKER_HOST=unix://"+c.target.Socket)
	if c.alone() {
		cmd.Env = append(cmd.Env, "COMPOSE_EXPERIMENTAL_GIT_REMOTE=false", "COMPOSE_EXPERIMENTAL_OCI_REMOTE=false")
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = stopTime
	return cmd
}

// alone says that files of elsewhere, which compose would fetch, are left where they are.
func (c cli) alone() bool { return c.target.Local || c.target.Bundle != "" }

// maxOutput bounds what is kept of an output.
const maxOutput = 1 << 20

// run runs a command and shows its lines as they come; the last of them explain a
// failure.
func (c cli) run(ctx context.Context, show phase.Reporter, args ...string) error {
	cmd := c.command(ctx, args...)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	var last []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			show.Status(strings.TrimSpace(lines.Text()))
			last = append(last[max(0, len(last)-5):], lines.Text())
		}
		_, _ = io.Copy(io.Discard, r) // a line too long to show must not stop it
	}()
	err := cmd.Run()
	w.Close()
	<-done
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fault.Wrap(fmt.Errorf("%w: %s", err, strings.Join(last, "\n")), "docker compose "+args[0],
			"see `docker compose logs` in "+c.target.Dir)
	}
	return nil
}

// output is what a command prints.
func (c cli) output(ctx context.Context, args ...string) (string, error) {
	cmd := c.command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limited{to: &out, left: maxOutput}, &limited{to: &errOut, left: maxOutput}
	if err := cmd.Run(); err != nil && ctx.Err() != nil {
		return "", context.Cause(ctx)
	} else if err != nil {
		return "", fault.Wrap(fmt.Errorf("%w: %s", err, strings.TrimSpace(errOut.String())), "docker compose "+args[0], "")
	}
	return out.String(), nil
}

// limited drops what comes after its limit. It has no other method: a buffer's own reads
// all there is.
type limited struct {
	to   *bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.to.Write(p[:n])
	return len(p), nil
}

// check says whether the plugin is there and new enough.
func (c cli) check(ctx context.Context) error {
	const hint = "install it: `apt-get install docker-compose-plugin`, or docker-compose of Debian 13"
	if _, err := exec.LookPath("docker"); err != nil {
		return fault.Wrap(err, "there is no docker command",
			"install it: `apt-get install docker-ce-cli docker-compose-plugin`, or docker-cli of Debian")
	}
	cmd := exec.CommandContext(ctx, "docker", "compose", "version", "--short")
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fault.Wrap(fmt.Errorf("%w: %.200s", err, bytes.TrimSpace(out)), "the docker command has no compose plugin", hint)
	}
	version := strings.TrimPrefix(strings.TrimSpace(string(out)), "v")
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return fault.New(fmt.Sprintf("the compose plugin's version %.40q can't be read", version), hint)
	}
	if major < oldest[0] || major == oldest[0] && minor < oldest[1] {
		return fault.New("the compose plugin is "+version+", which is older than "+fmt.Sprintf("%d.%d", oldest[0], oldest[1]), hint)
	}
	return nil
}

// hashes are compose's own digests of the services' configurations, by service.
func (c cli) hashes(ctx context.Context) (map[string]string, error) {
	out, err := c.output(ctx, "config", "--hash=*")
	if err != nil {
		return nil, err
	}
	list := map[string]string{}
	for line := range strings.Lines(out) {
		if name, hash, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			list[name] = strings.TrimSpace(hash)
		}
	}
	return list, nil
}
