package imagebuild

import (
	"context"

	"github.com/quavon/quavon/imagebuild/engine"
)

// connected is a Docker Engine that is reached once, when it is needed.
type connected struct{ engine *engine.Engine }

func (c *connected) reach(ctx context.Context, connect func(context.Context) (*engine.Engine, error)) (*engine.Engine, error) {
	if c.engine != nil {
		return c.engine, nil
	}
	e, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	c.engine = e
	return e, nil
}

// Close ends the connection to the engine, if there is one.
func (c *connected) Close() error {
	if c.engine == nil {
		return nil
	}
	return c.engine.Close()
}

// tell tells events of one, if they are told to anybody.
func tell(events func(Event), e Event) {
	if events != nil {
		events(e)
	}
}
