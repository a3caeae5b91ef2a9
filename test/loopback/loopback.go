// Package loopback gives tests addresses of this host's that nobody else uses: on 127.0.0.1
// others take ports that a test has just let go, and knock at those that it listens on.
package loopback

import (
	"fmt"
	"math/rand/v2"
)

// Host is an address of 127.0.0.0/8, another one each time.
func Host() string { return fmt.Sprintf("127.%d.%d.%d", 1+rand.N(250), rand.N(250), 1+rand.N(250)) }
