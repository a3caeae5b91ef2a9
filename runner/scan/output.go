package scan

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

// Bounds of a driver's list of runs.
const (
	maxRunsFile = 4 << 20
	maxRuns     = 1000
)

// runs is what the driver says of what it ran.
type runs struct {
	Runs    []oneRun `json:"runs"`
	Skipped []string `json:"skipped"`
}

// oneRun is one scanner in one directory.
type oneRun struct {
	Tool     string  `json:"tool"`
	Dir      string  `json:"dir"`
	Failed   string  `json:"failed"`
	Exit     int     `json:"exit"`
	TimedOut bool    `json:"timed_out"`
	Files    int     `json:"files"`
	Wall     float64 `json:"wall"`
	CPU      float64 `json:"cpu"`

	out, err []byte
}

// Read makes a report of what the driver wrote; repoPath is what comes before its
// paths in the repository, "" or with a "/" behind.
func Read(r io.Reader, o Options, repoPath string) (*Report, error) {
	all, err := readRuns(io.LimitReader(r, maxStream))
	if err != nil {
		return nil, fault.Wrap(err, "read what the scanners said", "run it again; a scanner may have been ended by a limit").
			WithCode(string(job.ReasonInternal))
	}
	rep := &Report{}
	for _, t := range tools {
		rep.add(t, all, o, repoPath)
	}
	slices.SortFunc(rep.Tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	rep.sort()
	return rep, nil
}

// readRuns takes the stream apart. Runs that have no output yet keep nil.
func readRuns(r io.Reader) (runs, error) {
	var all runs
	in := tar.NewReader(r)
	for first := true; ; first = false {
		h, err := in.Next()
		if errors.Is(err, io.EOF) && !first {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if first {
			if all, err = readIndex(in, h); err != nil {
				return all, err
			}
			continue
		}
		if err := all.take(in, h); err != nil {
			return all, err
		}
	}
}

func readIndex(in io.Reader, h *tar.Header) (all runs, err error) {
	text, err := io.ReadAll(io.LimitReader(in, maxRunsFile+1))
	switch {
	case err != nil:
		return all, err
	case h.Name != "runs.json" || len(text) > maxRunsFile:
		return all, errors.New("the stream does not begin with the list of runs")
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return all, err
	}
	if len(all.Runs) > maxRuns {
		return all, fmt.Errorf("there are more than %d runs", maxRuns)
	}
	return all, nil
}

// take notes the output of a run.
func (all *runs) take(in io.Reader, h *tar.Header) error {
	number, kind, _ := strings.Cut(h.Name, ".")
	n, err := strconv.Atoi(number)
	i := slices.IndexFunc(all.Runs, func(r oneRun) bool { return r.Files == n && r.Failed == "" })
	if err != nil || i < 0 || h.Typeflag != tar.TypeReg {
		return errors.New("the stream has what isn't any run's output")
	}
	text, err := io.ReadAll(io.LimitReader(in, maxOutput+1))
	if err != nil {
		return err
	}
	switch to := &all.Runs[i]; {
	case kind == "out" && to.out == nil:
		to.out = text
	case kind == "err" && to.err == nil:
		to.err = text
	default:
		return errors.New("the stream has a run's output twice")
	}
	return nil
}

// add makes one scanner's part of the report.
func (r *Report) add(t tool, all runs, o Options, repoPath string) {
	part := Tool{Name: t.Name, Status: StatusOK}
	to := &sink{tool: &part, root: o.Root, aside: o.Aside, repoPath: repoPath}
	ran := false
	for _, one := range all.Runs {
		if one.Tool == t.Name {
			ran = true
			to.dir = one.Dir
			one.read(t, to)
		}
	}
	switch {
	case slices.Contains(o.Disable, t.Name):
		part.Status = StatusDisabled
	case len(part.Errors) > 0:
		part.Status = StatusError
	case !ran && slices.Contains(all.Skipped, t.Name):
		part.Status = StatusSkipped
	case !ran:
		part.Status, part.Errors = StatusError, []string{"it was not run"}
	}
	to.close()
	r.Tools = append(r.Tools, part)
	r.Findings = append(r.Findings, to.findings...)
}

// read parses one run's output.
func (one *oneRun) read(t tool, to *sink) {
	to.tool.Wall += seconds(one.Wall)
	to.tool.CPU += seconds(one.CPU)
	why := one.failure(t)
	if len(one.out) > maxOutput {
		to.fail(fmt.Sprintf("it said more than %d MiB", maxOutput>>20))
		return
	}
	err := errors.New("it said nothing")
	if len(bytes.TrimSpace(one.out)) > 0 {
		err = t.parse(one.out, to)
	}
	switch {
	case why != "":
		to.fail(why)
	case err != nil:
		to.fail(fmt.Sprintf("its output can't be read: %v%s", err, one.said()))
	}
}

// failure says why a run doesn't count as one, "" when it does.
func (one *oneRun) failure(t tool) string {
	switch {
	case one.Failed != "":
		return "it could not be started: " + one.Failed
	case one.TimedOut:
		return fmt.Sprintf("it was ended after %s, its timeout", seconds(one.Wall).Round(time.Second))
	case one.Exit < 0:
		return fmt.Sprintf("it was ended by signal %d%s", -one.Exit, one.said())
	case !slices.Contains(t.OK, one.Exit):
		return fmt.Sprintf("it failed with exit code %d%s", one.Exit, one.said())
	}
	return ""
}

// said is the end of what the scanner has to say to a person.
func (one *oneRun) said() string {
	const most = 600
	text := bytes.TrimSpace(one.err)
	if len(text) == 0 {
		return ""
	}
	return ": " + string(text[max(0, len(text)-most):])
}

// seconds is a duration that can't be absurd.
func seconds(s float64) time.Duration {
	if !(s > 0) || s > (24*time.Hour).Seconds() || math.IsNaN(s) {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}
