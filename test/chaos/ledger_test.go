package chaos

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// entry is a line of the ledger: something that happened to an attempt, written down
// outside of Valkey by the process in which it happened.
type entry struct {
	what    string
	job     string
	attempt uint32
	runner  string
}

// What is written down.
const (
	marked = "marked" // the job's own words came out of its sandbox
	stored = "stored" // the queue has taken the result
	lost   = "lost"   // the queue has refused the attempt
)

// from takes job and attempt from a sandbox's name.
func (e *entry) from(sandbox string) error {
	i := strings.LastIndexByte(sandbox, '-')
	n, err := strconv.ParseUint(sandbox[i+1:], 10, 32)
	e.job, e.attempt = sandbox[:max(0, i)], uint32(n)
	return err
}

// ledger is a file that outlives whoever writes to it.
type ledger struct {
	mu sync.Mutex
	f  *os.File
}

func openLedger(path string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &ledger{f: f}, err
}

// add writes one line, in one piece: many processes write.
func (l *ledger) add(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.f, "%s %s %d %s\n", e.what, e.job, e.attempt, e.runner)
}

func readLedger(t *testing.T, path string) map[entry]int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[entry]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e entry
		if _, err := fmt.Sscan(strings.TrimSpace(lines.Text()), &e.what, &e.job, &e.attempt, &e.runner); err != nil {
			t.Fatalf("ledger line %q: %v", lines.Text(), err)
		}
		all[e]++
	}
	return all
}
