package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/queue"
)

type statusOptions struct {
	*program
	settings *settings
	Output   string
	Watch    bool
	Interval time.Duration
}

// statusReport is what quavon status tells.
type statusReport struct {
	At      time.Time      `json:"at"`
	Runners []runnerStatus `json:"runners"`
	Queue   queue.Status   `json:"queue"`
}

type runnerStatus struct {
	queue.Health
	// EvidenceAge is since the sandboxes were tested, in seconds; nil when they
	// weren't.
	EvidenceAge *float64 `json:"evidence_age_s,omitempty"`
}

const statusLong = `Show the runners of the queue, how long ago their sandboxes were tested, the jobs that
wait and those that run. Runners' records count only when they are signed.

With --watch the table is shown again and again: in place on a terminal, one after
the other elsewhere; with -o json, one document per line.`

func newStatus(p *program, run func(context.Context, *statusOptions) error) *cobra.Command {
	o := &statusOptions{program: p, settings: newSettings(queueSettings()...)}
	cmd := &cobra.Command{
		Use: "status", Short: "Show runners, jobs and the queue", Long: statusLong, Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Output != "text" && o.Output != "json" {
				return &usageError{cmd, fault.New(fmt.Sprintf("--output %q is unknown", o.Output), "use text or json")}
			}
			if o.Interval < 100*time.Millisecond {
				return &usageError{cmd, fault.New("--interval is too short", "use at least 100ms")}
			}
			if err := o.settings.load(p, cmd.Flags().Changed); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.Output, "output", "o", "text", "text or json")
	f.BoolVar(&o.Watch, "watch", false, "show it again and again")
	f.DurationVar(&o.Interval, "interval", 2*time.Second, "time between two looks of --watch")
	o.settings.register(f)
	return cmd
}

func showStatus(ctx context.Context, o *statusOptions) error {
	c, err := o.settings.client(ctx, o.program)
	if err != nil {
		return err
	}
	defer c.Close()
	if o.Watch {
		return o.watch(ctx, c)
	}
	s, err := look(ctx, c)
	if err != nil {
		return err
	}
	if o.Output == "json" {
		return o.writeJSON(s)
	}
	return s.table(o.IO.Out)
}

// look asks the queue, within a while.
func look(ctx context.Context, c *client.Client) (statusReport, error) {
	const patience = 15 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("Valkey does not answer")) //nolint:staticcheck // a name
	defer cancel()
	runners, err := c.Runners(ctx)
	if err != nil {
		return statusReport{}, err
	}
	s := statusReport{At: time.Now(), Runners: []runnerStatus{}}
	for _, h := range runners {
		r := runnerStatus{Health: h}
		if h.Smoke != nil {
			age := s.At.Sub(h.Smoke.At).Seconds()
			r.EvidenceAge = &age
		}
		s.Runners = append(s.Runners, r)
	}
	s.Queue, err = c.Status(ctx)
	return s, err
}

// watch shows the status until the user has seen enough. A look that fails is shown
// too: Valkey may come back.
func (o *statusOptions) watch(ctx context.Context, c *client.Client) error {
	live := o.Output == "text" && o.IO.OutIsTerminal() && o.env("TERM") != "dumb"
	for {
		s, err := look(ctx, c)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // an interrupt is how this ends
		}
		if err := o.show(s, err, live); err != nil {
			return err
		}
		select {
		case <-time.After(o.Interval):
		case <-ctx.Done():
			return nil
		}
	}
}

func (o *statusOptions) show(s statusReport, failure error, live bool) error {
	if failure != nil && !live {
		o.report(failure)
		return nil
	}
	if o.Output == "json" {
		return json.NewEncoder(o.IO.Out).Encode(s)
	}
	var b strings.Builder
	if failure != nil {
		fmt.Fprintf(&b, "%s\n", printable(failure.Error()))
	} else if err := s.table(&b); err != nil {
		return err
	}
	text := b.String() + "\n"
	if live {
		// Home, each line to its end, and what is left of the screen: no flicker.
		text = "\x1b[H" + strings.ReplaceAll(b.String(), "\n", "\x1b[K\n") + "\x1b[J"
	}
	_, err := io.WriteString(o.IO.Out, text)
	return err
}

// table writes the status for people.
func (s statusReport) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "queue: %d interactive and %d batch jobs wait, %d run\n\n",
		s.Queue.WaitingInteractive, s.Queue.WaitingBatch, s.Queue.Running)
	if len(s.Runners) == 0 {
		fmt.Fprintln(w, "no runner is alive")
	} else {
		fmt.Fprintln(w, "RUNNER\tSTATE\tSLOTS\tBACKEND\tRUNTIME\tTESTED\tOFFERS\tWHY")
	}
	for _, r := range s.Runners {
		tested := "never"
		if r.Smoke != nil {
			tested = fmt.Sprintf("%s ago, %d of %d passed", since(s.At, r.Smoke.At), r.Smoke.Probes-len(r.Smoke.Failed), r.Smoke.Probes)
		}
		fmt.Fprintf(w, "%s\t%s\t%d/%d\t%s\t%s\t%s\t%s\t%s\n", printable(r.Runner), r.State, r.Busy, r.Slots, printable(r.Backend),
			printable(r.Runtime), tested, offers(r.Health), printable(strings.ReplaceAll(r.Why, "\n", " ")))
	}
	if len(s.Queue.Jobs) > 0 {
		fmt.Fprintln(w, "\nJOB\tRUNNER\tATTEMPT\tFOR\tTENANT\tPRIORITY")
	}
	for _, j := range s.Queue.Jobs {
		priority := "batch"
		if j.Priority == queue.Interactive {
			priority = "interactive"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", printable(j.ID), printable(j.Runner), j.Attempt, since(s.At, j.Since),
			printable(j.Tenant), priority)
	}
	return w.Flush()
}

func since(now, then time.Time) string { return max(0, now.Sub(then)).Round(time.Second).String() }

// offers says what a runner takes, in few words.
func offers(h queue.Health) string {
	var parts []string
	for _, c := range h.Classes {
		if !strings.HasPrefix(c, "sha256:") {
			parts = append(parts, printable(c))
		}
	}
	if n := len(h.Images); n > 0 {
		parts = append(parts, fmt.Sprintf("%d image digests", n))
	}
	return strings.Join(parts, ", ")
}
