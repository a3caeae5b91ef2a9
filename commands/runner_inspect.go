package commands

import (
	"context"
	"fmt"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/fleet"
	"github.com/quavon/quavon/doctor/valkey"
	"github.com/quavon/quavon/runner"
	"github.com/quavon/quavon/runner/hostid"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// heavyChecks start many sandboxes, or fill them.
var heavyChecks = []string{"QD956", "QD957", "QD958"}

// facts are what this process is.
func (p *program) facts(keys *envelope.Keyring) fleet.Facts {
	return fleet.Facts{Host: hostid.ID(), Boot: hostid.Boot(), Version: ownVersion(), Key: keys.ActiveID().String()}
}

// inspector makes the doctor's checks of a backend in its runner, when a doctor asks.
func (o *runnerOptions) inspector(r *runner.Runner, test *smokeTest) (*fleet.Answerer, error) {
	qo, err := o.settings.queueOptions()
	if err != nil {
		return nil, err
	}
	checks := o.selfChecks(r, test, false)
	for _, c := range checks {
		if c.Code == "QD954" {
			c.Run = func(ctx context.Context) doctor.Finding { return o.ownKeys(ctx, qo.Conn) }
		}
	}
	return &fleet.Answerer{
		Facts: o.facts(qo.Keys), Checks: checks, Heavy: heavyChecks,
		Full: func(code string) *doctor.Check {
			c, err := doctor.Find(o.selfChecks(r, test, true), code)
			if err != nil || code == "QD954" {
				return nil
			}
			return c
		},
	}, nil
}

// selfChecks are those of this runner's own backend.
func (o *runnerOptions) selfChecks(r *runner.Runner, test *smokeTest, full bool) []*doctor.Check {
	local := &localSandbox{
		doctorOptions: &doctorOptions{program: o.program, Local: true, Smoke: true, Full: full, Backend: r.Backend.Name()}, runner: r,
		test: test,
	}
	return local.checks()
}

// ownKeys looks at the runner's secrets and at what its user may do.
func (o *runnerOptions) ownKeys(ctx context.Context, where conn.Settings) doctor.Finding {
	files := o.settings.secretFiles()
	secrets, rights := fleet.Secrets(files), valkey.Rights(ctx, where, valkey.Sandbox)
	f := doctor.Together("part", []doctor.Part{{Subject: "its secrets", Finding: secrets}, {Subject: "its user", Finding: rights}})
	f.Message = fmt.Sprintf("%s; %s", secrets.Message, rights.Message)
	f.Details, f.Parts = append(secrets.Details, rights.Details...), nil
	return f
}

// secretFiles are the files that the settings name for secrets, by setting.
func (s *settings) secretFiles() map[string]string {
	files := map[string]string{}
	for _, name := range []string{envValkeyURL, "VALKEY_PASSWORD", envSigningKey} {
		if x := s.find(name + "_FILE"); x != nil && x.value != "" {
			files[x.name] = x.value
		}
	}
	if x := s.find("VALKEY_TLS_KEY_FILE"); x != nil && x.value != "" {
		files[x.name] = x.value
	}
	return files
}
