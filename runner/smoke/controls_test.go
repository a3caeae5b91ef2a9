package smoke

import (
	"os"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/guest/probe"
	"github.com/quavon/quavon/test/need"
)

// find returns an entry of the catalogue.
func find(t *testing.T, id string) Entry {
	t.Helper()
	for _, e := range Catalogue() {
		if e.ID == id {
			return e
		}
	}
	t.Fatalf("there is no probe %s", id)
	return Entry{}
}

// prepared has made ready the host for one entry, and answers as a sandbox that holds.
func prepared(t *testing.T, e Entry) *Case {
	t.Helper()
	const nonce = "abcdefghijkl"
	w, err := NewWorld(strings.ToLower(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() }) // a test may have closed it
	b := &Bench{Suite: &Suite{World: w, Backend: "runsc"}, Nonce: nonce, Params: map[string][]string{}}
	if err := e.Plant(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return &Case{Entry: &e, Bench: b, Live: &Live{}}
}

// A listener's word is worth more than the sandbox's, and no listener is no word.
func TestReachIsJudgedFromOutside(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "the world is root's: without it there are fewer targets")
	}
	e := find(t, "E3-host")
	for _, tt := range []struct {
		name   string
		change func(*Case)
		want   Verdict
	}{
		{"as it should be", func(*Case) {}, Held},
		{"it says that it got through", func(c *Case) { c.Lines[0].Errno = "" }, Broken},
		{"it got through and doesn't say so", func(c *Case) {
			c.Bench.Suite.World.see([]byte(token(c.Bench.Nonce, tokenInside, "host-0")))
		}, Broken},
		{"an error that isn't known", func(c *Case) { c.Lines[0].Errno = "EBADF" }, CouldNotRun},
		{"an attempt is missing", func(c *Case) { c.Lines = c.Lines[1:] }, CouldNotRun},
		{"the listeners have gone", func(c *Case) { _ = c.Bench.Suite.World.Close() }, CouldNotRun},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := prepared(t, e)
			for _, target := range hostTargets(c.Bench.Suite.World) {
				c.Lines = append(c.Lines, probe.Line{Probe: e.ID, Sub: target.Sub, Errno: target.Held[0]})
			}
			tt.change(c)
			if o := e.Judge(c); o.Verdict != tt.want {
				t.Errorf("%s: %s, want %s", o.Verdict, o.Why, tt.want)
			}
		})
	}
}

// Without the server that may be reached, refusals say nothing.
func TestDoorIsJudgedFromOutside(t *testing.T) {
	e := find(t, "E7-door")
	see := func(c *Case, sub string) { c.Bench.Suite.World.see([]byte(token(c.Bench.Nonce, tokenInside, sub))) }
	for _, tt := range []struct {
		name   string
		change func(*Case)
		want   Verdict
	}{
		{"as it should be", func(c *Case) { see(c, "e7-allowed-before"); see(c, "e7-allowed-after") }, Held},
		{"the allowed server saw nothing afterwards", func(c *Case) { see(c, "e7-allowed-before") }, CouldNotRun},
		{"a name was looked up", func(c *Case) {
			see(c, "e7-allowed-before")
			see(c, "e7-allowed-after")
			see(c, "name-plain")
		}, Broken},
		{"a name was looked up and the server saw nothing", func(c *Case) { see(c, "name-plain") }, Broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := prepared(t, e)
			for _, p := range c.Bench.Params[e.ID] {
				sub, _, _ := strings.Cut(p, " ")
				l := probe.Line{Probe: e.ID, Sub: sub, Errno: "HTTP 403"}
				if strings.Contains(sub, "allowed-") {
					l.Errno = ""
				}
				c.Lines = append(c.Lines, l)
			}
			tt.change(c)
			if o := e.Judge(c); o.Verdict != tt.want {
				t.Errorf("%s: %s, want %s", o.Verdict, o.Why, tt.want)
			}
		})
	}
}

// What a sandbox had of the processors counts, and what the kernel says, both ways.
func TestProcessorOutcome(t *testing.T) {
	for _, tt := range []struct {
		name  string
		quota int64
		had   float64
		want  Verdict
	}{
		{"as it should be", 20_000, 0.19, Held},
		{"no quota", 1 << 62, 0.1, Broken},
		{"a quota that isn't kept", 20_000, 0.9, Broken},
		{"nothing was tried", 20_000, 0.001, CouldNotRun},
	} {
		if o := processorOutcome(tt.quota, tt.had, 0.2, 1.6); o.Verdict != tt.want {
			t.Errorf("%s: %s %s", tt.name, o.Verdict, o.Why)
		}
	}
}
