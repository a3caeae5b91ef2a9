package smoke

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/job"
)

func timingEntries() []Entry {
	return []Entry{
		{
			ID: "I1-wall", Group: GroupTiming, Title: "a job that ignores every signal ends with its wall clock, and nothing of it stays",
			Control: "its signs of life come until then; without a clock they go on", Weak: []string{"no-wall-clock"}, Alone: outlive,
		},
		{
			ID: "I3-clock", Group: GroupTiming, Quick: true, Title: "a job can't move the clock",
			Control: "the kernel of a job that may takes the same call", Weak: []string{"runc-caps", "runc-root", "runc-kernel"},
			Inside: []string{"I3-clock"},
			Judge: expects(map[Family][]Expect{
				GVisor: each("I3-clock", []string{"ENOSYS", "EPERM"}, "adjtimex", "clock-adjtime"),
			}),
		},
		{
			ID: "I4-orphan", Group: GroupTiming, Root: true,
			Title:   "a job ends with its program though a process of its own still holds its output, and nothing of it stays",
			Control: "that process is started with the output, and the host's processes of the sandbox are seen meanwhile",
			Weak:    []string{"no-cleanup"}, Alone: orphaned,
		},
	}
}

// outlive gives a job that beats for 15 seconds a clock of less. A busy host may take its
// time to end it: whether it came to its own end tells most.
func outlive(ctx context.Context, b *Bench) Outcome {
	const id, wall, late = "I1-wall", 4 * time.Second, 20 * time.Second
	limits := roomWith(func(l *job.Limits) { l.Wall = wall })
	var pids *group
	start := time.Now()
	lines, live, err := b.Run(ctx, Session{
		Name: lower(id), Inside: []string{id}, Limits: &limits,
		Watch: func(ctx context.Context, live *Live) error {
			start = time.Now()
			if b.Locate != nil {
				pids, _ = b.group(ctx, live.Job) // what isn't found isn't looked at afterwards
			}
			return nil
		},
	})
	took := time.Since(start)
	c := &Case{Bench: b, Lines: lines, Live: live}
	switch {
	case c.Find(id, probe.SubAll) != nil:
		return Outcome{Broken, fmt.Sprintf("the job ran to its own end, %v after its start", took.Round(time.Millisecond))}
	case took > late:
		return Outcome{Broken, fmt.Sprintf("the job ended %v after its start", took.Round(time.Millisecond))}
	case c.Find(id, "beat-0") == nil:
		return Outcome{CouldNotRun, fmt.Sprintf("the job showed no sign of life: %v", err)}
	case live.Result.Reason != job.ReasonTimeoutWall:
		return Outcome{CouldNotRun, fmt.Sprintf("the job ended for another reason: %q, %v", live.Result.Reason, err)}
	}
	if pids != nil {
		if left := pids.stillThere(ctx); left != nil {
			return Outcome{Broken, "still there: " + strings.Join(left, ", ")}
		}
	}
	return Outcome{Verdict: Held}
}

// orphaned ends a job's program while a process that it has left holds its output.
func orphaned(ctx context.Context, b *Bench) Outcome {
	const id, wall, late = "I4-orphan", 12 * time.Second, 10 * time.Second
	limits := roomWith(func(l *job.Limits) { l.Wall = wall })
	var g *group
	var released time.Time
	lines, live, err := b.Run(ctx, Session{
		Name: lower(id), Inside: []string{id}, Limits: &limits,
		Watch: func(ctx context.Context, live *Live) (err error) {
			live.until(ctx, id)
			g, err = b.group(ctx, live.Job)
			released = time.Now()
			return err
		},
	})
	took := time.Since(released)
	left := (&Case{Lines: lines}).Find(id, probe.SubOrphan)
	switch {
	case released.IsZero() || left == nil || left.Errno != "":
		return Outcome{CouldNotRun, fmt.Sprintf("no process was left behind: %+v, %v", left, err)}
	case live.Result.Reason == job.ReasonTimeoutWall || took > late:
		return Outcome{Broken, fmt.Sprintf("the job went on for %v after its program, until: %q %v",
			took.Round(time.Millisecond), live.Result.Reason, err)}
	case err != nil:
		return unseen(err)
	}
	if still := g.stillThere(ctx); still != nil {
		return Outcome{Broken, "still there: " + strings.Join(still, ", ")}
	}
	return Outcome{Verdict: Held}
}

func lower(id string) string { return strings.ToLower(id) }
