package runsc

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onThread runs f on an operating system thread that serves nothing else and
// ends with f. So f may change the thread's namespaces, and a child started with
// a parent-death signal gets it when f returns or the process dies.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread() // Never unlocked: the runtime then ends the thread.
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		// The main thread can't end. Hold it until another one is found.
		found := make(chan struct{})
		onThread(func() { close(found); f() })
		<-found
		runtime.UnlockOSThread()
	}()
}
