package smoke

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func socketEntries() []Entry {
	return []Entry{
		{
			ID: "C3-sockets", Group: GroupFilesystem, Quick: true, Title: "no socket of the host's can be connected to",
			Control: "a socket of the job's own is found by the same walk and answers, before and after",
			Weak:    []string{"uds", "docker-socket", "runc-socket"}, Inside: []string{"C3-sockets"},
			Judge: func(c *Case) Outcome { return c.onlyOwn("C3-sockets", "socket-") },
		},
		{
			ID: "C3-abstract", Group: GroupFilesystem, Quick: true, Title: "no socket of the host's without a file can be connected to",
			Control: "one of the job's own answers; one of the host's counts who comes, and the host itself can",
			Weak:    []string{"runc-host-network"}, Inside: []string{"C3-abstract"}, Plant: plantAbstract, Watch: watchAbstract,
			Judge: func(c *Case) Outcome { return c.onlyOwn("C3-abstract", "given-", "listed-") },
		},
	}
}

// onlyOwn says whether of all sockets only the job's own answered.
func (c *Case) onlyOwn(id string, others ...string) Outcome {
	for _, sub := range []string{"control", "control-after"} {
		if l := c.Find(id, sub); l == nil || l.Errno != "" || !strings.Contains(l.Answer, c.Bench.Nonce) {
			return Outcome{CouldNotRun, "the job's own socket didn't answer"}
		}
	}
	var broken, unsure []string
	for _, l := range c.Lines {
		if l.Probe != id || !slices.ContainsFunc(others, func(p string) bool { return strings.HasPrefix(l.Sub, p) }) {
			continue
		}
		switch l.Errno {
		case "":
			if !strings.Contains(l.Answer, strconv.Quote(c.Bench.Nonce)) { // its own, by another path
				broken = append(broken, fmt.Sprintf("connected: %.100q", l.Answer))
			}
		case "ECONNREFUSED", "ENOENT", "EACCES", "EPERM", "ENOTCONN":
		default:
			unsure = append(unsure, l.Sub+" came back with "+l.Errno)
		}
	}
	return verdict(broken, unsure)
}

// watchAbstract connects from the host, and compares the count.
func watchAbstract(ctx context.Context, b *Bench, live *Live) Outcome {
	l := b.planted.abstract
	if err := l.control(ctx); err != nil {
		return Outcome{CouldNotRun, "the host's own socket doesn't answer: " + err.Error()}
	}
	live.until(ctx, "C3-abstract")
	own := int64(1)
	if n := l.count.Load(); n > own {
		return Outcome{Broken, fmt.Sprintf("%d connections came from elsewhere", n-own)}
	}
	if err := l.control(ctx); err != nil {
		return Outcome{CouldNotRun, "the host's own socket doesn't answer any more: " + err.Error()}
	}
	return Outcome{Verdict: Held}
}
