package fleet_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/fleet"
	"github.com/quavon/quavon/doctor/report"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/envelope"
	"github.com/quavon/quavon/runner/queue/queuetest"
	"github.com/quavon/quavon/test/need"
)

var update = flag.Bool("update", false, "write the golden files")

// world is a queue with a doctor and runners that say what they are told to.
type world struct {
	t      *testing.T
	server *queuetest.Server
	key    []byte
	fleet  *fleet.Fleet
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, server: queuetest.Start(t), key: bytes.Repeat([]byte("k1"), 16)}
	w.fleet = newFleet(w)
	return w
}

func newFleet(w *world) *fleet.Fleet {
	return &fleet.Fleet{
		Name: "default", Facts: w.facts("api", w.key), Open: func(context.Context) (fleet.Queue, error) { return w.open(w.key), nil },
	}
}

// again makes the fleet anew, as the next doctor does.
func (w *world) again() {
	f := w.fleet
	w.fleet = &fleet.Fleet{Name: f.Name, Facts: f.Facts, Open: f.Open, Keys: f.Keys, Enterprise: f.Enterprise}
}

func keyring(t *testing.T, key []byte) *envelope.Keyring {
	t.Helper()
	k, err := envelope.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (w *world) facts(host string, key []byte) fleet.Facts {
	return fleet.Facts{Host: host, Boot: "boot-" + host, Version: "v1", Key: keyring(w.t, key).ActiveID().String()}
}

func (w *world) open(key []byte) *queue.Queue {
	w.t.Helper()
	q, err := queue.Open(w.t.Context(), queue.Options{Conn: w.server.Settings(), Keys: keyring(w.t, key)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(q.Close)
	return q
}

// runner starts one that finds the same for every check it is asked for, save others.
func (w *world) runner(id string, a *fleet.Answerer, h queue.Health, key []byte) {
	w.t.Helper()
	wk, err := w.open(key).Worker(w.t.Context(), id, "host")
	if err != nil {
		w.t.Fatal(err)
	}
	h.State = cmp.Or(h.State, queue.StateHealthy)
	if err := wk.PublishHealth(w.t.Context(), h); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if a != nil {
			wk.Answers(ctx, a.Answer)
		}
	}()
	w.t.Cleanup(func() { cancel(); <-done; wk.Close() })
}

// well is a runner on a host where all is well, save what is said of single checks.
func (w *world) well(id, host string, save map[string]doctor.Finding) {
	w.t.Helper()
	a := &fleet.Answerer{Facts: w.facts(host, w.key)}
	for _, code := range []string{"QD951", "QD952", "QD953", "QD954", "QD956", "QD957", "QD958"} {
		f, ok := save[code]
		if !ok {
			f = doctor.Passed("all is well")
		}
		a.Checks = append(a.Checks, &doctor.Check{
			Code: code, Name: "x", Title: "x", Group: "x", Severity: doctor.Failure, DefaultFix: "x", Run: func(context.Context) doctor.Finding { return f },
		})
	}
	w.runner(id, a, queue.Health{Host: host, Boot: "boot-" + host, Slots: 2}, w.key)
}

// check makes one check of the fleet.
func (w *world) check(code string) doctor.Finding {
	w.t.Helper()
	return w.report(code).Results[0].Finding
}

func (w *world) report(code string) *doctor.Report {
	w.t.Helper()
	c := &doctor.Check{
		Code: code, Name: "check", Title: code, Group: "Sandbox", Severity: doctor.Failure, DefaultFix: "the check's own fix", Timeout: 3 * time.Minute,
		Essential: code == "QD957",
	}
	w.fleet.Bind([]*doctor.Check{c})
	return doctor.Run(w.t.Context(), []*doctor.Check{c}, nil)
}

// volatile is what differs from run to run.
var volatile = regexp.MustCompile(`\d+\.\d s\b|\d{4}-\d\d-\d\dT[0-9:]+Z|/tmp/\S+?/s\b`)

// golden compares a check's whole text with a file.
func (w *world) golden(name, code string) {
	w.t.Helper()
	var b bytes.Buffer
	if err := report.Write(&b, "text", w.report(code), report.Options{}); err != nil {
		w.t.Fatal(err)
	}
	got := volatile.ReplaceAllString(b.String(), "…")
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		w.t.Errorf("%s differs (go test -update writes it): %v\n%s", path, err, got)
	}
}

// follows do what the fix of a state of TestFails says, where that is about runners and not
// about what one has found: then the check holds.
var follows = map[string]func(w *world){
	"QD951-no-runner": start, "QD951-mute": start, "QD957-mute": start, "QD954-other-key": start,
	"QD951-other-key":     func(w *world) { w.well("r2", "h2", nil) },
	"QD951-no-valkey":     func(w *world) { w.fleet.Open = newFleet(w).Open; start(w) },
	"QD951-two-of-a-name": idsOfTheirOwn, "QD957-two-of-a-name": idsOfTheirOwn, "QD954-two-of-a-name": idsOfTheirOwn,
	"QD954-rotation":             func(w *world) { w.fleet.Facts = newFleet(w).Facts },
	"QD955-same-host":            func(w *world) { w.well("r1", "another", nil) },
	"QD955-same-host-enterprise": func(w *world) { w.well("r2", "another", nil) },
	"QD955-same-kernel":          func(w *world) { w.well("r1", "another", nil) },
}

func start(w *world) { w.well("r1", "h1", nil) }

func idsOfTheirOwn(w *world) {
	w.well("r1", "h1", nil)
	w.well("r2", "h2", nil)
}

// TestFails shows for each code a state in which it fails, with its message and fix.
func TestFails(t *testing.T) {
	t.Parallel()
	other := bytes.Repeat([]byte("k2"), 16)
	for name, c := range map[string]struct {
		code string
		make func(w *world)
	}{
		"QD951-no-runner": {"QD951", func(*world) {}},
		"QD951-other-key": {"QD951", func(w *world) {
			w.well("r1", "h1", nil)
			w.runner("r2", nil, queue.Health{}, other)
		}},
		"QD951-mute": {"QD951", func(w *world) { w.runner("r1", nil, queue.Health{Host: "h1"}, w.key) }},
		"QD957-mute": {"QD957", func(w *world) { w.runner("r1", nil, queue.Health{Host: "h1"}, w.key) }},
		"QD951-two-of-a-name": {"QD951", func(w *world) {
			w.well("r1", "h1", nil)
			w.runner("r1", nil, queue.Health{Host: "h2"}, w.key)
		}},
		"QD951-no-valkey": {"QD951", func(w *world) {
			w.fleet.Open = func(context.Context) (fleet.Queue, error) { return nil, errors.New("connect to valkey://x: refused") }
		}},
		// The runner that has the record is untested; the other one's sandboxes hold.
		"QD957-two-of-a-name": {"QD957", func(w *world) {
			w.well("r1", "h1", nil)
			w.runner("r1", nil, queue.Health{Host: "h2"}, w.key)
		}},
		"QD954-two-of-a-name": {"QD954", func(w *world) {
			w.well("r1", "h1", nil)
			w.runner("r1", nil, queue.Health{Host: "h2"}, w.key)
		}},
		"QD957-left-out": {"QD957", func(w *world) {
			w.well("r1", "h1", nil)
			w.well("r2", "h2", map[string]doctor.Finding{"QD957": doctor.Skipped("needs QD952, which failed")})
		}},
		"QD952-one-of-two": {"QD952", func(w *world) {
			w.well("r1", "h1", nil)
			w.well("r2", "h2", map[string]doctor.Finding{"QD952": doctor.Failed("no job can be started", "run `make`", "EOF")})
		}},
		"QD953-changed": {"QD953", func(w *world) {
			w.well("r1", "h1", map[string]doctor.Finding{"QD953": doctor.Failed("images aren't what the lock says", "run `quavon build images`", "node22: layer 3")})
		}},
		"QD954-other-key": {"QD954", func(w *world) { w.runner("r1", nil, queue.Health{}, other) }},
		"QD954-rotation": {"QD954", func(w *world) {
			w.well("r1", "h1", nil)
			w.fleet.Facts.Key = keyring(w.t, other).ActiveID().String()
		}},
		"QD954-secrets": {"QD954", func(w *world) {
			w.well("r1", "h1", map[string]doctor.Finding{"QD954": doctor.Failed("secrets aren't kept", "run `chmod 600`", "/k has mode 0644")})
			w.fleet.Keys = func(context.Context) []doctor.Part {
				return []doctor.Part{{Subject: "secrets here", Finding: doctor.Passed("2 files of secrets are closed to others")}}
			}
		}},
		"QD955-same-host": {"QD955", func(w *world) { w.well("r1", "api", nil) }},
		"QD955-same-host-enterprise": {"QD955", func(w *world) {
			w.well("r1", "h1", nil)
			w.well("r2", "h2", nil)
			w.announce(queue.HostRecord{Host: "h2", By: queue.ByControlPlane})
			w.fleet.Enterprise = true
		}},
		"QD955-same-kernel": {"QD955", func(w *world) {
			w.well("r1", "h1", nil)
			w.announce(queue.HostRecord{Host: "a-container", Boot: "boot-h1", By: queue.BySubmit})
		}},
		"QD956-let-out": {"QD956", func(w *world) {
			w.well("r1", "h1", map[string]doctor.Finding{"QD956": doctor.Failed("a sandbox without a network reached a listener", "")})
		}},
		"QD957-broken": {"QD957", func(w *world) {
			w.well("r1", "h1", map[string]doctor.Finding{"QD957": doctor.Failed("1 of 40 probes is broken", "", "D1-devices: broken: /dev/kvm was opened")})
		}},
		"QD958-no-limit": {"QD958", func(w *world) {
			w.well("r1", "h1", map[string]doctor.Finding{"QD958": doctor.Failed("a limit doesn't hold", "", "memory: the job ended with 0")})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			fleet.SetAliveTime(t, w.fleet, 2*time.Minute)
			if strings.HasSuffix(name, "-mute") {
				fleet.SetAliveTime(t, w.fleet, 3*time.Second) // that it is asked in
			}
			c.make(w)
			w.golden(name, c.code)
			follow := follows[name]
			if follow == nil {
				return
			}
			w.again()
			follow(w)
			if f := w.check(c.code); f.State != doctor.Pass {
				t.Errorf("after its fix: %s %s %v", f.State, f.Message, f.Parts)
			}
		})
	}
}

func (w *world) announce(r queue.HostRecord) {
	w.t.Helper()
	if err := w.open(w.key).PublishHost(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
}

// TestHolds shows that each code can pass, and that nothing is skipped in silence.
func TestHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, code := range []string{"QD952", "QD953", "QD955", "QD956", "QD957", "QD958"} {
		if f := w.check(code); f.State != doctor.Skip || !strings.Contains(f.Message, "QD951") {
			t.Errorf("%s without runners: %s %s", code, f.State, f.Message)
		}
	}
	w = newWorld(t)
	w.well("r1", "h1", nil)
	w.well("r2", "h2", nil)
	for _, code := range []string{"QD951", "QD952", "QD953", "QD954", "QD955", "QD956", "QD957", "QD958"} {
		if f := w.check(code); f.State != doctor.Pass || len(f.Parts) != 2 {
			t.Errorf("%s: %s %s %v", code, f.State, f.Message, f.Parts)
		}
	}
}

// TestAnswers shows what isn't believed of an answer, and what a runner doesn't do.
func TestAnswers(t *testing.T) {
	t.Parallel()
	a := &fleet.Answerer{Checks: []*doctor.Check{{Code: "QD952", Run: func(context.Context) doctor.Finding {
		return doctor.Passed(strings.Repeat("x", 9000), slices.Repeat([]string{strings.Repeat("y", 9000)}, 600)...)
	}}, {Code: "QD953", Run: func(context.Context) doctor.Finding { panic("oh") }}}}
	for code, want := range map[string]string{"QD952": "x…", "QD953": "panicked", "QD999": "doesn't know"} {
		doc := a.Answer(t.Context(), queue.Challenge{Check: code})
		if len(doc) > queue.MaxAnswer || !strings.Contains(string(doc), want) {
			t.Errorf("%s: %d bytes, no %q: %.200s", code, len(doc), want, doc)
		}
	}
	for name, doc := range map[string]string{
		"nothing": "", "no object": "[]", "another version": `{"version":2,"state":"pass"}`, "no state": `{"version":1}`,
		"another state": `{"version":1,"state":"great"}`,
	} {
		if f, err := fleet.Read([]byte(doc)); err == nil {
			t.Errorf("%s: believed: %+v", name, f)
		}
	}
	if f, err := fleet.Read([]byte(`{"version":1,"state":"error","message":"m"}`)); err != nil || f.Err == nil {
		t.Errorf("%+v, %v", f, err)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"version":1,"state":"fail","message":"m","details":["d"],"fix":"f"}`))
	f.Add([]byte(`{"version":1,"state":"pass","facts":{"host":"h"}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, err := fleet.Read(doc)
		if err == nil && (got.State == "" || len(got.Details) > 301 || len(got.Message) > 5000) {
			t.Errorf("%q: %+v", doc, got)
		}
	})
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string, mode os.FileMode, uid int) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(rand.Text()), mode); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(path, mode), os.Chown(path, uid, -1)); err != nil {
			need.Skip(t, "needs root: %v", err)
		}
		return path
	}
	me := os.Geteuid()
	for name, c := range map[string]struct {
		files map[string]string
		want  doctor.State
		says  string
	}{
		"closed":        {map[string]string{"A": file("a", 0o600, me), "B": file("b", 0o400, me)}, doctor.Pass, "2 files"},
		"group":         {map[string]string{"A": file("c", 0o640, me)}, doctor.Fail, "0640"},
		"others":        {map[string]string{"A": file("d", 0o604, me)}, doctor.Fail, "0604"},
		"another owner": {map[string]string{"A": file("e", 0o600, 1234)}, doctor.Fail, "uid 1234"},
		"a service's":   {map[string]string{"A": file("f", 0o400, 65532)}, doctor.Pass, "1 files"},
		"missing":       {map[string]string{"A": filepath.Join(dir, "none")}, doctor.Fail, "no such file"},
		"a directory":   {map[string]string{"A": dir}, doctor.Fail, "no regular file"},
		"none":          {nil, doctor.Warn, "environment"},
	} {
		if f := fleet.Secrets(c.files); f.State != c.want || !strings.Contains(f.Message+strings.Join(f.Details, " "), c.says) {
			t.Errorf("%s: %s %s %q", name, f.State, f.Message, f.Details)
		}
	}
}

