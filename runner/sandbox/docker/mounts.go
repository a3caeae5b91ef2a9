package docker

import (
	"fmt"
	"os"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// checkMounts refuses what can't be copied into a sandbox, before there is one.
func checkMounts(mounts []job.Mount) error {
	for _, m := range mounts {
		fi, err := os.Stat(m.Source)
		if err == nil && !fi.IsDir() {
			err = fmt.Errorf("%s is not a directory", m.Source)
		}
		if err != nil {
			return fault.Wrap(err, "attach "+m.Source, "check that the directory exists")
		}
	}
	return nil
}
