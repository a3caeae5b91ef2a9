package commands

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/smoke"
)

// egressProbes show, with live listeners outside, that nothing comes out of a sandbox
// without a network, and of one with only what is allowed.
var egressProbes = []string{"E3-host", "E3-door", "E1-allowed", "E2-door"}

// egress looks at the way out: with servers of the test's own behind the proxy's code,
// then with the door that jobs have.
func (s *localSandbox) egress(ctx context.Context) doctor.Finding {
	root, inImage, err := s.root(ctx)
	if err != nil {
		return doctor.Unknown(err)
	}
	report, err := smoke.For(s.runner, root.Image).Run(ctx, smoke.Options{Root: os.Geteuid() == 0, Only: egressProbes})
	if err != nil {
		return doctor.Unknown(err)
	}
	var held, broken, unsure []string
	for _, r := range report.Results {
		switch r.Verdict {
		case smoke.Held:
			held = append(held, r.Title)
		case smoke.Broken:
			broken = append(broken, r.ID+": "+r.Why)
		case smoke.NotApplicable, smoke.CouldNotRun:
			unsure = append(unsure, fmt.Sprintf("%s: %s: %s", r.ID, r.Verdict, r.Why))
		}
	}
	switch {
	case len(broken) > 0:
		return doctor.Failed("something came out of a sandbox that must not",
			"stop the runner: nothing holds its jobs back. Then report it",
			append(broken, unsure...)...)
	case len(unsure) > 0 || len(held) == 0:
		f := doctor.Unknown(errors.New("not everything could be tried"))
		f.Details = unsure
		return f
	}
	return triedIn(inImage, s.production(ctx, root, held))
}

// production tries the door that jobs have.
func (s *localSandbox) production(ctx context.Context, root job.Root, held []string) doctor.Finding {
	door := s.runner.Door
	if door == nil {
		return doctor.Passed("nothing comes out; no registries are named, so no step has a way out", held...)
	}
	rules := words(s.env(envRegistries))
	if addr := s.env(envEgressProxy); addr != "" {
		if err := egress.Check(ctx, addr); err != nil {
			return doctor.Failed("the egress service at "+addr+" can't serve: "+err.Error(),
				"look at its log, and at Valkey: `docker compose logs sandbox-egress`", held...)
		}
		held = append(held, "the egress service at "+addr+" answers, and reads tokens")
	}
	got, err := s.knock(ctx, root, rules)
	if err != nil {
		return doctor.Unknown(fmt.Errorf("jobs' own door could not be tried: %w", err))
	}
	for _, sub := range []string{"another-host", "an-address"} {
		if got[sub].Errno != "HTTP 403" {
			return doctor.Failed(fmt.Sprintf("jobs' own door answered %s with %q %s instead of refusing it", sub, got[sub].Errno,
				got[sub].Answer),
				"correct QUAVON_SANDBOX_REGISTRIES: it allows too much", held...)
		}
	}
	held = append(held, "jobs' own door refuses another host, and an address")
	if a, tried := got["allowed"]; tried && a.Errno != "" {
		return doctor.Warned(fmt.Sprintf("nothing forbidden comes out, but %s can't be reached: %s %s", rules[0], a.Errno, a.Answer),
			"look at the network between the egress proxy and the registries, and at HTTPS_PROXY", held...)
	} else if tried {
		held = append(held, rules[0]+" was reached")
	}
	return doctor.Passed("nothing forbidden comes out, what is allowed does", held...)
}

// knock asks the door from a job for another host, for an address, and for the first
// host that is allowed.
func (s *localSandbox) knock(ctx context.Context, root job.Root, rules []string) (map[string]probe.Line, error) {
	const id = "E1-allowed" // of quavon-guest's probes the one that says what it is told to
	connect := func(sub, target string) string {
		say := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n"
		return sub + " " + base64.StdEncoding.EncodeToString([]byte(say)) + "."
	}
	knocks := []string{connect("another-host", "denied.quavon-doctor.invalid:443"), connect("an-address", "127.0.0.1:443")}
	allow := []string{"quavon-doctor.invalid"}
	if len(rules) > 0 {
		allow = rules
		if host := rules[0]; !strings.ContainsAny(host, "*/=:") {
			knocks = append(knocks, connect("allowed", host+":443"))
		}
	}
	got, err := s.try(ctx, root, trial{
		name: "door", probes: []string{id}, params: map[string][]string{id: knocks}, limits: job.Limits{Wall: time.Minute}, allow: allow,
	})
	if err != nil {
		return nil, err
	}
	for _, k := range knocks {
		sub, _, _ := strings.Cut(k, " ")
		if _, ok := got.results[sub]; !ok {
			return nil, fmt.Errorf("the job ended with %d (%s), and said %.300q", got.Exit, got.Reason, got.out)
		}
	}
	return got.results, nil
}
