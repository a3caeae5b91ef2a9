package commands

import (
	"context"
	"path/filepath"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/valkey"
	"github.com/quavon/quavon/runner/queue/conn"
)

const groupValkey = "Valkey"

// valkeyChecks are those of the server that the settings name; without one they are
// skipped. What its users may do is QD954's.
func (o *doctorOptions) valkeyChecks() []*doctor.Check {
	check := func(code, name, title, fix string, run func(context.Context, conn.Settings) doctor.Finding, needs ...string) *doctor.Check {
		return &doctor.Check{
			Code: code, Name: name, Title: title, Group: groupValkey, Severity: doctor.Failure, DefaultFix: fix, Needs: needs,
			Run: func(ctx context.Context) doctor.Finding { return o.atValkey(ctx, run) },
		}
	}
	judged := func(judge func(map[string]string) doctor.Finding) func(context.Context, conn.Settings) doctor.Finding {
		return func(ctx context.Context, where conn.Settings) doctor.Finding {
			config, err := o.valkeyConfig(ctx, where)
			if err != nil {
				return doctor.Unknown(err)
			}
			return judge(config)
		}
	}
	return []*doctor.Check{
		check("QD946", "valkey", "Valkey answers, and is new enough", "check its address, and that it runs", valkey.Version),
		check("QD947", "valkey-memory", "a full Valkey loses no jobs", "set maxmemory-policy noeviction", judged(valkey.Eviction), "QD946"),
		check("QD948", "valkey-disk", "Valkey keeps jobs over a crash", "set appendonly yes", judged(valkey.Durability), "QD946"),
		check("QD949", "valkey-encryption", "nobody on the way reads Valkey's passwords", "use valkeys://", encryption),
	}
}

func encryption(ctx context.Context, where conn.Settings) doctor.Finding {
	return valkey.Encryption(ctx, where, time.Now())
}

func (o *doctorOptions) atValkey(ctx context.Context, run func(context.Context, conn.Settings) doctor.Finding) doctor.Finding {
	switch {
	case o.settingsErr != nil:
		return doctor.Unknown(o.settingsErr)
	case !o.settings.named("VALKEY_HOST", envValkeyURL, envValkeyURL+"_FILE"):
		return doctor.Skipped("no setting says where Valkey is")
	}
	where, err := o.settings.valkey()
	if err != nil {
		return failedOn(err)
	}
	return run(ctx, where)
}

// valkeyConfig is the server's configuration as an administrator or the user may see
// it, else as the installation's compose file has it.
func (o *doctorOptions) valkeyConfig(ctx context.Context, where conn.Settings) (map[string]string, error) {
	admin, err := o.settings.userAt(where, envAdminURL)
	if err != nil {
		return nil, err
	}
	if admin != nil {
		where = *admin
	}
	return valkey.Configured(ctx, where, valkey.Written(o.composeFile()))
}

// composeFile is the installation's, beside its .env.
func (o *doctorOptions) composeFile() string {
	env, _ := o.envPath()
	return filepath.Join(filepath.Dir(env), "compose.yaml")
}

// named says whether any of the settings has a value.
func (s *settings) named(names ...string) bool {
	for _, n := range names {
		if s.get(n) != "" {
			return true
		}
	}
	return false
}
