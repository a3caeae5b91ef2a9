package commands

import (
	"context"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/queue/conn"
)

// openValkey connects to the Valkey that the settings name.
func (p *program) openValkey(ctx context.Context, s *settings) (c valkey.Client, err error) {
	where, err := s.valkey()
	if err != nil {
		return nil, err
	}
	err = p.awaitValkey(ctx, func() error {
		c, err = conn.Open(where)
		return err
	})
	return c, err
}

// awaitValkey connects, and waits for a Valkey that isn't there yet.
func (p *program) awaitValkey(ctx context.Context, connect func() error) error {
	for {
		err := connect()
		if err == nil || !conn.Passing(err) {
			return err
		}
		p.Log.Warn("Valkey can't be reached: trying again", "error", err)
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return err
		}
	}
}
