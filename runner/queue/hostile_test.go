package queue_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
	"github.com/quavon/quavon/runner/queue/queuetest"
)

// client is a bare connection, as somebody has who can write to Valkey but holds no key.
func client(t testing.TB, s *queuetest.Server) valkey.Client {
	t.Helper()
	c, err := conn.Open(s.Settings())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func hget(t testing.TB, c valkey.Client, key, field string) string {
	t.Helper()
	v, err := c.Do(t.Context(), c.B().Hget().Key(key).Field(field).Build()).ToString()
	if err != nil {
		t.Fatalf("%s %s: %v", key, field, err)
	}
	return v
}

func hset(t testing.TB, c valkey.Client, key, field, value string) {
	t.Helper()
	if err := c.Do(t.Context(), c.B().Hset().Key(key).FieldValue().FieldValue(field, value).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// flipped is a text with one bit changed: another letter in its place may be the same one.
func flipped(text string, at int) string {
	b := []byte(text)
	b[at] ^= 1
	return string(b)
}

// Whoever can write to Valkey but has no key gets nothing run and nothing believed.
func TestForgedJobs(t *testing.T) {
	t.Parallel()
	other, err := envelope.NewKeyring(bytes.Repeat([]byte("12"), 16))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edit func(t *testing.T, raw string) string
		want envelope.Cause
	}{
		"tampered":  {func(_ *testing.T, raw string) string { return flipped(raw, len(raw)-40) }, envelope.Tampered},
		"truncated": {func(_ *testing.T, raw string) string { return raw[:len(raw)-1] }, envelope.Malformed},
		"empty":     {func(*testing.T, string) string { return "" }, envelope.Malformed},
		"other job": {func(t *testing.T, _ string) string { return sealed(t, keys, name(t), "another", time.Hour) }, envelope.WrongContext},
		"other key": {func(t *testing.T, _ string) string { return sealed(t, other, name(t), "j", time.Hour) }, envelope.WrongKey},
		"audience":  {func(t *testing.T, _ string) string { return sealed(t, keys, "elsewhere", "j", time.Hour) }, envelope.WrongAudience},
		"expired":   {func(t *testing.T, _ string) string { return sealed(t, keys, name(t), "j", -time.Hour) }, envelope.Expired},
		"replayed":  {func(t *testing.T, _ string) string { return sealed(t, keys, name(t), "j", time.Hour) }, envelope.Replayed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t, server(t), nil)
			ticket := submit(t, q, queue.Job{ID: "j"})
			raw := client(t, server(t))
			swapRaw(t, raw, q, func(s string) string { return c.edit(t, s) })
			runner := open(t, server(t), nil)
			claimNothing(t, worker(t, runner, "r1"), func() {
				if o := wait(t, ticket); o.Reason != job.ReasonRejected {
					t.Errorf("outcome %+v", o)
				}
			})
			if n := runner.Refusals()[c.want]; n != 1 {
				t.Errorf("refusals %v, want one %s", runner.Refusals(), c.want)
			}
		})
	}
}

// swapRaw puts another sealed job in place of job j's.
func swapRaw(t testing.TB, c valkey.Client, q *queue.Queue, edit func(string) string) {
	t.Helper()
	stream, key := q.Base()+"jobs:b:host:a", q.Base()+"job:j"
	entries, err := c.Do(t.Context(), c.B().Xrange().Key(stream).Start("-").End("+").Build()).AsXRange()
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	add := c.B().Xadd().Key(stream).Id("*").FieldValue().FieldValue("job", "j").FieldValue("raw", edit(entries[0].FieldValues["raw"])).Build()
	entry, err := c.Do(t.Context(), add).ToString()
	if err != nil {
		t.Fatal(err)
	}
	hset(t, c, key, "meta", strings.Replace(hget(t, c, key, "meta"), entries[0].ID, entry, 1))
}

