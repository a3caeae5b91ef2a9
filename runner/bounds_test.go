package runner

import (
	"testing"

	"github.com/quavon/quavon/runner/agent/wire"
	"github.com/quavon/quavon/runner/job"
)

// A job that is valid must fit through the agent's protocol, the sandbox's base
// environment included.
func TestAValidJobFitsTheProtocol(t *testing.T) {
	t.Parallel()
	base := 0
	for _, e := range environ(nil) {
		base += len(e) + 1
	}
	if job.MaxArgBytes > wire.MaxArgBytes || job.MaxEnvBytes+base > wire.MaxEnvBytes || job.MaxStrings+20 > min(wire.MaxArgs, wire.MaxEnv) {
		t.Errorf("bounds of job: %d, %d, %d; of the protocol: %d, %d, %d; base environment: %d bytes",
			job.MaxArgBytes, job.MaxEnvBytes, job.MaxStrings, wire.MaxArgBytes, wire.MaxEnvBytes, wire.MaxArgs, base)
	}
}
