package task

import (
	"encoding/json"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/workspace"
)

// Report is what became of a task: the job's result, and what came out of the
// workspace.
type Report struct {
	job.Result
	// ChangesCut counts changes that the list has no room for.
	ChangesCut int `json:"changes_cut,omitempty"`
	// Outbox are the lines that were taken, in their order, each a JSON object.
	Outbox []json.RawMessage `json:"outbox,omitempty"`
	// OutboxRefused says what was wrong with lines that weren't.
	OutboxRefused []Refused `json:"outbox_refused,omitempty"`
	// PatchSkipped lists changes that a patch can't hold.
	PatchSkipped []workspace.Skip `json:"patch_skipped,omitempty"`
	// Artefacts counts the entries of the file of that name.
	Artefacts int `json:"artefacts,omitempty"`
}

// Refused is a line that was not taken.
type Refused struct {
	// Line counts from 1.
	Line int    `json:"line"`
	Why  string `json:"why"`
}

// maxChanges bounds the paths of a report's list of changes, in bytes.
const maxChanges = 1 << 20

// Encode is the report's payload.
func (r Report) Encode() ([]byte, error) {
	size := 0
	for i, c := range r.Changes {
		if size += len(c.Path) + 32; size > maxChanges {
			r.ChangesCut += len(r.Changes) - i
			r.Changes = r.Changes[:i]
			break
		}
	}
	return json.Marshal(r)
}

// DecodeReport reads a payload. Fields of a later version are passed over: a report
// asks for nothing.
func DecodeReport(payload []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(payload, &r); err != nil {
		return Report{}, fault.Wrap(err, "read the runner's report", "give submitter and runner the same version of quavon").
			WithCode(string(job.ReasonInternal))
	}
	return r, nil
}
