// Command quavon-guest is the agent inside each sandbox. It sets its number of
// processors itself, and nobody looks at the names of its mappings: in a sandbox
// each of these system calls counts.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
//go:debug decoratemappings=0
package main

import (
	"os"

	"github.com/quavon/quavon/runner/guest"
)

func main() { os.Exit(guest.Main(os.Args[1:], os.Stdout, os.Stderr)) }
