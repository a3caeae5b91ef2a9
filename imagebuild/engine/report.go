package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

const (
	// maxSteps bounds what is remembered of a build.
	maxSteps = 10_000
	// maxTail is how many lines of a failed step are shown.
	maxTail = 20
	maxLine = 1000
)

// step is what is known of a step.
type step struct {
	name string
	// tail is the end of its output; open the line that isn't complete.
	tail []string
	open string
	done bool
	err  string
}

// reporter turns the engine's messages into steps.
type reporter struct {
	progress func(Step)
	hide     *redactor
	steps    map[string]*step
	// classic is the step of the old builder that runs.
	classic *step
}

func (r *reporter) message(m *message) {
	switch {
	case m.ID == "moby.buildkit.trace":
		var raw []byte
		if json.Unmarshal(m.Aux, &raw) != nil {
			return
		}
		if s, err := parseStatus(raw); err == nil {
			r.status(s)
		}
	case m.Stream != "":
		r.stream(m.Stream)
	}
}

// status notes what BuildKit reports.
func (r *reporter) status(s *status) {
	for _, v := range s.vertexes {
		at := r.step(v.digest)
		at.name, at.err = r.hide.text(v.name), r.hide.text(v.err)
		if v.completed && !at.done && v.err == "" && fromDockerfile(v.name) {
			at.done = true
			r.tell(Step{Name: at.name, Done: true, Cached: v.cached})
		}
	}
	for _, l := range s.logs {
		r.log(r.step(l.vertex), string(l.text))
	}
}

// fromDockerfile tells instructions, "[2/3] RUN x", from what BuildKit does besides.
func fromDockerfile(name string) bool {
	return strings.HasPrefix(name, "[") && !strings.HasPrefix(name, "[internal]")
}

func (r *reporter) step(digest string) *step {
	s := r.steps[digest]
	if s == nil {
		s = new(step)
		if len(r.steps) < maxSteps {
			r.steps[digest] = s
		}
	}
	return s
}

// stream notes what the old builder writes: "Step 1/3 : FROM x", then output.
func (r *reporter) stream(text string) {
	if strings.HasPrefix(text, "Step ") && strings.Contains(text, " : ") {
		r.finish()
		_, name, _ := strings.Cut(strings.TrimSpace(text), " : ")
		r.classic = &step{name: r.hide.text(name)}
		return
	}
	switch s := r.classic; {
	case s == nil:
	case strings.HasPrefix(text, " ---> Using cache"):
		s.done = true
		r.tell(Step{Name: s.name, Done: true, Cached: true})
	case !strings.HasPrefix(text, " ---> "):
		r.log(s, text)
	}
}

// finish ends the old builder's step.
func (r *reporter) finish() {
	if s := r.classic; s != nil && !s.done {
		r.tell(Step{Name: s.name, Done: true})
	}
	r.classic = nil
}

func (r *reporter) log(s *step, text string) {
	lines := strings.Split(s.open+text, "\n")
	s.open = clip(lines[len(lines)-1])
	for _, line := range lines[:len(lines)-1] {
		line = r.hide.text(clip(strings.TrimRight(line, "\r")))
		if s.tail = append(s.tail, line); len(s.tail) > maxTail {
			s.tail = s.tail[1:]
		}
		r.tell(Step{Name: s.name, Log: line})
	}
}

func clip(line string) string {
	if len(line) > maxLine {
		return line[:maxLine] + "…"
	}
	return line
}

func (r *reporter) tell(s Step) {
	if r.progress != nil {
		r.progress(s)
	}
}

// explain adds which step failed and what it wrote last.
func (r *reporter) explain(err error) error {
	err = errors.New(r.hide.text(err.Error()))
	failed := r.classic
	for _, s := range r.steps {
		if s.err != "" && !strings.Contains(s.err, "context canceled") {
			failed = s
		}
	}
	if failed == nil {
		return err
	}
	tail := failed.tail
	if failed.open != "" {
		tail = append(tail, r.hide.text(failed.open))
	}
	if len(tail) == 0 {
		return fmt.Errorf("%s: %w", failed.name, err)
	}
	return fmt.Errorf("%s: %w\n%s", failed.name, err, strings.Join(tail, "\n"))
}
