package smoke

import (
	"crypto/rand"

	"github.com/quavon/quavon/runner/guest/probe"
)

// Secret is a new value that no job may find. It can be told from anything else.
func Secret() string { return probe.CanaryPrefix() + rand.Text() }
