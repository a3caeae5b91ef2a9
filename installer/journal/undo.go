package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// Standing is something that could not be taken back.
type Standing struct {
	// What stands, and why.
	What string `json:"what"`
	// Do is what to type, "" when it only needs to be known.
	Do string `json:"do,omitempty"`
	// Failed says that another try may succeed.
	Failed bool `json:"failed"`
}

// Interrupted are the phases that an earlier process began and did not end.
func (j *Journal) Interrupted() ([]string, error) {
	p, err := j.pending()
	return p.Phases, err
}

// pending reads phase.json. One whose steps are in state.json already, because the
// process was killed in between, is over.
func (j *Journal) pending() (p pending, err error) {
	path := filepath.Join(j.Dir, pendingName)
	err = readJSON(path, &p)
	if errors.Is(err, fs.ErrNotExist) {
		return pending{}, nil
	}
	if err == nil {
		err = errors.Join(known(p.Schema, p.Version), sound(p.Records))
	}
	if err != nil {
		return p, fault.Wrap(err, "read what was under way, "+path,
			"use the quavon that wrote it; or move the file away: what its phase has begun then stays as it is")
	}
	if p.Seq > j.state.Seq {
		return p, nil
	}
	if j.lock == nil { // who only looks leaves it: it may be another's by now
		return pending{}, nil
	}
	return pending{}, remove(path)
}

// Rollback takes back the steps that are under way, or were when their process ended. It
// can be called again after it failed.
func (j *Journal) Rollback(ctx context.Context) ([]Standing, error) {
	p, err := j.pending()
	if err != nil || len(p.Phases) == 0 {
		return nil, err
	}
	var standing []Standing
	failed := false
	for _, r := range order(p.Records) {
		s := j.undo(ctx, r, phase.Failed)
		standing = append(standing, s...)
		failed = failed || slices.ContainsFunc(s, func(s Standing) bool { return s.Failed })
	}
	if failed {
		return standing, nil
	}
	if err := j.remember(p.Records); err != nil {
		return standing, err
	}
	j.point("rolled back")
	return standing, errors.Join(remove(filepath.Join(j.Dir, pendingName)), j.sweep())
}

// remember notes what was left, so that a purge removes it.
func (j *Journal) remember(records []Record) error {
	some := false
	for _, r := range records {
		if r.Kind == kindAct && r.Act.Stays {
			r.Left, some = true, true
			j.state.own(r)
		}
	}
	if !some {
		return nil
	}
	return j.saveState()
}

// order is that of taking back: newest first, but acts after all files, as they bring
// programs in line with the files that are there again, and directories last.
func order(records []Record) []Record {
	rank := func(r Record) int {
		switch {
		case r.Kind == kindDir:
			return 3
		case r.Kind == kindAct && r.Act.Last:
			return 2
		case r.Kind == kindAct:
			return 1
		}
		return 0
	}
	all := slices.Clone(records)
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b Record) int { return rank(a) - rank(b) })
	return all
}

// Uninstall takes back all that stands, newest first. What it can't take back stays
// noted.
func (j *Journal) Uninstall(ctx context.Context, purge bool) ([]Standing, error) {
	how := phase.Uninstall
	if purge {
		how = phase.Purge
	}
	var standing []Standing
	var left []Record
	stuck := map[string]bool{}
	for len(j.state.Owned) > 0 {
		i := len(j.state.Owned) - 1
		r := j.state.Owned[i]
		switch {
		case stuck[r.Phase]: // what stands may need what was made before it
			left = append(left, r)
		case !purge && (r.Left || j.isData(r)):
			left = append(left, r)
			standing = keep(standing, r)
		case !purge && j.holdsData(r, left):
			left = append(left, r)
		default:
			s := j.undo(ctx, r, how)
			standing = append(standing, s...)
			switch {
			case slices.ContainsFunc(s, func(s Standing) bool { return s.Failed }):
				left, stuck[r.Phase] = append(left, r), true
			case !purge && r.Kind == kindAct && r.Act.Keeps != "":
				r.Left = true
				left, standing = append(left, r), keep(standing, r)
			}
		}
		j.state.Owned = j.state.Owned[:i]
		delete(j.state.Phases, r.Phase)
		if err := j.saveUninstall(left); err != nil {
			return standing, err
		}
	}
	slices.Reverse(left)
	j.state.Owned, j.state.Phases = left, map[string]Done{}
	if err := j.saveState(); err != nil {
		return standing, err
	}
	return standing, j.sweep()
}

