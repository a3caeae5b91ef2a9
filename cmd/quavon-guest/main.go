// Command quavon-guest is the agent inside each sandbox.
package main

import (
	"os"

	"github.com/quavon/quavon/runner/guest"
)

func main() { os.Exit(guest.Main(os.Args[1:], os.Stdout, os.Stderr)) }
