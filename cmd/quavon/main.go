// Command quavon runs untrusted code in throwaway sandboxes.
package main

import (
	"context"
	"os"

	"github.com/quavon/quavon/commands"
)

func main() { os.Exit(commands.Main(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr)) }