// sealed is a job's envelope that nobody submitted.
func sealed(t testing.TB, k *envelope.Keyring, queueName, id string, valid time.Duration) string {
	t.Helper()
	now := time.Now()
	raw, err := k.Seal(envelope.Envelope{
		Context:   envelope.Context{Purpose: envelope.PurposeJob, Audience: "runners/" + queueName, Job: id},
		NotBefore: now.Add(min(0, 2*valid)), Expiry: now.Add(valid), Payload: []byte("\x00evil"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A record that is put back after its job has ended is a replay, whatever attempt it
// claims to be.
func TestReplayAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := server(t)
	q := open(t, s, nil)
	w := worker(t, q, "r1")
	submit(t, q, queue.Job{ID: "j"}).Close()
	raw := client(t, s)
	key := q.Base() + "job:j"
	stream := q.Base() + "jobs:b:host:a"
	dumps := map[string]string{}
	for _, k := range []string{key, stream} {
		d, err := raw.Do(t.Context(), raw.B().Dump().Key(k).Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		dumps[k] = d
	}
	if err := claim(t, w).Finish(t.Context(), queue.Outcome{}); err != nil {
		t.Fatal(err)
	}
	for k, d := range dumps {
		if err := raw.Do(t.Context(), raw.B().Restore().Key(k).Ttl(0).SerializedValue(d).Replace().Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	hset(t, raw, key, "at", "leased 2 0 9999999999999 0 r2") // as if another runner had been lost with it
	lease := q.Base() + "lease:host"
	raw.Do(t.Context(), raw.B().Zadd().Key(lease).ScoreMember().ScoreMember(0, "j").Build())
	claimNothing(t, w, func() {
		eventually(t, "it is refused", func() bool { return q.Refusals()[envelope.Replayed] == 1 })
	})
}

// The same name again is refused, but a repeated command isn't a second job.
func TestSubmitTwice(t *testing.T) {
	t.Parallel()
	q := open(t, server(t), nil)
	submit(t, q, queue.Job{ID: "j"}).Close()
	_, err := q.Submit(t.Context(), queue.Job{ID: "j", Tenant: "a", Class: "host"}, nil)
	if fault.Code(err) != string(job.ReasonRejected) {
		t.Errorf("second job of the name: %v", err)
	}
}

// Results that aren't genuine are refused, and those of other jobs, attempts or
// earlier jobs of the name too.
func TestForgedResults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(raw, other string) string
		want envelope.Cause
	}{
		"tampered":  {func(raw, _ string) string { return flipped(raw, 80) }, envelope.Tampered},
		"truncated": {func(raw, _ string) string { return raw[:len(raw)-1] }, envelope.Malformed},
		"swapped":   {func(_, other string) string { return other }, envelope.WrongContext},
		"nothing":   {func(_, _ string) string { return "" }, envelope.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			q := open(t, s, nil)
			w := worker(t, q, "r1")
			for _, id := range []string{"j", "other"} {
				submit(t, q, queue.Job{ID: id}).Close()
				if err := claim(t, w).Finish(t.Context(), queue.Outcome{Payload: []byte("a result of some length")}); err != nil {
					t.Fatal(err)
				}
			}
			raw := client(t, s)
			key := q.Base() + "job:j"
			hset(t, raw, key, "result", c.edit(hget(t, raw, key, "result"), hget(t, raw, q.Base()+"job:other", "result")))
			reader := open(t, s, nil)
			ticket, err := reader.Attach(t.Context(), "j")
			if err != nil {
				t.Fatal(err)
			}
			o, err := ticket.Wait(within(t, patience), nil)
			if envelope.CauseOf(err) != c.want || fault.Code(err) != string(job.ReasonRejected) {
				t.Errorf("%+v, %v; want %s", o, err, c.want)
			}
			if reader.Refusals()[c.want] == 0 {
				t.Errorf("not counted: %v", reader.Refusals())
			}
		})
	}
}

// Messages on the channels are only hints: forged ones change nothing.
func TestForgedMessages(t *testing.T) {
	t.Parallel()
	s := server(t)
	q := open(t, s, nil)
	ticket := submit(t, q, queue.Job{ID: "j"})
	c := claim(t, worker(t, q, "r1"))
	raw := client(t, s)
	meta := strings.Fields(hget(t, raw, q.Base()+"job:j", "meta"))
	reply := meta[len(meta)-1]
	for _, m := range []string{"", "j", "j\ndone\n1\nr1\n\nforged", "j\ndone\nx\nr1\n\n", "j\noutput\n9\nr9", "j\n\n\n\n\n\n\n"} {
		raw.Do(t.Context(), raw.B().Publish().Channel(queue.Prefix+"reply:"+reply).Message(m).Build())
	}
	for _, m := range []string{"", "j\n1\nforged", "j"} {
		raw.Do(t.Context(), raw.B().Publish().Channel(q.Base()+"control").Message(m).Build())
	}
	time.Sleep(200 * time.Millisecond)
	if c.Err() != nil {
		t.Errorf("a forged request ended the job: %v", c.Err())
	}
	if err := c.Finish(t.Context(), queue.Outcome{Payload: []byte("real")}); err != nil {
		t.Fatal(err)
	}
	if o := wait(t, ticket); string(o.Payload) != "real" {
		t.Errorf("outcome %+v", o)
	}
}

// A log that somebody edited is not shown.
func TestForgedOutput(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(raw valkey.Client, key string, frames []string){
		"reordered": func(raw valkey.Client, key string, f []string) { put(t, raw, key, f[1], f[0], f[2]) },
		"missing":   func(raw valkey.Client, key string, f []string) { put(t, raw, key, f[0], f[2]) },
		"tampered":  func(raw valkey.Client, key string, f []string) { put(t, raw, key, f[0], flipped(f[1], 30), f[2]) },
		"garbage":   func(raw valkey.Client, key string, f []string) { put(t, raw, key, f[0], "x") },
		"nothing":   func(raw valkey.Client, key string, f []string) { put(t, raw, key, f[0], "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			q := open(t, s, nil)
			ticket := submit(t, q, queue.Job{ID: "j"})
			c := claim(t, worker(t, q, "r1"))
			out := c.Output(t.Context())
			fmt.Fprint(out.Writer(queue.Stdout, 0), "first")
			fmt.Fprint(out.Writer(queue.Stderr, 1), "second")
			if err := c.Finish(t.Context(), queue.Outcome{}); err != nil {
				t.Fatal(err)
			}
			raw := client(t, s)
			key := queue.Prefix + "{" + strings.TrimSuffix(strings.TrimPrefix(q.Base(), queue.Prefix+"{"), "}:") + "/j}:output:1"
			entries, err := raw.Do(t.Context(), raw.B().Xrange().Key(key).Start("-").End("+").Build()).AsXRange()
			if err != nil || len(entries) != 3 {
				t.Fatalf("%d entries, %v", len(entries), err)
			}
			var frames []string
			for _, e := range entries {
				frames = append(frames, e.FieldValues["f"])
			}
			edit(raw, key, frames)
			_, err = ticket.Wait(within(t, patience), func(f queue.Frame) error {
				if !strings.Contains("first", string(f.Data)) {
					t.Errorf("shown: %q", f.Data)
				}
				return nil
			})
			if envelope.CauseOf(err) == "" {
				t.Errorf("the log was believed: %v", err)
			}
		})
	}
}

func put(t testing.TB, c valkey.Client, key string, frames ...string) {
	c.Do(t.Context(), c.B().Del().Key(key).Build())
	for i, f := range frames {
		id := fmt.Sprintf("%d-0", i+1)
		if err := c.Do(t.Context(), c.B().Xadd().Key(key).Id(id).FieldValue().FieldValue("f", f).Build()).Error(); err != nil {
			t.Error(err)
		}
	}
}

// Strangers' entries in a stream are dropped and hold up nobody.
func TestStrangersEntries(t *testing.T) {
	t.Parallel()
	s := server(t)
	q := open(t, s, nil)
	submit(t, q, queue.Job{ID: "a"}).Close()
	raw := client(t, s)
	stream := q.Base() + "jobs:b:host:a"
	for _, id := range []string{"a", "nobody", strings.Repeat("x", 1000)} {
		raw.Do(t.Context(), raw.B().Xadd().Key(stream).Id("*").FieldValue().FieldValue("job", id).Build())
	}
	submit(t, q, queue.Job{ID: "b"}).Close()
	if ids := drain(t, worker(t, q, "r1"), 2); ids[0] != "a" || ids[1] != "b" {
		t.Errorf("claimed %v", ids)
	}
}

// A snapshot whose chunks were changed isn't read to its end.
func TestForgedSnapshot(t *testing.T) {
	t.Parallel()
	s := server(t)
	q := open(t, s, nil)
	data := make([]byte, 2<<20)
	_, _ = rand.Read(data)
	_, err := q.Submit(t.Context(), queue.Job{ID: "j", Tenant: "a", Class: "host"}, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	raw := client(t, s)
	chunks, err := raw.Do(t.Context(), raw.B().Keys().Pattern("*"+strings.Trim(q.Base()[len(queue.Prefix):], "{}:")+"/j}:*:2").Build()).AsStrSlice()
	if err != nil || len(chunks) != 1 {
		t.Fatalf("chunks %v, %v", chunks, err)
	}
	raw.Do(t.Context(), raw.B().Append().Key(chunks[0]).Value("x").Build())
	r, err := claim(t, worker(t, q, "r1")).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); envelope.CauseOf(err) != envelope.Truncated || q.Refusals()[envelope.Truncated] != 1 {
		t.Errorf("read %v, refusals %v", err, q.Refusals())
	}
}
