package chaos

import (
	"os/exec"
	"runtime"
)

// lockedStart starts a process and keeps its parent thread until it is gone.
func lockedStart(cmd *exec.Cmd, started chan<- error, gone <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	started <- err
	if err == nil {
		<-gone
	}
}
