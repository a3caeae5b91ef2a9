package secret

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/installer/journal"
	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/test/need"
)

func apply(t *testing.T, dir string) *Secrets {
	t.Helper()
	s := &Secrets{&phase.Target{Dir: dir}}
	j, err := journal.Open(journal.Options{Dir: s.Target.State()})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	tx := j.Begin()
	if err := tx.Enter(phase.Secrets); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), tx, nil); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	s := apply(t, t.TempDir())
	before := map[string]string{}
	for _, name := range []string{SigningKey, "valkey_sandbox_password", "valkey_sandbox_url", "valkey_egress_password", "valkey_egress_url"} {
		text, err := s.read(name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = text
		if info, err := os.Stat(s.path(name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if key, err := base64.StdEncoding.DecodeString(before[SigningKey]); err != nil || len(key) != 32 {
		t.Errorf("signing key of %d bytes: %v", len(key), err)
	}
	if want := "redis://egress:" + before["valkey_egress_password"] + "@valkey:6379"; before["valkey_egress_url"] != want {
		t.Error("the URL isn't made of the password")
	}
	if changes, err := s.Plan(t.Context()); err != nil || len(changes) != 0 {
		t.Errorf("again: %v, %v", changes, err)
	}
	// One that is lost is made of what there is, the others stay.
	for _, lost := range []string{"valkey_sandbox_url", "valkey_egress_password"} {
		if err := os.Remove(s.path(lost)); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, s.Target.Dir)
	for name, was := range before {
		if now, err := s.read(name); err != nil || now != was {
			t.Errorf("%s was made anew: %v", name, err)
		}
	}
}

func TestBadSecrets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, text string
		mode             os.FileMode
		want             string
	}{
		{"short key", SigningKey, "c2hvcnQ=", 0o600, "can't be used"},
		{"no base64", SigningKey, "secret!secret", 0o600, "can't be used"},
		{"empty", SigningKey, "\n", 0o600, "empty"},
		{"readable by all", SigningKey, strings.Repeat("A", 43) + "=", 0o644, "others can read"},
		{"short password", "valkey_egress_password", "secret", 0o600, "less than 16"},
		{"odd password", "valkey_egress_password", "secret secret secret", 0o600, "characters other"},
		{"other password", "valkey_sandbox_url", "redis://sandbox:secretsecretsecret@valkey:6379", 0o600, "isn't the one in"},
		{"other user", "valkey_sandbox_url", "redis://default:secretsecretsecret@valkey:6379", 0o600, `"default" instead`},
		{"no URL", "valkey_sandbox_url", "redis://secret\x01", 0o600, "no URL"},
	} {
		s := apply(t, t.TempDir())
		path := s.path(c.file)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := s.Plan(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secretsecret") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Secrets{&phase.Target{Dir: dir}}).Plan(t.Context()); err == nil {
		t.Error("an open directory is taken")
	}
}

// TestOthersSecrets: a mode keeps others out, but not the one whom the file belongs to.
func TestOthersSecrets(t *testing.T) {
	t.Parallel()
	need.That(t, os.Geteuid() == 0, "root, to give files away")
	s := apply(t, t.TempDir())
	if err := os.Lchown(s.path(SigningKey), 65532, 65532); err != nil { // as the runner has it
		t.Fatal(err)
	}
	if _, err := s.Plan(t.Context()); err != nil {
		t.Error(err)
	}
	for _, path := range []string{s.Target.Secrets(), s.path(SigningKey), s.path("valkey_egress_url"), s.path("valkey_sandbox_password")} {
		if err := os.Lchown(path, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "12345") || !strings.Contains(fault.Hint(err), "chown") {
			t.Errorf("%s of somebody else: %v (%s)", path, err, fault.Hint(err))
		}
		if err := os.Lchown(path, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}
