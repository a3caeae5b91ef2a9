package guest

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/sandbox"
)

// diskEvery is how often scratch is looked at. A job that frees what it failed
// to fill within this time goes unseen; it has seen the error itself.
const diskEvery = 50 * time.Millisecond

// watchDisk tells, once exited is closed, whether scratch had no room left at
// some time until then.
func watchDisk(exited <-chan struct{}) <-chan bool {
	result := make(chan bool, 1)
	go func() {
		tick := time.NewTicker(diskEvery)
		defer tick.Stop()
		full := false
		for !full {
			select {
			case <-tick.C:
				full = diskFull()
			case <-exited:
				result <- diskFull()
				return
			}
		}
		result <- true
	}()
	return result
}

func diskFull() bool {
	var st unix.Statfs_t
	err := unix.Statfs(sandbox.ScratchDir, &st)
	return err == nil && st.Blocks > 0 && st.Bavail == 0
}