// TestAnswersInTime: a check ends before who asks for it gives up, who then hears why.
func TestAnswersInTime(t *testing.T) {
	t.Parallel()
	var inner time.Time
	a := &fleet.Answerer{Checks: []*doctor.Check{{Code: "QD956", Timeout: time.Hour, Run: func(ctx context.Context) doctor.Finding {
		inner, _ = ctx.Deadline()
		return doctor.Passed("")
	}}}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	a.Answer(ctx, queue.Challenge{Check: "QD956"})
	if outer, _ := ctx.Deadline(); inner.IsZero() || outer.Sub(inner) < 30*time.Second {
		t.Errorf("the check ends at %v, who asks at %v", inner, outer)
	}
}

// TestHeavyOneAtATime: heavy checks wait for each other, and who asks hears it when one
// has waited for as long as it may; the others don't wait.
func TestHeavyOneAtATime(t *testing.T) {
	t.Parallel()
	under, over := make(chan struct{}), make(chan struct{})
	pass := func(context.Context) doctor.Finding { return doctor.Passed("made") }
	a := &fleet.Answerer{Heavy: []string{"QD956", "QD957"}, Checks: []*doctor.Check{
		{Code: "QD951", Run: pass}, {Code: "QD956", Run: pass}, {Code: "QD957", Run: func(context.Context) doctor.Finding {
			close(under)
			<-over
			return doctor.Passed("made")
		}},
	}}
	var long sync.WaitGroup
	long.Go(func() { a.Answer(t.Context(), queue.Challenge{Check: "QD957"}) })
	<-under
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if doc := a.Answer(ctx, queue.Challenge{Check: "QD956"}); !strings.Contains(string(doc), "other checks of this runner") {
		t.Errorf("beside another: %s", doc)
	}
	if doc := a.Answer(t.Context(), queue.Challenge{Check: "QD951"}); !strings.Contains(string(doc), "made") {
		t.Errorf("a light one: %s", doc)
	}
	close(over)
	long.Wait()
	if doc := a.Answer(t.Context(), queue.Challenge{Check: "QD956"}); !strings.Contains(string(doc), "made") {
		t.Errorf("afterwards: %s", doc)
	}
}

// TestHeavyTime: each of the heavy checks has the time of all, since it may be the last.
func TestHeavyTime(t *testing.T) {
	t.Parallel()
	checks := []*doctor.Check{
		{Code: "QD952", Timeout: time.Minute}, {Code: "QD956", Timeout: 2 * time.Minute}, {Code: "QD957", Timeout: 10 * time.Minute},
	}
	(&fleet.Fleet{Heavy: []string{"QD956", "QD957"}}).Bind(checks)
	for i, want := range []time.Duration{time.Minute, 12 * time.Minute, 12 * time.Minute} {
		if got := checks[i].Timeout; got != want {
			t.Errorf("%s has %s, want %s", checks[i].Code, got, want)
		}
	}
}
