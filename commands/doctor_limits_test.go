package commands

import (
	"strings"
	"testing"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/job"
)

// TestLimitOutcomes tells a limit that doesn't hold from one that could not be tried.
func TestLimitOutcomes(t *testing.T) {
	t.Parallel()
	results := func(pairs ...string) map[string]probe.Line {
		m := map[string]probe.Line{}
		for i := 0; i < len(pairs); i += 3 {
			m[pairs[i]] = probe.Line{Sub: pairs[i], Errno: pairs[i+1], Answer: pairs[i+2]}
		}
		return m
	}
	hit := func(r job.Reason) job.Result { return job.Result{Reason: r, LimitsHit: []string{string(r)}} }
	nowhere := results("workbench-before", "EACCES", "", "write-tmp", "EACCES", "0", "write-workspace", "ENOENT", "0", "allocate", "EACCES", "")
	for name, c := range map[string]struct {
		try   string
		got   tried
		state doctor.State
		says  string
	}{
		"no place to write":    {"disk", tried{Result: job.Result{}, results: nowhere, whole: true}, doctor.Error, "write-tmp: EACCES"},
		"no program":           {"disk", tried{Result: job.Result{Exit: 127}, out: "no such file"}, doctor.Error, "127"},
		"a full disk":          {"disk", tried{results: results("write-tmp", "ENOSPC", "16777216", "write-workspace", "EACCES", "0")}, doctor.Pass, ""},
		"a disk that was full": {"disk", tried{results: results("write-tmp", "ENOSPC", "0")}, doctor.Error, "ENOSPC"},
		"full, says the agent": {"disk", tried{Result: hit(job.ReasonLimitDisk)}, doctor.Pass, ""},
		"one place too large":  {"disk", tried{Result: hit(job.ReasonLimitDisk), results: results("write-tmp", "ENOSPC", "1", "write-dev-shm", "", "67108864")}, doctor.Fail, "67108864 bytes to dev-shm"},
		"memory":               {"memory", tried{Result: hit(job.ReasonLimitMemory)}, doctor.Pass, ""},
		"all memory":           {"memory", tried{results: results("all", "", "512"), whole: true}, doctor.Fail, "had 512"},
		"killed otherwise":     {"memory", tried{Result: job.Result{Exit: 137, Reason: job.ReasonInternal}}, doctor.Error, "137"},
		"no fork":              {"processes", tried{results: results("all", "EAGAIN", "20")}, doctor.Pass, ""},
		"no permission":        {"processes", tried{results: results("all", "EPERM", "0")}, doctor.Error, "EPERM"},
		"all processes":        {"processes", tried{results: results("all", "", "60")}, doctor.Fail, "had 60"},
		"all output":           {"output", tried{results: results("all", "", "")}, doctor.Fail, "had all"},
		"output":               {"output", tried{Result: hit(job.ReasonLimitOutput)}, doctor.Pass, ""},
		"time":                 {"wall clock", tried{Result: job.Result{Reason: job.ReasonTimeoutWall}}, doctor.Pass, ""},
		"no end":               {"wall clock", tried{whole: true}, doctor.Fail, "instead of by the limit"},
		"no begin":             {"wall clock", tried{Result: job.Result{Exit: 126}}, doctor.Error, "126"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l limitsSeen
			for _, try := range limitTries() {
				if try.name == c.try {
					l.add(try.name, try.judge(c.got))
				}
			}
			f := l.finding()
			if text := strings.Join(f.Details, "\n"); f.State != c.state || !strings.Contains(text, c.says) || strings.Contains(f.Message, "doesn't hold") != (c.state == doctor.Fail) {
				t.Errorf("%s %s %s", f.State, f.Message, text)
			}
		})
	}
}
