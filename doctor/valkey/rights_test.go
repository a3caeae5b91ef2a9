package valkey_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/valkey"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// users is our ACL file, with each user's name as the password; edit changes it.
func users(t *testing.T, edit func(string) string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sandboxtest.Module(t), "templates/valkey/users.acl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"default", "sandbox", "egress"} {
		mark := "@" + strings.ToUpper(user) + "_PASSWORD_SHA256@"
		text = bytes.ReplaceAll(text, []byte(mark), fmt.Appendf(nil, "%x", sha256.Sum256([]byte(user))))
	}
	if edit != nil {
		text = []byte(edit(string(text)))
	}
	file := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func as(s *queuetest.Server, user string) conn.Settings {
	c := s.Settings()
	c.Username, c.Password = user, user
	return c
}

func TestRights(t *testing.T) {
	t.Parallel()
	s := queuetest.Start(t, "--aclfile", users(t, nil))
	for _, role := range []valkey.Role{valkey.Sandbox, valkey.Egress} {
		if f := valkey.Rights(t.Context(), as(s, string(role)), role); f.State != doctor.Pass {
			t.Errorf("%s: %s %s %q", role, f.State, f.Message, f.Details)
		}
	}
	if f := valkey.Strangers(t.Context(), s.Settings()); f.State != doctor.Pass {
		t.Errorf("strangers: %s %s", f.State, f.Message)
	}
	wrong := as(s, "sandbox")
	wrong.Password = "not-the-secret"
	if f := valkey.Rights(t.Context(), wrong, valkey.Sandbox); f.State != doctor.Fail || strings.Contains(f.Message, wrong.Password) {
		t.Errorf("a wrong password: %s %s", f.State, f.Message)
	}
	admin := valkey.Rights(t.Context(), as(s, "default"), valkey.Sandbox)
	if admin.State != doctor.Fail || !slices.Contains(admin.Details, "may FLUSHALL") || !slices.Contains(admin.Details, "may GET of another key or channel") {
		t.Errorf("a user who may do everything: %s %q", admin.State, admin.Details)
	}
	// Nothing of what was allowed has done anything.
	if f := valkey.Rights(t.Context(), as(s, "sandbox"), valkey.Sandbox); f.State != doctor.Pass {
		t.Errorf("afterwards: %s %q", f.State, f.Details)
	}
}

// TestRightsCases shows each kind of rule that can lack or be too many.
func TestRightsCases(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		role     valkey.Role
		old, new string
		says     string
		fix      string
	}{
		"RQ-02 channels":   {valkey.Sandbox, " &quavon-sandbox:*", "", "needs PUBLISH", "&quavon-sandbox:*"},
		"a command":        {valkey.Sandbox, " +zadd", "", "needs ZADD", "+COMMAND"},
		"keys":             {valkey.Sandbox, "~quavon-sandbox:*", "~quavon-sandbox:{*", "needs GET", "~quavon-sandbox:*"},
		"all keys":         {valkey.Sandbox, "~quavon-sandbox:*", "~*", "may SET of another", "users.acl"},
		"all commands":     {valkey.Sandbox, "-@all +ping", "+@all +ping", "may CONFIG GET", "users.acl"},
		"all channels":     {valkey.Sandbox, "&quavon-sandbox:*", "&*", "may PUBLISH of another", "users.acl"},
		"egress writes":    {valkey.Egress, "%R~quavon-sandbox:egress:* -@all", "%R~quavon-sandbox:egress:* ~quavon-sandbox:egress:* -@all +set +del", "may SET", "users.acl"},
		"egress sees more": {valkey.Egress, "%R~quavon-sandbox:egress:*", "%R~quavon-sandbox:*", "may GET", "users.acl"},
		"egress is blind":  {valkey.Egress, "%R~quavon-sandbox:egress:*", "%R~quavon-egress:*", "needs GET", "egress:*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := queuetest.Start(t, "--aclfile", users(t, func(text string) string {
				i := strings.Index(text, "user "+string(c.role)+" ")
				if !strings.Contains(text[i:], c.old) {
					t.Fatalf("the ACL has no %q", c.old)
				}
				return text[:i] + strings.Replace(text[i:], c.old, c.new, 1)
			}))
			f := valkey.Rights(t.Context(), as(s, string(c.role)), c.role)
			if text := strings.Join(f.Details, "\n"); f.State != doctor.Fail || !strings.Contains(text, c.says) || !strings.Contains(f.Fix, c.fix) {
				t.Errorf("%s %s %q, fix %q; want %q and %q", f.State, f.Message, f.Details, f.Fix, c.says, c.fix)
			}
		})
	}
}

func TestStrangersGetIn(t *testing.T) {
	t.Parallel()
	if f := valkey.Strangers(t.Context(), queuetest.Start(t).Settings()); f.State != doctor.Fail || f.Fix == "" {
		t.Errorf("%s %s", f.State, f.Message)
	}
	if f := valkey.Strangers(t.Context(), conn.Settings{Addresses: []string{"/nowhere/s"}}); f.State != doctor.Error {
		t.Errorf("no server: %s %s", f.State, f.Message)
	}
}
