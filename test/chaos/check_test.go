package chaos

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
)

// check compares what submitters were told with the ledger, and with what the queue
// says when it is asked again. It returns how many jobs ended for which reason.
func check(t *testing.T, f *fleet, q *queue.Queue, book map[entry]int, outcomes []outcome) map[string]int {
	t.Helper()
	verdicts := map[string]int{}
	stores := map[string][]entry{}
	for e, n := range book {
		switch e.what {
		case stored:
			for range n {
				stores[e.job] = append(stores[e.job], e)
			}
		case lost:
			f.counts["attempts whose result was refused"] += n
		}
	}
	for _, o := range outcomes {
		if o.result == nil {
			verdicts["not known"]++
			continue
		}
		verdicts[cmp.Or(string(o.result.Reason), "ended by itself")]++
		if r := o.result; r.Reason != job.ReasonNone {
			t.Logf("job %d (%s): %s by %q after attempt %d: %s", o.n, o.id, r.Reason, r.Runner, r.Attempt, r.Message)
		}
		if o.result.Attempt > 1 {
			f.counts["jobs that took more than one attempt"]++
		}
		for _, why := range wrong(o, book, stores[o.id]) {
			t.Errorf("job %d (%s): %s", o.n, o.id, why)
		}
		again(t, client.New(q), o)
	}
	if n := f.counts["attempts whose result was refused"]; n < holdsWanted/2 {
		t.Errorf("only %d late results were refused", n)
	}
	s, err := q.Status(t.Context())
	if err != nil || s.Running != 0 || s.WaitingBatch != 0 || s.WaitingInteractive != 0 {
		t.Errorf("the queue isn't empty: %+v, %v", s, err)
	}
	if !f.calm() {
		t.Errorf("not all that was to happen did: %v left, %d holds", f.killsAt, f.holds)
	}
	return verdicts
}

// wrong lists what is wrong with an outcome.
func wrong(o outcome, book map[entry]int, stores []entry) (list []string) {
	r := o.result
	if len(stores) > 1 {
		list = append(list, fmt.Sprintf("stored %d times: %v", len(stores), stores))
	}
	if len(stores) == 1 && (stores[0].attempt != r.Attempt || stores[0].runner != r.Runner) {
		list = append(list, fmt.Sprintf("stored as %v, told as attempt %d of %q", stores[0], r.Attempt, r.Runner))
	}
	if r.Reason != job.ReasonNone {
		if r.Reason != job.ReasonOutcomeUnknown {
			list = append(list, fmt.Sprintf("ended %q: %s", r.Reason, r.Message))
		}
		return list
	}
	if r.Exit != o.n%5 {
		list = append(list, fmt.Sprintf("exit %d, want %d", r.Exit, o.n%5))
	}
	if book[entry{marked, o.id, r.Attempt, r.Runner}] != 1 {
		list = append(list, fmt.Sprintf("the ledger has %d marks of attempt %d by %s", book[entry{marked, o.id, r.Attempt, r.Runner}], r.Attempt, r.Runner))
	}
	if want := fmt.Sprintf("mark %d\n", o.n); r.LogComplete && o.out != want {
		list = append(list, fmt.Sprintf("printed %q, want %q", o.out, want))
	}
	return list
}

// again asks the queue once more: what has ended stays as it is.
func again(t *testing.T, c *client.Client, o outcome) {
	t.Helper()
	ticket, err := c.Attach(t.Context(), o.id)
	if err != nil {
		t.Errorf("job %d: asked again: %v", o.n, err)
		return
	}
	defer ticket.Close()
	r, err := ticket.Wait(t.Context(), client.Log{})
	if err != nil || r.Attempt != o.result.Attempt || r.Runner != o.result.Runner || r.Reason != o.result.Reason || r.Exit != o.result.Exit {
		t.Errorf("job %d: asked again: %+v, %v, want %+v", o.n, r, err, o.result)
		return
	}
	if o.n%6 != 0 || r.Reason != job.ReasonNone {
		return
	}
	var patch bytes.Buffer
	if err := r.Patch(t.Context(), &patch); err != nil || !strings.Contains(patch.String(), fmt.Sprintf("\n+%d\n", o.n)) {
		t.Errorf("job %d: patch %q, %v", o.n, patch.String(), err)
	}
}

// report prints what happened.
func report(t *testing.T, f *fleet, verdicts map[string]int, took time.Duration) {
	t.Helper()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "jobs\t%d\nrunners, each with %d slots\t%d\ntook\t%v\n", jobs, slots, runners, took.Round(time.Second))
	for _, list := range []map[string]int{verdicts, f.counts} {
		for _, k := range slices.Sorted(maps.Keys(list)) {
			fmt.Fprintf(w, "%s\t%d\n", k, list[k])
		}
	}
	_ = w.Flush()
	t.Logf("\n%s", b.String())
}
