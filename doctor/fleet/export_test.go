package fleet

import (
	"testing"
	"time"

	"github.com/quavon/quavon/doctor"
)

// SetAliveTime shortens the wait for a runner that says nothing.
func SetAliveTime(_ *testing.T, f *Fleet, d time.Duration) { f.aliveTime = d }

// Read reads an answer.
func Read(payload []byte) (doctor.Finding, error) {
	f, _, err := read(payload)
	return f, err
}
