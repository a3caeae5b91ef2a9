// Package leak finds goroutines that tests leave behind. On a busy machine some take
// longer to end than goleak has patience.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const patience = time.Minute

// Find waits until no goroutine is left, and returns an error that shows those which stay.
func Find(options ...goleak.Option) error {
	over := time.Now().Add(patience)
	for {
		err := goleak.Find(options...)
		if err == nil || time.Now().After(over) {
			return err
		}
	}
}

// Main is for TestMain: it runs the tests and returns the exit code, 1 also when they
// leave goroutines behind.
func Main(m *testing.M) int {
	code := m.Run()
	if err := Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
