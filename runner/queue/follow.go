package queue

import (
	"context"
	"strconv"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// follower hands on a job's log, attempt by attempt.
type follower struct {
	t      *Ticket
	to     func(Frame) error
	frames *frameReader
}

// framesAtOnce bounds what one look fetches.
const framesAtOnce = 32

// read hands on what is new of an attempt's log. Earlier attempts are left alone.
func (f *follower) read(ctx context.Context, attempt uint32, runner string) error {
	if f.to == nil || f.frames != nil && attempt < f.frames.context.Attempt {
		return nil
	}
	if f.frames == nil || attempt > f.frames.context.Attempt {
		if f.frames != nil && f.frames.next > 0 {
			if err := f.to(Frame{Attempt: attempt, Kind: Restart}); err != nil {
				return err
			}
		}
		q := f.t.q
		f.frames = &frameReader{keys: q.o.Keys, context: envelope.Context{
			Purpose: envelope.PurposeOutput, Audience: q.toSubmitters(), Job: f.t.id, Attempt: attempt, Runner: runner, Thread: f.t.thread,
		}}
	}
	for !f.frames.ended {
		n, err := f.more(ctx, attempt)
		if err != nil || n < framesAtOnce {
			return err
		}
	}
	return nil
}

func (f *follower) more(ctx context.Context, attempt uint32) (int, error) {
	q := f.t.q
	from := strconv.FormatUint(f.frames.next+1, 10) + "-0"
	var entries []valkey.XRangeEntry
	err := conn.Do(ctx, "read output", func(ctx context.Context, _ int) (err error) {
		cmd := q.client.B().Xrange().Key(q.outputKey(f.t.id, attempt)).Start(from).End("+").Count(framesAtOnce).Build()
		entries, err = q.client.Do(ctx, cmd).AsXRange()
		return err
	})
	if err != nil && !valkey.IsValkeyNil(err) {
		return 0, err
	}
	for _, e := range entries {
		frame, err := f.frames.open([]byte(e.FieldValues["f"]))
		if err != nil {
			return 0, q.counted(err)
		}
		if frame.Kind == frameEnd {
			return 0, nil
		}
		if err := f.to(frame); err != nil {
			return 0, err
		}
	}
	return len(entries), nil
}
