package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/evidence"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/sandbox"
	"github.com/quavon/quavon/runner/sandbox/runsc"
	"github.com/quavon/quavon/runner/smoke"
	"github.com/quavon/quavon/runner/smoke/weak"
	"github.com/quavon/quavon/runner/state"
)

// checkRisks refuses what can't be accepted, and weakened sandboxes where they would not
// be on this host.
func (o *doctorOptions) checkRisks() error {
	for _, risk := range o.Accept {
		if risk != runsc.RiskWeakArm {
			return fault.New(fmt.Sprintf("--accept-risk=%s is unknown here", risk), "the doctor knows "+runsc.RiskWeakArm)
		}
	}
	if len(o.Accept) > 0 && (!o.Local || o.AllBackends) {
		return fault.New("weakened sandboxes run on this host only", "add --local")
	}
	return nil
}

// weakened is what the probes said in sandboxes that are weak on purpose: a probe that
// can't see what it looks for, on this host, proves nothing there.
type weakened struct {
	// seen are the arms in which all was reported that must be, left those that can't be
	// made here, blind the probes that reported nothing.
	seen, left, blind []string
}

// withControls makes the probes in weakened sandboxes too, where somebody has accepted
// that by name.
func (s *localSandbox) withControls(ctx context.Context, f doctor.Finding) doctor.Finding {
	if len(s.Accept) == 0 || f.State != doctor.Pass {
		return f
	}
	w, err := s.weakArms(ctx)
	switch {
	case err != nil:
		return doctor.Unknown(fmt.Errorf("the probes held, but weakened sandboxes could not be made: %w", err))
	case len(w.blind) > 0:
		return doctor.Failed("probes don't see what is weak on this host: that they hold says nothing",
			"give this host no jobs, and report it", slices.Concat(w.blind, f.Details)...)
	}
	f.Message += fmt.Sprintf("; %d weakened sandboxes were each found out", len(w.seen))
	f.Details = append(f.Details, "weakened, and found out: "+strings.Join(w.seen, ", "))
	if len(w.left) > 0 {
		f.Details = append(f.Details, "weakened sandboxes that can't be made here: "+strings.Join(w.left, ", "))
	}
	return f
}

// weakArms makes the probes in every weakened sandbox that this host can have.
func (s *localSandbox) weakArms(ctx context.Context) (w weakened, err error) {
	if os.Geteuid() != 0 {
		return w, fault.New("weakened sandboxes are root's", "run as root")
	}
	lab, like, bound, err := s.weakLab(ctx)
	if err != nil {
		return w, err
	}
	for _, a := range weak.Arms {
		if !possible(a, lab) {
			w.left = append(w.left, a.Name)
			continue
		}
		missed, err := tryArm(ctx, a, lab, like, bound)
		if err != nil {
			return w, fmt.Errorf("%s: %w", a.Name, err)
		}
		for _, m := range missed {
			w.blind = append(w.blind, fmt.Sprintf("%s in %s (%s)", m, a.Name, a.What))
		}
		w.seen = append(w.seen, a.Name)
	}
	return w, nil
}

// weakLab is what weakened sandboxes are made with: runsc as jobs have it, and the host's
// runc if there is one.
func (s *localSandbox) weakLab(ctx context.Context) (l weak.Lab, like *runner.Runner, b evidence.Bound, err error) {
	o := &runOptions{program: s.program, Backend: runsc.Name, Runsc: s.Runsc}
	if like, err = o.runner(); err != nil {
		return l, nil, b, err
	}
	l = weak.Lab{Accept: s.Accept[0]}
	if l.Runsc, err = s.findRunsc(s.Runsc); err != nil {
		return l, nil, b, err
	}
	l.Runc, _ = exec.LookPath("runc") // without it there is less to try
	dir, err := state.Default()
	if err != nil {
		return l, nil, b, err
	}
	if l.State, err = state.Open(dir); err != nil {
		return l, nil, b, err
	}
	rt, err := sandbox.AsIdentified(like.Backend).Runtime(ctx)
	return l, like, evidence.Bound{RuntimeDigest: rt.Digest, RuntimeArgs: rt.Args}, err
}

func possible(a weak.Arm, l weak.Lab) bool {
	return !slices.ContainsFunc(a.Needs, func(n weak.Need) bool { return !n.Makes() && (n != weak.NeedRunc || l.Runc == "") })
}

// tryArm lists the probes that say nothing of what is weak.
func tryArm(ctx context.Context, a weak.Arm, l weak.Lab, like *runner.Runner, bound evidence.Bound) (missed []string, err error) {
	dir, err := os.MkdirTemp("", "quavon-weak-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // what is in it is for sandboxes to find
		return nil, err
	}
	suite, release, err := a.Suite(l, like, "", dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	var must []string
	for _, e := range smoke.Catalogue() {
		if slices.Contains(e.Weak, a.Name) {
			must = append(must, e.ID)
		}
	}
	report, err := suite.Run(ctx, smoke.Options{Full: true, Root: true, Only: must, Bound: bound})
	if err != nil {
		return nil, err
	}
	for _, x := range report.Results {
		if x.Verdict != smoke.Broken && x.Verdict != smoke.NotApplicable { // the latter is a hole that this host hasn't
			missed = append(missed, fmt.Sprintf("%s: %s %s", x.ID, x.Verdict, x.Why))
		}
	}
	return missed, nil
}
