package runner

import (
	"bytes"
	"sync"
	"testing"
)

// TestWritersAreGivenBack: output of a job that was given up is still on its way when its
// end is told. What it is written to is the caller's from then on.
func TestWritersAreGivenBack(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	j := &run{streams: Streams{Stdout: &out}}
	j.capOutput(func(error) {})
	begun, over := make(chan struct{}), make(chan struct{})
	var command sync.WaitGroup
	command.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			default:
				_, _ = j.streams.Stdout.Write([]byte("y\n"))
			}
			if n == 0 {
				close(begun)
			}
		}
	})
	<-begun
	res := j.finish()
	if res.Output.Delivered == 0 || int64(out.Len()) != res.Output.Delivered {
		t.Errorf("%d bytes were written, %d are told of", out.Len(), res.Output.Delivered)
	}
	close(over)
	command.Wait()
}
