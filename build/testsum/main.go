// Command testsum reads `go test -json` and prints what a person wants to see:
// each package's closing line as go test writes it, the output of what failed,
// and one line that counts tests and subtests.
//
//	go test -json ./... | testsum [-no-skips]
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	noSkips := flag.Bool("no-skips", false, "fail when a test was skipped")
	flag.Parse()
	s, err := summarize(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	if !s.ok(*noSkips) {
		os.Exit(1)
	}
}

// event is a line of `go test -json`; see `go doc cmd/test2json`. Build output
// comes with ImportPath instead of Package.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// testKey names a test or subtest, a package when Test is "".
type testKey struct{ pkg, test string }

// summary is what was counted. Failed counts packages too, when none of their
// tests says why: they did not build, or panicked, or ran out of time.
type summary struct {
	Passed, Failed, Skipped int

	skips    []string
	failedIn map[string]bool
	output   map[testKey]string
	w        *bufio.Writer
}

// ok tells whether the run counts as passed. A run without any test doesn't.
func (s *summary) ok(noSkips bool) bool {
	return s.Failed == 0 && s.Passed > 0 && (!noSkips || s.Skipped == 0)
}

// summarize reads events from r to its end and writes the report to w, each line
// as soon as it is known.
func summarize(r io.Reader, w io.Writer) (*summary, error) {
	s := &summary{failedIn: map[string]bool{}, output: map[testKey]string{}, w: bufio.NewWriter(w)}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			e = event{Action: "build-output", Output: lines.Text() + "\n"}
		}
		s.add(e)
		if err := s.w.Flush(); err != nil {
			return nil, err
		}
	}
	for _, skip := range s.skips {
		s.print(skip)
	}
	s.print(fmt.Sprintf("%d passed, %d failed, %d skipped\n", s.Passed, s.Failed, s.Skipped))
	if err := s.w.Flush(); err != nil {
		return nil, err
	}
	return s, lines.Err()
}

// print can't fail before the next Flush, which reports it.
func (s *summary) print(text string) { _, _ = s.w.WriteString(text) }

func (s *summary) add(e event) {
	key := testKey{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		s.print(e.Output)
	case "output":
		s.output[key] += e.Output
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e, key)
		} else {
			s.endTest(e, key)
		}
		delete(s.output, key)
	}
}

func (s *summary) endTest(e event, key testKey) {
	switch e.Action {
	case "pass":
		s.Passed++
	case "skip":
		s.Skipped++
		s.skips = append(s.skips, fmt.Sprintf("skipped: %s %s\n%s", e.Package, e.Test, s.output[key]))
	case "fail":
		s.Failed++
		s.failedIn[e.Package] = true
		s.print(s.output[key])
	}
}

// endPackage prints what the package itself said, which ends with go test's own
// closing line. A test that was still running when the package died has no
// event of its own, so its output comes first.
func (s *summary) endPackage(e event, pkg testKey) {
	if e.Action == "fail" {
		for key, text := range s.output {
			if key.pkg == e.Package && key.test != "" {
				s.print(text)
				delete(s.output, key)
			}
		}
		if !s.failedIn[e.Package] {
			s.Failed++
		}
	}
	s.print(s.output[pkg])
}
