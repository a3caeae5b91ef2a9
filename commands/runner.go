package commands

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/image/lock"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/state"
)

// runnerOptions are what quavon runner was asked for.
type runnerOptions struct {
	*program
	settings *settings
	// Check asks for a runner's health instead of being one.
	Check bool
}

const runnerLong = `Take jobs from the queue in Valkey, run each in a throwaway sandbox of its own, and
hand its signed result back. Nothing connects to a runner: it has no port.

Settings come from flags, then the environment, then a file; --print-config shows
them and where each comes from. Secrets have no flags: name their files.

The first SIGTERM lets jobs end and hands back those that take too long, the second
hands back at once, the third kills. One runner per host holds the host's lock. --check
looks up what the running one says of itself, as health checks of containers do.`

const runnerExample = `  quavon runner --valkey-url-file /run/secrets/valkey_sandbox_url --signing-key-file /run/secrets/sandbox_signing_key
  quavon runner --concurrency 4 --print-config`

func newRunner(p *program, run func(context.Context, *runnerOptions) error) *cobra.Command {
	o := &runnerOptions{program: p, settings: newSettings(append(queueSettings(), runnerSettings()...)...)}
	cmd := &cobra.Command{
		Use: "runner", Short: "Run jobs of the queue in sandboxes", Long: runnerLong, Example: runnerExample,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("log-level") { // a service says what it does
				p.logLevel = slog.LevelInfo.String()
				if err := p.openLog(); err != nil {
					return err
				}
			}
			if o.Check {
				run = checkRunner
			}
			return o.settings.serve(p, cmd, func() error { return run(cmd.Context(), o) })
		},
	}
	o.settings.registerService(cmd.Flags())
	cmd.Flags().BoolVar(&o.Check, "check", false, "look up the running runner's health, and end: exit code 0 or 1")
	return cmd
}

// Names of a runner's own settings.
const (
	envBackend     = "QUAVON_SANDBOX_BACKEND"
	envConcurrency = "QUAVON_SANDBOX_CONCURRENCY"
	envRunnerID    = "QUAVON_SANDBOX_RUNNER_ID"
	envDrain       = "QUAVON_SANDBOX_DRAIN_TIMEOUT"
	envLease       = "QUAVON_SANDBOX_LEASE"
	envMaxMemory   = "QUAVON_SANDBOX_MAX_MEMORY"
	envMaxDisk     = "QUAVON_SANDBOX_MAX_DISK"
	envMaxTime     = "QUAVON_SANDBOX_MAX_TIME"
	envRegistries  = "QUAVON_SANDBOX_REGISTRIES"
	envEgressProxy = "QUAVON_SANDBOX_EGRESS_PROXY"
)

func runnerSettings() []*setting {
	return []*setting{
		{name: envBackend, flag: "backend", def: "runsc", help: "what isolates jobs"},
		{name: envConcurrency, flag: "concurrency", def: strconv.Itoa(max(1, runtime.NumCPU()/2)), help: "jobs at once"},
		{name: envRunnerID, flag: "id", def: defaultID(), help: "name of this runner on the queue"},
		{name: lock.EnvFile, flag: "images-file", help: "lock of the images that jobs may use"},
		{name: envMaxMemory, flag: "max-memory", def: "0", help: "most memory a job may ask for; 0 is no bound"},
		{name: envMaxDisk, flag: "max-disk", def: "0", help: "most disk a job may ask for; 0 is no bound"},
		{name: envMaxTime, flag: "max-time", def: "0", help: "longest time a job may ask for; 0 is no bound"},
		{name: envDrain, flag: "drain-timeout", def: "1m", help: "how long jobs may go on when the runner is to stop"},
		{name: envLease, flag: "lease", def: "15s", help: "how long a silent runner keeps its jobs"},
		{name: state.EnvDir, flag: "state-dir", help: "directory for sandboxes and images"},
		{name: state.EnvLockFile, flag: "lock-file", def: state.DefaultLockFile, help: "lock of the one runner of this host"},
		{name: envRunsc, flag: "runsc", help: "path of gVisor's runsc; beside quavon or in PATH by default"},
		{name: envGuest, flag: "guest", help: "path of quavon-guest; beside quavon by default"},
		{name: envRegistries, flag: "registries", help: "hosts that steps with a network may reach, with commas between; none without"},
		{name: envEgressPrivate, flag: "egress-private", help: "private networks (CIDR) that those hosts may be in, with commas between"},
		{
			name: envEgressProxy, flag: "egress-proxy",
			help: "HOST:PORT of quavon egress, which lets those steps out by its own list of hosts",
		},
	}
}

// defaultID is the host's name, as far as an id may have it.
func defaultID() string {
	name, _ := os.Hostname()
	id := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	if id = strings.Trim(id, "-"); id == "" {
		return "runner"
	}
	return id[:min(len(id), 63)]
}

// runnerID is the id that was set. A host's name can be one, as Kubernetes has it for a
// node: capitals and dots are no part of an id.
func (s *settings) runnerID() (string, error) {
	given := s.get(envRunnerID)
	id := strings.ReplaceAll(strings.ToLower(given), ".", "-")
	if !job.ValidID(id) {
		return "", fault.New(fmt.Sprintf("%s %.80q is no id", envRunnerID, given), "use 1 to 64 characters of a-z, 0-9 and -")
	}
	return id, nil
}

func (s *settings) duration(name string) (time.Duration, error) {
	v := s.get(name)
	if v == "0" || v == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, fault.New(fmt.Sprintf("%s %q is no time", name, v), "write one such as 90s or 1h")
	}
	return d, nil
}

func (s *settings) size(name string) (int64, error) {
	var b byteSize
	if err := b.Set(s.get(name)); err != nil {
		return 0, fault.Wrap(err, name+" is no size", "write one such as 512MiB")
	}
	return int64(b), nil
}

func (s *settings) positive(name string) (int, error) {
	n, err := strconv.Atoi(s.get(name))
	if err != nil || n < 1 || n > 1024 {
		return 0, fault.New(fmt.Sprintf("%s %q is no number from 1 to 1024", name, s.get(name)), "write one, at most half the processors")
	}
	return n, nil
}
