package commands

import (
	"encoding/json"
	"errors"

	"github.com/quavon/quavon/installer"
	"github.com/quavon/quavon/runner/fault"
)

func (o *installOptions) showPlan(show *installView, plan []installer.Planned) error {
	show.close()
	show.color = show.color && o.IO.OutIsTerminal()
	if o.Output == "json" {
		return o.writeJSON(map[string]any{"schema": 1, "changes": len(installer.Changes(plan)), "phases": plan})
	}
	show.plan(o.IO.Out, plan)
	return nil
}

func (o *installOptions) writeJSON(v any) error {
	o.shown = true
	enc := json.NewEncoder(o.IO.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// problem is an error in a document.
func problem(err error) map[string]string {
	return map[string]string{"text": err.Error(), "hint": fault.Hint(err)}
}

// end shows the report.
func (o *installOptions) end(r *installer.Report, err error, done string) error {
	if r == nil {
		return err
	}
	for _, s := range r.Standing {
		line := s.What
		if s.Do != "" {
			line += " (" + s.Do + ")"
		}
		o.note("%s", printable(line))
	}
	if o.Output == "json" {
		doc := map[string]any{"schema": 1, "ok": err == nil, "changed": r.Changed, "phases": r.Phases, "standing": r.Standing}
		if err != nil {
			doc["error"] = problem(err)
		}
		if writeErr := o.writeJSON(doc); err == nil {
			err = writeErr
		}
	}
	switch {
	case errors.Is(err, installer.ErrDeclined):
		return &exitError{exitFail, err}
	case err != nil:
		return err
	case !r.Changed:
		o.note("nothing to change")
	default:
		o.note("%s", done)
	}
	return nil
}
