package queue_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/runner/sandbox/sandboxtest"
)

// passwords of any characters, by user.
var passwords = map[string]string{"default": "d", "sandbox": "p@s/s#w%o?r d:\"'+é", "egress": "e"}

// withUsers starts a server with our users.
func withUsers(t *testing.T) *queuetest.Server {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sandboxtest.Module(t), "templates/valkey/users.acl"))
	if err != nil {
		t.Fatal(err)
	}
	for user, password := range passwords {
		mark := "@" + strings.ToUpper(user) + "_PASSWORD_SHA256@"
		text = bytes.ReplaceAll(text, []byte(mark), fmt.Appendf(nil, "%x", sha256.Sum256([]byte(password))))
	}
	file := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return queuetest.Start(t, "--aclfile", file)
}

func as(s *queuetest.Server, user string) conn.Settings {
	c := s.Settings()
	c.Username, c.Password = user, passwords[user]
	return c
}

// Everything the queue does works for the user that it is meant for.
func TestUserCanDoAllOfOurs(t *testing.T) {
	t.Parallel()
	s := withUsers(t)
	q := open(t, s, func(o *queue.Options) { o.Conn, o.Lease = as(s, "sandbox"), 3*time.Second })
	admin := connect(t, as(s, "default"))
	ctx := within(t, patience)
	w := worker(t, q, "r1")
	ticket, err := q.Submit(ctx, queue.Job{ID: "j", Tenant: "a", Class: "host"}, strings.NewReader("files"))
	if err != nil {
		t.Fatal(err)
	}
	c := claim(t, w)
	if err := c.Release(ctx, true); err != nil {
		t.Error(err)
	}
	c = claim(t, w)
	r, err := c.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if b := make([]byte, 5); len(b) == 5 {
		if _, err := r.Read(b); err != nil {
			t.Error(err)
		}
	}
	fmt.Fprint(c.Output(ctx).Writer(queue.Stdout, 0), "log")
	if _, err := c.Upload(ctx, "f", strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	until := func() string { return zscore(t, admin, q.Base()+"lease:host", "j") }
	leased := until()
	eventually(t, "the lease is renewed", func() bool { return until() != leased })
	if err := ticket.Cancel(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Finish(ctx, queue.Outcome{}); err != nil {
		t.Error(err)
	}
	if _, err := ticket.Wait(ctx, func(queue.Frame) error { return nil }); err != nil {
		t.Error(err)
	}
	waiting := submit(t, q, queue.Job{ID: "waiting", StartIn: 200 * time.Millisecond})
	if _, err := waiting.Wait(ctx, nil); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"health": w.PublishHealth(ctx, queue.Health{State: queue.StateHealthy}), "sweep": q.Sweep(ctx), "ping": q.Ping(ctx),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if r, err := q.Runners(ctx); err != nil || len(r) != 1 {
		t.Errorf("runners %v, %v", r, err)
	}
	if _, err := q.Status(ctx); err != nil {
		t.Error(err)
	}
	if err := w.RemoveHealth(ctx); err != nil {
		t.Error(err)
	}
	// The server counts what was refused: nothing was.
	log, err := admin.Do(ctx, admin.B().Arbitrary("ACL", "LOG").Build()).ToArray()
	if err != nil || len(log) != 0 {
		t.Errorf("ACL LOG: %v, %v", log, err)
	}
}

func zscore(t testing.TB, c valkey.Client, key, member string) string {
	t.Helper()
	score, err := c.Do(t.Context(), c.B().Zscore().Key(key).Member(member).Build()).ToString()
	if err != nil {
		t.Fatalf("%s of %s: %v", member, key, err)
	}
	return score
}

func connect(t testing.TB, s conn.Settings) valkey.Client {
	t.Helper()
	c, err := conn.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Every command the user has is one that is used by our scripts or by our client, and
// of all the server's others each is refused; so are other keys and channels.
func TestUserCanDoNothingElse(t *testing.T) {
	t.Parallel()
	s := withUsers(t)
	admin, user := connect(t, as(s, "default")), connect(t, as(s, "sandbox"))
	rule := func(args ...string) string {
		out, err := admin.Do(t.Context(), admin.B().Arbitrary("ACL", "DRYRUN").Args(args...).Build()).ToString()
		if err != nil {
			return err.Error()
		}
		return out
	}
	used := usedCommands(t)
	commands, err := admin.Do(t.Context(), admin.B().Arbitrary("COMMAND", "LIST").Build()).AsStrSlice()
	if err != nil || len(commands) < 200 {
		t.Fatalf("%d commands, %v", len(commands), err)
	}
	allowed := 0
	for _, c := range commands {
		if slices.ContainsFunc(commands, func(o string) bool { return strings.HasPrefix(o, c+"|") }) {
			continue // only its subcommands can be called
		}
		out := rule(append([]string{"sandbox"}, invocation(t, admin, c)...)...)
		permitted := !strings.Contains(out, "no permissions to run the")
		if permitted && (strings.Contains(out, "wrong number") || strings.Contains(out, "not found")) {
			t.Errorf("%s could not be asked for: %s", c, out)
		}
		if permitted != used[c] {
			t.Errorf("%s: permitted %v, used %v (%s)", c, permitted, used[c], out)
		}
		if permitted {
			allowed++
		}
	}
	if allowed < 20 || allowed > 60 {
		t.Errorf("%d commands are permitted", allowed)
	}
	for _, c := range [][]string{
		{"GET", "quavon:anything"},
		{"SET", "other", "x"},
		{"XADD", "quavon-sandbo:x", "*", "a", "b"},
		{"DEL", "quavon-egress:x"},
		{"PUBLISH", "other", "x"},
		{"FLUSHALL"},
		{"KEYS", "*"},
		{"CONFIG", "GET", "*"},
		{"ACL", "LIST"},
		{"SCRIPT", "FLUSH"},
		{"EVAL", "return redis.call('GET', 'quavon:anything')", "0"},
		{"EVAL", "return redis.call('FLUSHALL')", "0"},
	} {
		err := user.Do(t.Context(), user.B().Arbitrary(c[0]).Args(c[1:]...).Build()).Error()
		if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "ACL failure") {
			t.Errorf("%v: %v, want NOPERM", c, err)
		}
	}
}

// invocation is a command with as many arguments as it wants at least.
func invocation(t testing.TB, c valkey.Client, name string) []string {
	t.Helper()
	info, err := c.Do(t.Context(), c.B().Arbitrary("COMMAND", "INFO", name).Build()).ToArray()
	if err != nil || len(info) != 1 {
		t.Fatalf("COMMAND INFO %s: %v", name, err)
	}
	fields, err := info[0].ToArray()
	if err != nil {
		t.Fatalf("COMMAND INFO %s: %v", name, err)
	}
	arity, err := fields[1].AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(name, "|")
	for int64(len(args)) < max(arity, -arity) {
		args = append(args, "0")
	}
	return args
}

// usedCommands is what scripts call, and what Go code builds.
func usedCommands(t testing.TB) map[string]bool {
	t.Helper()
	used := map[string]bool{}
	for _, c := range strings.Fields("auth hello quit reset ping select eval evalsha subscribe unsubscribe set unlink getrange xrange") {
		used[c] = true // the client's own, and those of Go code
	}
	used["cluster|slots"], used["cluster|shards"] = true, true
	files, err := filepath.Glob("lua/*.lua")
	if err != nil || len(files) < 10 {
		t.Fatalf("scripts %v, %v", files, err)
	}
	calls := regexp.MustCompile(`call\('([A-Z]+)'(?:, '(CREATE)')?`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range calls.FindAllStringSubmatch(string(text), -1) {
			name := strings.ToLower(m[1])
			if m[2] != "" {
				name += "|" + strings.ToLower(m[2])
			}
			used[name] = true
		}
	}
	return used
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	s := withUsers(t)
	c := as(s, "sandbox")
	c.Password = "not-the-secret"
	_, err := conn.Open(c)
	if err == nil || strings.Contains(err.Error(), c.Password) {
		t.Errorf("wrong password: %v", err)
	}
}