func (j *Journal) isData(r Record) bool { return r.Kind == kindFile && j.Data != nil && j.Data(r.Path) }

// holdsData says that a step made a directory which data is in.
func (j *Journal) holdsData(r Record, all []Record) bool {
	return r.Kind == kindDir && slices.ContainsFunc(all, func(o Record) bool {
		return j.isData(o) && strings.HasPrefix(o.Path, r.Path+"/")
	})
}

// keep adds that a step's data stays, once.
func keep(all []Standing, r Record) []Standing {
	s := Standing{What: r.Path + " is kept"}
	if r.Kind == kindAct {
		s.What = r.Act.Keeps + " are kept"
	}
	if slices.Contains(all, s) {
		return all
	}
	return append(all, s)
}

// saveUninstall writes down what is still to be taken back, with what stays.
func (j *Journal) saveUninstall(left []Record) error {
	rest := j.state.Owned
	j.state.Owned = slices.Clone(rest)
	for _, r := range slices.Backward(left) {
		j.state.Owned = append(j.state.Owned, r)
	}
	err := j.saveState()
	j.state.Owned = rest
	j.point("uninstalled one")
	return err
}

// undo takes back one step, which may have been made, half made or not at all.
func (j *Journal) undo(ctx context.Context, r Record, how phase.How) []Standing {
	if how != phase.Failed {
		if theirs, err := j.shared(r); err != nil {
			return failed(r.Path, err)
		} else if theirs != "" {
			return []Standing{{What: r.Path + stays(theirs)}}
		}
	}
	var err error
	switch r.Kind {
	case kindAct:
		if err = j.Undo(ctx, r.Phase, *r.Act, how); err != nil {
			return failed(fmt.Sprintf("%s of phase %s", r.Act.Name, r.Phase), err)
		}
		return nil
	case kindDir:
		err = remove(r.Path)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
			return nil // others have put something there
		}
	case kindLink:
		return j.undoLink(r)
	case kindFile:
		return j.undoFile(r)
	default:
		err = fmt.Errorf("%q is no kind of step", r.Kind)
	}
	return failed(r.Path, err)
}

// shared is another installation that needs what a step has made, "" for none.
func (j *Journal) shared(r Record) (string, error) {
	if j.Shared == nil || r.Kind != kindFile && r.Kind != kindLink {
		return "", nil
	}
	return j.Shared(r.Path)
}

// sharedBy is shared in a plan, where what can't be found out is no reason to stop.
func (j *Journal) sharedBy(r Record) string {
	theirs, _ := j.shared(r)
	return theirs
}

func stays(theirs string) string { return " stays, as the installation in " + theirs + " uses it" }

func failed(what string, err error) []Standing {
	if err == nil {
		return nil
	}
	return []Standing{{What: fmt.Sprintf("%s: %v", what, err), Do: fault.Hint(err), Failed: true}}
}

// Plan is what Uninstall would take back, newest first.
func (j *Journal) Plan(purge bool) []phase.Change {
	var all []phase.Change
	for _, r := range slices.Backward(j.state.Owned) {
		c := phase.Change{Action: phase.Remove, Target: r.Path}
		switch {
		case r.Left && !purge:
			c = phase.Change{Action: phase.Check, Target: r.Act.Keeps, Summary: "stay, as data does; --purge removes them"}
		case r.Left:
			c = phase.Change{Action: phase.Remove, Target: r.Act.Keeps}
		case r.Kind == kindAct:
			c = phase.Change{Action: phase.Run, Target: r.Act.Name, Summary: "take it back"}
		case !purge && j.holdsData(r, j.state.Owned):
			c.Action, c.Summary = phase.Check, "stays, with what is in it"
		case j.isData(r) && !purge:
			c.Action, c.Summary = phase.Check, "stays, as data does; --purge removes it"
		case j.sharedBy(r) != "":
			c.Action, c.Summary = phase.Check, strings.TrimSpace(stays(j.sharedBy(r)))
		case r.Kind == kindFile && r.Before.Existed:
			c.Action, c.Summary = phase.Edit, "take our part out"
		case r.Kind == kindDir:
			c.Summary = "when it is empty"
		case r.Kind == kindLink && r.Was != "":
			c.Action, c.Summary = phase.Edit, "point it at "+r.Was
		}
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}
