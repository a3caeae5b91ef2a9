package conn

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// passing are the words that errors begin with which pass by themselves: a full
// memory is emptied by time to live, a replica is promoted, a file is loaded.
var passing = []string{
	"OOM", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MISCONF", "UNBLOCKED",
	"MOVED", "ASK",
}

// hints say what to do about errors that don't pass, by their first word.
var hints = map[string]string{
	"NOPERM":    "give the user what templates/valkey/users.acl has, and reload with ACL LOAD",
	"WRONGPASS": "check user and password",
	"NOAUTH":    "set user and password",
	"OOM":       "raise Valkey's maxmemory, or wait until jobs have ended",
	"READONLY":  "connect to the primary, not to a replica",
	"LOADING":   "wait until Valkey has read its data",
	"MISCONF":   "look at Valkey's log: it can't write its data",
}

// reply is the reply that an error is made of, "" when it isn't one.
func reply(err error) string {
	var v *valkey.ValkeyError
	if !errors.As(err, &v) {
		return ""
	}
	return v.Error()
}

// word is the first word of a reply that is an error. An error raised in a script has
// the same first word.
func word(err error) string {
	w, _, _ := strings.Cut(reply(err), " ")
	return w
}

func hint(err error) string {
	if h, ok := hints[word(err)]; ok {
		return h
	}
	return "check that Valkey runs there and can be reached"
}

// Passing says whether an error may be gone when the command is repeated. Errors of
// the connection are; then the command may have been done or not.
func Passing(err error) bool {
	if err == nil || valkey.IsValkeyNil(err) || errors.Is(err, context.Canceled) || errors.Is(err, valkey.ErrClosing) {
		return false
	}
	w := word(err)
	if w == "" {
		return true
	}
	for _, p := range passing {
		if w == p || strings.HasPrefix(reply(err), "ERR "+p) {
			return true
		}
	}
	return false
}

// Bounds of a single try and of the pauses between tries.
const (
	tryTimeout = 6 * time.Second
	firstPause = 20 * time.Millisecond
	maxPause   = 2 * time.Second
)

// Do calls f until it succeeds, fails for good, or ctx ends. f gets the number of
// the try, from 0, and must bear being repeated: the try before may have been done.
// The error is f's last, with what it was for.
func Do(ctx context.Context, what string, f func(ctx context.Context, try int) error) error {
	pause := firstPause
	for try := 0; ; try++ {
		err := once(ctx, try, f)
		if err == nil || valkey.IsValkeyNil(err) {
			return err
		}
		if ctx.Err() != nil {
			return Explain(errors.Join(context.Cause(ctx), err), what)
		}
		if !Passing(err) {
			return Explain(err, what)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // only spreads load
		case <-ctx.Done():
			return Explain(errors.Join(context.Cause(ctx), err), what)
		}
		pause = min(2*pause, maxPause)
	}
}

var errNoReply = errors.New("no reply in time")

func once(ctx context.Context, try int, f func(context.Context, int) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, tryTimeout, errNoReply)
	defer cancel()
	return f(ctx, try)
}
