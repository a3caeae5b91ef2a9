package commands

import (
	"context"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/fleet"
	"github.com/quavon/quavon/doctor/valkey"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
)

// Editions of the product.
const (
	editionCommunity  = "community"
	editionEnterprise = "enterprise"
)

// runners makes the checks of sandboxes those of the queue's runners.
func (o *doctorOptions) runners(checks []*doctor.Check) (end func()) {
	f := &fleet.Fleet{
		Name: o.settings.get(envQueue), Enterprise: o.edition() == editionEnterprise, Full: o.Full, Heavy: heavyChecks,
	}
	var q *queue.Queue
	f.Open = func(ctx context.Context) (fleet.Queue, error) {
		qo, err := o.queueOptions()
		if err != nil {
			return nil, err
		}
		f.Facts = o.facts(qo.Keys)
		qo.Log = o.Log
		q, err = queue.Open(ctx, qo)
		return q, err
	}
	f.Keys = o.ownKeys
	f.Bind(checks)
	return func() {
		if q != nil {
			q.Close()
		}
	}
}

func (o *doctorOptions) edition() string {
	if o.Edition == "" {
		return o.env(envEdition)
	}
	return o.Edition
}

// queueOptions say which queue; why not is an operator's to mend.
func (o *doctorOptions) queueOptions() (queue.Options, error) {
	if o.settingsErr != nil {
		return queue.Options{}, o.settingsErr
	}
	qo, err := o.settings.queueOptions()
	if err != nil {
		return qo, fault.Wrap(err, "find the runners", fault.Hint(err)+"; or use --local for a backend of this host")
	}
	return qo, nil
}

// ownKeys looks at the secrets of this side and at Valkey's users.
func (o *doctorOptions) ownKeys(ctx context.Context) []doctor.Part {
	parts := []doctor.Part{{Subject: "secrets here", Finding: fleet.Secrets(o.settings.secretFiles())}}
	return append(parts, o.users(ctx)...)
}

// users tries what Valkey's users may do, as far as their passwords are known here.
func (o *doctorOptions) users(ctx context.Context) []doctor.Part {
	where, err := o.settings.valkey()
	if err != nil {
		return []doctor.Part{{Subject: "users", Finding: doctor.Unknown(err)}}
	}
	parts := []doctor.Part{
		{Subject: "user of jobs", Finding: valkey.Rights(ctx, where, valkey.Sandbox)},
		{Subject: "strangers", Finding: valkey.Strangers(ctx, where)},
	}
	egress, err := o.settings.userAt(where, envEgressURL)
	switch {
	case err != nil:
		parts = append(parts, doctor.Part{Subject: "user of egress", Finding: doctor.Unknown(err)})
	case egress == nil:
		parts = append(parts, doctor.Part{
			Subject: "user of egress",
			Finding: doctor.Skipped("its password isn't known here: name a file with its " +
				"URL by --valkey-egress-url-file"),
		})
	default:
		parts = append(parts, doctor.Part{Subject: "user of egress", Finding: valkey.Rights(ctx, *egress, valkey.Egress)})
	}
	return parts
}

// Settings of the doctor alone.
const (
	envEgressURL = "VALKEY_EGRESS_URL"
	envAdminURL  = "VALKEY_ADMIN_URL"
)

func doctorSettings() []*setting {
	return append(queueSettings(),
		&setting{name: envEgressURL, help: "Valkey's URL for the egress user", secret: true},
		&setting{
			name: envEgressURL + "_FILE", flag: "valkey-egress-url-file",
			help: "file with Valkey's URL for the egress user, to try its rights",
		},
		&setting{name: envAdminURL, help: "Valkey's URL for an administrator", secret: true},
		&setting{name: envAdminURL + "_FILE", flag: "valkey-admin-url-file", help: "file with Valkey's URL for a user who may CONFIG GET"},
	)
}

// userAt is where a setting's URL leads to, as another user than where's; nil when it
// isn't set. The address is where's: a URL made for a container may name a host that
// isn't known here.
func (s *settings) userAt(where conn.Settings, name string) (*conn.Settings, error) {
	url, err := s.secretOf(name)
	if err != nil || url == "" {
		return nil, err
	}
	u, err := conn.ParseURL(url)
	if err != nil {
		return nil, fault.Wrap(err, name, fault.Hint(err))
	}
	where.Username, where.Password = u.Username, u.Password
	return &where, nil
}
