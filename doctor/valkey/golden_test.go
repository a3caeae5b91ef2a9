package valkey_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/report"
	"github.com/quavon/quavon/doctor/valkey"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/queuetest"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden shows of each check a real server with which it doesn't hold, with message and
// fix, and that it holds once the fix was made.
func TestGolden(t *testing.T) {
	t.Parallel()
	s := queuetest.Start(t)
	set := func(key, value string) func(*testing.T) conn.Settings {
		return func(t *testing.T) conn.Settings {
			t.Helper()
			c, err := conn.Open(s.Settings())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Do(t.Context(), c.B().ConfigSet().ParameterValue().ParameterValue(key, value).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			return s.Settings()
		}
	}
	at := func(address string) func(*testing.T) conn.Settings {
		return func(*testing.T) conn.Settings { return conn.Settings{Addresses: []string{address}} }
	}
	configured := func(judge func(map[string]string) doctor.Finding) func(context.Context, conn.Settings) doctor.Finding {
		return func(ctx context.Context, where conn.Settings) doctor.Finding {
			config, err := valkey.Configured(ctx, where, nil)
			if err != nil {
				return doctor.Unknown(err)
			}
			return judge(config)
		}
	}
	encryption := func(ctx context.Context, where conn.Settings) doctor.Finding {
		return valkey.Encryption(ctx, where, time.Now())
	}
	for _, c := range []struct {
		name, code string
		check      func(context.Context, conn.Settings) doctor.Finding
		spoil      func(*testing.T) conn.Settings
		mend       func(*testing.T) conn.Settings
	}{
		{"nobody-there", "QD946", valkey.Version, at("/nowhere/valkey.sock"), at(s.Socket)},
		{"allkeys", "QD947", configured(valkey.Eviction), set("maxmemory-policy", "allkeys-lru"), set("maxmemory-policy", "noeviction")},
		{"volatile", "QD947", configured(valkey.Eviction), set("maxmemory-policy", "volatile-ttl"), set("maxmemory-policy", "noeviction")},
		{"no-file", "QD948", configured(valkey.Durability), set("appendonly", "no"), set("appendonly", "yes")},
		{"never-written", "QD948", configured(valkey.Durability), set("appendfsync", "no"), set("appendfsync", "everysec")},
		{"public", "QD949", encryption, at("203.0.113.5:6379"), at(s.Socket)},
	} {
		where := c.spoil(t)
		check := &doctor.Check{
			Code: c.code, Name: "check", Group: "Valkey", Severity: doctor.Failure,
			Run: func(ctx context.Context) doctor.Finding { return c.check(ctx, where) },
		}
		r := doctor.Run(t.Context(), []*doctor.Check{check}, nil)
		var b bytes.Buffer
		if err := report.Write(&b, "text", r, report.Options{}); err != nil {
			t.Fatal(err)
		}
		got := regexp.MustCompile(`\d+\.\d s\b`).ReplaceAll(b.Bytes(), []byte("…"))
		path := filepath.Join("testdata", c.code+"-"+c.name+".golden")
		if *update {
			if err := os.WriteFile(path, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs (go test -update writes it): %v\n%s", path, err, got)
		}
		if f := c.check(t.Context(), c.mend(t)); f.State != doctor.Pass {
			t.Errorf("%s %s: after its fix: %s %s", c.code, c.name, f.State, f.Message)
		}
	}
}
