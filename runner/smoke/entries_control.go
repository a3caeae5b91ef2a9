package smoke

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/quavon/quavon/runner/guest/probe"
)

func controlEntries() []Entry {
	return []Entry{
		reach{
			Entry: Entry{ID: "H1-services", Title: "no service of the operator can be reached", Weak: onNetwork},
			targets: func(*World) []Target {
				return []Target{
					tcp("svc-valkey", "10.99.0.1:6379"), tcp("svc-docker", "10.99.0.1:2375"), tcp("svc-docker-tls", "172.17.0.1:2376"),
					tcp("svc-kubelet", "10.99.0.1:10250"), tcp("svc-metrics", "10.99.0.1:9090"), tcp("svc-postgres", "10.99.0.1:5432"),
					tcp("svc-ssh", "10.99.0.1:22"),
				}
			},
		}.entry(),
		{
			ID: "H2-secrets", Group: GroupControl, Quick: true, Title: "no secret of the host is in what a job can read",
			Control: "a secret in a file of the job's own is found", Weak: []string{"env-secret", "agent-secret", "runc-host-pid"},
			Inside: []string{"H2-secrets"}, Plant: plantSecrets, Judge: noSecrets,
		},
	}
}

// plantSecrets puts secrets into this process's environment and into the command line
// of another.
func plantSecrets(_ context.Context, b *Bench) error {
	name := "QUAVON_SMOKE_" + b.Nonce
	if err := os.Setenv(name, Secret()); err != nil {
		return err
	}
	b.Cleanup(func() error { return os.Unsetenv(name) })
	if err := plantCommandLine(b); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.Dir, ".env"), []byte("KEY="+Secret()+"\n"), 0o600)
}

// plantCommandLine has a process wait with canaries among its arguments and in its
// environment: a shell or, where there is none, as in an image of the services alone,
// the agent's own program.
func plantCommandLine(b *Bench) error {
	if _, err := os.Stat(shell); errors.Is(err, fs.ErrNotExist) {
		return plantWaiting(b, b.Guest, probe.SubCommand, Secret())
	}
	return plantWaiting(b, shell, "-c", "read x", Secret())
}

const shell = "/bin/sh"

// plantWaiting starts a program that waits for its stdin to end.
func plantWaiting(b *Bench, argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // ended by its stdin
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	shown := func() error {
		return errors.Join(awaitCanary(cmd.Process.Pid, "cmdline"), awaitCanary(cmd.Process.Pid, "environ"))
	}
	b.Cleanup(func() error {
		err := shown() // a canary that has ended proves nothing
		in.Close()
		_ = cmd.Wait() // it fails at the end of its input
		return err
	})
	return shown()
}

// awaitCanary waits until a canary is in a process's file: a new program's arguments
// show a moment after it was started.
func awaitCanary(pid int, name string) error {
	file := fmt.Sprintf("/proc/%d/%s", pid, name)
	for range 200 {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if bytes.Contains(data, []byte(probe.CanaryPrefix())) {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return errors.New("no canary is in " + file)
}

func noSecrets(c *Case) Outcome {
	if l := c.Find("H2-secrets", "control"); l == nil || l.Errno != "" {
		return Outcome{CouldNotRun, "not even a secret of the job's own is found"}
	}
	return c.attempts(each("H2-secrets", []string{"ENOENT"}, "environment", "command-lines", "files"))
}
