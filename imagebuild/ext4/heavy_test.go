package ext4

import "os"

// heavy asks for tests that take minutes or gigabytes.
func heavy() bool { return os.Getenv("QUAVON_HEAVY") == "1" }
