package commands

import (
	"cmp"
	"path/filepath"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/workspace"
)

// fileFlag refuses a file that could not be written when all is over: to be told so after
// an hour's job is too late. "" and "-" are none.
func fileFlag(flag, path string) error {
	return outputFlag(flag, path, workspace.CheckWritable)
}

// dirFlag is fileFlag for a directory, which is made when it is missing.
func dirFlag(flag, path string) error {
	return outputFlag(flag, path, workspace.CheckOutDir)
}

func outputFlag(flag, path string, check func(string) error) error {
	if path == "" || path == "-" {
		return nil
	}
	if err := check(path); err != nil {
		return fault.Wrap(err, flag, "name a place that you can write to, or make its directory first").
			WithCode(string(job.ReasonRejected))
	}
	return nil
}

// checkResult is fileFlag for --json. With --write the job may yet make its place.
func (o *runOptions) checkResult() error {
	if o.makes(o.JSON) {
		return nil
	}
	return fileFlag("--json", o.JSON)
}

// checkPlaces is checkResult for what the job hands back.
func (o *runOptions) checkPlaces() error {
	var patch, out error
	if !o.makes(o.Patch) {
		patch = fileFlag("--patch", o.Patch)
	}
	if !o.makes(o.Out) {
		out = dirFlag("--out", o.Out)
	}
	return cmp.Or(patch, out)
}

// makes says whether what the job writes back may have path in it.
func (o *runOptions) makes(path string) bool {
	if !o.Write {
		return false
	}
	file, err := filepath.Abs(path)
	dir, dirErr := filepath.Abs(o.Workspace)
	return cmp.Or(err, dirErr) == nil && job.Within(file, dir)
}
