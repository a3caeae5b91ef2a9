// Command quavon runs untrusted code in throwaway sandboxes.
package main

import (
	"os"

	"github.com/quavon/quavon/commands"
)

func main() { os.Exit(commands.Main()) }
