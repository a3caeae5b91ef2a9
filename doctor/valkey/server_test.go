package valkey_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/valkey"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/test/loopback"
)

// TestConfiguration reads what a real server is configured to. RQ-05: allkeys is a
// failure; volatile, since all keys of the queue have a time to live, a warning.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	s := queuetest.Start(t)
	c, err := conn.Open(s.Settings())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if f := valkey.Version(t.Context(), s.Settings()); f.State != doctor.Pass || !strings.HasPrefix(f.Message, "valkey ") {
		t.Errorf("version: %s %s", f.State, f.Message)
	}
	for _, x := range []struct {
		key, value string
		judge      func(map[string]string) doctor.Finding
		want       doctor.State
	}{
		{"maxmemory-policy", "noeviction", valkey.Eviction, doctor.Pass},
		{"maxmemory-policy", "allkeys-lru", valkey.Eviction, doctor.Fail},
		{"maxmemory-policy", "allkeys-random", valkey.Eviction, doctor.Fail},
		{"maxmemory-policy", "volatile-ttl", valkey.Eviction, doctor.Warn},
		{"maxmemory-policy", "volatile-lru", valkey.Eviction, doctor.Warn},
		{"appendfsync", "always", valkey.Durability, doctor.Pass},
		{"appendfsync", "everysec", valkey.Durability, doctor.Pass},
		{"appendfsync", "no", valkey.Durability, doctor.Warn},
		{"appendonly", "no", valkey.Durability, doctor.Warn},
	} {
		if err := c.Do(t.Context(), c.B().ConfigSet().ParameterValue().ParameterValue(x.key, x.value).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		config, err := valkey.Configured(t.Context(), s.Settings(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if f := x.judge(config); f.State != x.want || f.State != doctor.Pass && f.Fix == "" {
			t.Errorf("%s %s: %s %s, want %s", x.key, x.value, f.State, f.Message, x.want)
		}
	}
}

// RQ-05: a user who may not ask leaves the question open, unless INFO answers, or what
// was written for the server is known.
func TestConfigurationForbidden(t *testing.T) {
	t.Parallel()
	s := queuetest.Start(t, "--aclfile", users(t, func(text string) string { return text + "user info on >info -@all +info\n" }))
	if _, err := valkey.Configured(t.Context(), as(s, "sandbox"), nil); err == nil || !strings.Contains(err.Error(), "may not ask") {
		t.Errorf("%v", err)
	}
	written := map[string]string{"maxmemory-policy": "noeviction"}
	if got, err := valkey.Configured(t.Context(), as(s, "sandbox"), written); err != nil || got["maxmemory-policy"] != "noeviction" {
		t.Errorf("%v, %v", got, err)
	}
	file := filepath.Join(t.TempDir(), "compose.yaml")
	text := "services:\n  valkey:\n    command: [valkey-server, --appendonly, \"yes\", --maxmemory-policy, noeviction]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := valkey.Durability(valkey.Written(file)); f.State != doctor.Pass || valkey.Eviction(valkey.Written(file)).State != doctor.Pass {
		t.Errorf("as written in compose.yaml: %s %s", f.State, f.Message)
	}
	if w := valkey.Written(filepath.Dir(file)); w != nil {
		t.Errorf("no file: %v", w)
	}
	got, err := valkey.Configured(t.Context(), as(s, "info"), nil)
	if err != nil || got["maxmemory-policy"] != "noeviction" || got["appendonly"] != "yes" {
		t.Errorf("%v, %v", got, err)
	}
	if f := valkey.Durability(got); f.State != doctor.Warn {
		t.Errorf("INFO doesn't tell appendfsync: %s", f.State)
	}
	for _, f := range []doctor.Finding{valkey.Eviction(nil), valkey.Durability(nil)} {
		if f.State != doctor.Error {
			t.Errorf("nothing known: %s", f.State)
		}
	}
	if f := valkey.Version(t.Context(), conn.Settings{Addresses: []string{"/nowhere/s"}}); f.State != doctor.Fail {
		t.Errorf("no server: %s", f.State)
	}
}

func TestEncryption(t *testing.T) {
	t.Parallel()
	cert, key := queuetest.Certificate(t, t.TempDir(), "valkey.example")
	host, port := loopback.Free(t)
	s := queuetest.Start(t, "--bind", host, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	secure := conn.Settings{Addresses: []string{host + ":" + port}, TLS: true, CAFile: cert, CertFile: cert, KeyFile: key, ServerName: "valkey.example"}
	wrong, anonymous := secure, secure
	wrong.ServerName = "other.example"
	anonymous.CertFile, anonymous.KeyFile = "", ""
	plain := func(a string) conn.Settings { return conn.Settings{Addresses: []string{a}} }
	now := time.Now()
	for name, c := range map[string]struct {
		where conn.Settings
		now   time.Time
		want  doctor.State
		says  string
	}{
		"socket":           {s.Settings(), now, doctor.Pass, "socket"},
		"encrypted":        {secure, now, doctor.Pass, "certificate that holds until"},
		"ends soon":        {secure, now.Add(20 * 24 * time.Hour), doctor.Warn, "holds until"},
		"another name":     {wrong, now, doctor.Fail, "other.example"},
		"no certificate":   {anonymous, now, doctor.Fail, "encrypted"},
		"loopback":         {plain("127.0.0.1:6379"), now, doctor.Pass, "this host"},
		"IPv6 loopback":    {plain("[::1]:6379"), now, doctor.Pass, "this host"},
		"private":          {plain("10.0.0.5:6379"), now, doctor.Warn, "private"},
		"a tunnel's range": {plain("100.64.1.1:6379"), now, doctor.Warn, "private"},
		"mapped":           {plain("[::ffff:10.0.0.5]:6379"), now, doctor.Warn, "private"},
		"public":           {plain("203.0.113.5:6379"), now, doctor.Fail, "public"},
		"no name":          {plain("no-such-host.invalid:6379"), now, doctor.Error, "no-such-host"},
	} {
		if f := valkey.Encryption(t.Context(), c.where, c.now); f.State != c.want || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s: %s %q, want %s %q", name, f.State, f.Message, c.want, c.says)
		}
	}
}
