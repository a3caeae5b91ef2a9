package smoke

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/job"
)

// use is an entry that uses up something that is limited, in a sandbox of its own.
type use struct {
	Entry
	limits job.Limits
	// amount is how much is asked for, more than there is.
	amount int
	// reason is the limit that the result must name.
	reason job.Reason
	// controller, v1, v2 and most are where the kernel has the limit, and the largest
	// number that it may be there; "" isn't looked at.
	controller, v1, v2 string
	most               int64
}

func (u use) entry() Entry {
	e := u.Entry
	e.Group = GroupLimits
	e.Root = u.controller != ""
	e.Alone = u.run
	return e
}

// room is what every such sandbox has besides.
var room = job.Limits{Memory: 512 << 20, Pids: 128, Disk: 64 << 20, Output: 4 << 20, Wall: 60 * time.Second}

func (u use) run(ctx context.Context, b *Bench) Outcome {
	var broken, unsure []string
	s := Session{
		Name: u.ID, Inside: []string{u.ID}, Limits: &u.limits,
		Params: map[string][]string{probe.ParamAmount: {strconv.Itoa(u.amount)}},
	}
	if u.controller != "" {
		s.Watch = func(ctx context.Context, live *Live) error {
			why, err := u.readBack(ctx, b, live)
			if err != nil {
				unsure = append(unsure, "read the kernel's limit: "+err.Error())
			}
			if why != "" {
				broken = append(broken, why)
			}
			return nil
		}
	}
	s.Name = lower(u.ID)
	lines, live, err := b.Run(ctx, s)
	c := &Case{Bench: b, Lines: lines, Live: live}
	all := c.Find(u.ID, probe.SubAll)
	switch {
	case all != nil && all.Errno == "":
		broken = append(broken, fmt.Sprintf("the job had all of %d", u.amount))
	case c.Find(u.ID, probe.SubBefore) == nil:
		unsure = append(unsure, fmt.Sprintf("the sandbox didn't come so far: %v", err))
	case all != nil && (all.Errno == "EAGAIN" || all.Errno == "ENOMEM") && u.reason == job.ReasonLimitPids && b.Backend == "docker-runsc":
		// Docker counts no refused forks. The sandbox's kernel was refused one and went on,
		// with an error for the job.
	case !slices.Contains(live.Result.LimitsHit, string(u.reason)):
		unsure = append(unsure, fmt.Sprintf("the result says %q, limits %v, not %s: %v %v",
			live.Result.Reason, live.Result.LimitsHit, u.reason, err, all))
	}
	return verdict(broken, unsure)
}

// readBack compares the kernel's limit.
func (u use) readBack(ctx context.Context, b *Bench, live *Live) (broken string, err error) {
	g, err := b.group(ctx, live.Job)
	if err != nil {
		return "", err
	}
	n, err := g.limit(u.controller, u.v1, u.v2)
	if err != nil || n <= u.most {
		return "", err
	}
	return fmt.Sprintf("the kernel's limit is %d, and should be at most %d", n, u.most), nil
}

func roomWith(change func(*job.Limits)) job.Limits {
	l := room
	change(&l)
	return l
}

const mebibyte = 1 << 20

func limitsEntries() []Entry {
	const pids, memory, output = 24, 128 * mebibyte, 256 << 10
	return []Entry{
		use{
			Entry: Entry{
				ID: "G1-processes", Title: "a job can't start more processes than its limit",
				Control: "the kernel's own limit is read from the sandbox's control group; without a limit all are there",
				Weak:    []string{"no-pids-limit"},
			},
			limits: roomWith(func(l *job.Limits) { l.Pids = pids }), amount: 60, reason: job.ReasonLimitPids,
			// Processes of the host: two for each, and the sandbox's own.
			controller: "pids", v1: "pids.max", v2: "pids.max", most: 4*pids + 64,
		}.entry(),
		use{
			Entry: Entry{
				ID: "G2-memory", Title: "a job can't have more memory than its limit",
				Control: "the kernel's own limit is read from the sandbox's control group; without a limit it has all of it",
				Weak:    []string{"no-memory-limit"},
			},
			limits: roomWith(func(l *job.Limits) { l.Memory = memory }), amount: 256, reason: job.ReasonLimitMemory,
			controller: "memory", v1: "memory.limit_in_bytes", v2: "memory.max", most: memory,
		}.entry(),
		{
			ID: "G3-disk", Group: GroupLimits, Title: "all that a job writes, wherever it does, stays within its disk limit",
			Control: "something could be written; without a limit all of it is", Weak: []string{"no-disk-limit"}, Alone: fillDisk,
		},
		{
			ID: "G4-processor", Group: GroupLimits, Root: true, Title: "a job can't have more processor time than its share",
			Control: "it has some; without a limit the kernel knows of none", Weak: []string{"no-cpu-limit"}, Alone: spin,
		},
		use{
			Entry: Entry{
				ID: "G5-output", Title: "a job's output is cut at its limit",
				Control: "the output before the limit has come; without a limit all of it does", Weak: []string{"no-output-limit"},
			},
			limits: roomWith(func(l *job.Limits) { l.Output = output }), amount: 600, reason: job.ReasonLimitOutput,
		}.entry(),
	}
}

// fillDisk sums up what a job could write.
func fillDisk(ctx context.Context, b *Bench) Outcome {
	const id, disk, amount = "G3-disk", 16 * mebibyte, 32
	limits := roomWith(func(l *job.Limits) { l.Disk = disk })
	lines, live, err := b.Run(ctx, Session{
		Name: lower(id), Inside: []string{id}, Limits: &limits, Params: map[string][]string{probe.ParamAmount: {strconv.Itoa(amount)}},
	})
	c := &Case{Bench: b, Lines: lines, Live: live}
	// An image needn't have all of the places.
	o := c.attempts(append(each(id, []string{"ENOSPC"}, "write-tmp", "write-workspace", "allocate"),
		each(id, []string{"ENOSPC", "ENOENT"}, "write-dev-shm", "write-var-tmp")...))
	if o.Verdict == Broken {
		return o
	}
	written := c.Find(id, "written")
	switch n := answerNumber(written); {
	case written == nil || n <= 0:
		return Outcome{CouldNotRun, fmt.Sprintf("nothing could be written: %v", err)}
	case n > disk:
		return Outcome{Broken, fmt.Sprintf("%d bytes could be written", n)}
	case err != nil && o.Verdict == Held:
		return Outcome{CouldNotRun, err.Error()}
	case !slices.Contains(live.Result.LimitsHit, string(job.ReasonLimitDisk)):
		return Outcome{CouldNotRun, fmt.Sprintf("the result does not name the limit: %v", live.Result.LimitsHit)}
	}
	return o
}

func answerNumber(l *probe.Line) int64 {
	if l == nil {
		return 0
	}
	n, err := strconv.ParseInt(l.Answer, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// spin measures what processor time the sandbox has while the job takes all it can.
func spin(ctx context.Context, b *Bench) Outcome {
	const id, share, during, tolerance = "G4-processor", 0.2, 1500 * time.Millisecond, 1.6
	limits := roomWith(func(l *job.Limits) { l.CPUs = share })
	o := Outcome{CouldNotRun, "nothing was measured"}
	lines, _, err := b.Run(ctx, Session{
		Name: lower(id), Inside: []string{id}, Limits: &limits,
		Params: map[string][]string{probe.ParamAmount: {strconv.FormatInt(4*during.Milliseconds(), 10)}},
		Watch: func(ctx context.Context, live *Live) error {
			if !waitFor(ctx, watchTime, func() bool { return len(live.Lines()) > 0 }) { // the workbench: the spinning begins
				return nil
			}
			g, err := b.group(ctx, live.Job)
			if err != nil {
				return err
			}
			quota, err := g.limit("cpu", "cpu.cfs_quota_us", "cpu.max")
			if err != nil {
				return err
			}
			before, start := g.used(), time.Now()
			select {
			case <-time.After(during):
			case <-ctx.Done():
			}
			had := float64(g.used()-before) / float64(time.Since(start))
			o = processorOutcome(quota, had, share, tolerance)
			return nil
		},
	})
	if o.Verdict != Broken && (err != nil || linesOf(lines, []string{id}) == nil) {
		return Outcome{CouldNotRun, fmt.Sprintf("%v %s", err, o.Why)}
	}
	return o
}

// processorOutcome judges a quota in microseconds of 100 ms, and the share that was had.
func processorOutcome(quota int64, had, share, tolerance float64) Outcome {
	const period = 100_000
	switch {
	case quota > int64(share*period*tolerance):
		return Outcome{Broken, fmt.Sprintf("the kernel's quota is %d µs of %d, and should be %.0f; it had %.2f processors",
			quota, period, share*period, had)}
	case had > share*tolerance:
		return Outcome{Broken, fmt.Sprintf("it had %.2f processors instead of %.2f", had, share)}
	case had < share/10:
		return Outcome{CouldNotRun, fmt.Sprintf("it had %.3f processors: it didn't try", had)}
	}
	return Outcome{Held, fmt.Sprintf("%.2f processors", had)}
}
