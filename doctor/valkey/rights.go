// Package valkey looks at a Valkey: what it is, how it keeps what is written, and
// what its users may do. Rights are really tried, with keys and channels of the test's
// own and with calls that change nothing where they would succeed.
package valkey

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	client "github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
)

// Role is what a user is for.
type Role string

// Roles of templates/valkey/users.acl. A doctor and a submitter are sandbox users.
const (
	Sandbox Role = "sandbox"
	Egress  Role = "egress"
)

// try is a call, its arguments with %K for a key of the test's own.
type try struct{ call string }

func tries(calls ...string) (out []try) {
	for _, c := range calls {
		out = append(out, try{c})
	}
	return out
}

// Keys and channels of the test, and others'. None holds anything.
const (
	ownKeys   = queue.Prefix + "doctor:"
	egressKey = queue.Prefix + "egress:doctor:"
	otherKeys = "quavon-doctor:"
)

// needs are calls that must work, in this order; they leave nothing behind.
var needs = map[Role][]try{
	Sandbox: tries(
		"PING", "SELECT %D", "SET %K x PX 10000", "GET %K", "STRLEN %K", "GETRANGE %K 0 1", "PEXPIRE %K 10000", "PEXPIRETIME %K",
		"PEXPIREAT %K 9999999999999", "DEL %K", "HSET %K a b", "HGET %K a", "HMGET %K a", "HSTRLEN %K a", "UNLINK %K",
		"ZADD %K 1 a", "ZCARD %K", "ZRANGE %K 0 -1", "ZRANGEBYSCORE %K 0 1", "ZREM %K a", "ZREMRANGEBYSCORE %K 0 1",
		"XGROUP CREATE %K g 0 MKSTREAM", "XADD %K * a b", "XLEN %K", "XRANGE %K - +", "XREADGROUP GROUP g c COUNT 1 STREAMS %K >",
		"XDEL %K 0-1", "DEL %K", "TIME", "EVAL return~1 0", "EVAL return~redis.call('GET',KEYS[1]) 1 %K", "PUBLISH %K x",
	),
	Egress: tries("PING", "SELECT %D", "GET %E", "HGET %E a", "HGETALL %E", "EXISTS %E", "PTTL %E"),
}

// forbidden are calls that must be refused by NOPERM. Where one were allowed it would
// fail by its arguments, or read nothing of worth: NONSENSE is an option that none
// has. Valkey counts arguments before it looks at rights, so their number is right.
var forbidden = map[Role][]try{
	Sandbox: slices.Concat(everyone, tries("GET %O", "SET %O x PX 1", "DEL %O", "XLEN %O", "PUBLISH %O x",
		"EVAL return~redis.call('GET','%O') 0", "HGETALL %K", "SORT %K", "LRANGE %K 0 1")),
	Egress: slices.Concat(everyone, tries("SET %E x PX 1", "DEL %E", "HDEL %E a", "GET %K", "GET %O", "GET %R", "EVAL return~1 0",
		"PUBLISH %K x", "XLEN %K", "ZCARD %K")),
}

// everyone is what neither may.
var everyone = tries("FLUSHALL NONSENSE", "FLUSHDB NONSENSE", "SHUTDOWN NONSENSE", "CONFIG GET maxmemory-policy", "ACL LIST",
	"ACL GETUSER default", "DBSIZE", "RANDOMKEY", "SCAN NONSENSE", "CLIENT LIST", "INFO server", "MODULE LIST", "FUNCTION LIST",
	"SCRIPT FLUSH NONSENSE", "REPLICAOF NONSENSE NONSENSE", "SWAPDB NONSENSE NONSENSE")

// Rights tries what a user of a role may do at a Valkey.
func Rights(ctx context.Context, where conn.Settings, role Role) doctor.Finding {
	c, err := conn.Open(where)
	if err != nil {
		return doctor.Failed(err.Error(), fault.Hint(err))
	}
	defer c.Close()
	nonce := strings.ToLower(rand.Text()[:12])
	names := strings.NewReplacer("%D", fmt.Sprint(where.DB), "%K", ownKeys+nonce, "%E", egressKey+nonce, "%O", otherKeys+nonce,
		"%R", queue.HostKey)
	var lacks, may []string
	for _, t := range needs[role] {
		if err := t.do(ctx, c, names); err != nil && !client.IsValkeyNil(err) {
			lacks = append(lacks, t.name()+": "+err.Error())
		}
	}
	if role == Sandbox {
		if err := subscribe(ctx, c, ownKeys+nonce); err != nil {
			lacks = append(lacks, "SUBSCRIBE: "+err.Error())
		}
	}
	for _, t := range forbidden[role] {
		switch err := t.do(ctx, c, names); {
		case ctx.Err() != nil:
			return doctor.Unknown(context.Cause(ctx))
		case !refusedByRights(err):
			may = append(may, t.name())
		}
	}
	return judge(where, role, lacks, may)
}

func judge(where conn.Settings, role Role, lacks, may []string) doctor.Finding {
	user := where.Username
	if user == "" {
		user = "default"
	}
	var details []string
	for _, l := range lacks {
		details = append(details, "needs "+l)
	}
	for _, m := range may {
		details = append(details, "may "+m)
	}
	switch {
	case len(lacks) > 0:
		return doctor.Failed(fmt.Sprintf("the user %q can't do all that it needs", user), missing(role, lacks), details...)
	case len(may) > 0:
		return doctor.Failed(fmt.Sprintf("the user %q may do %d things it needn't", user, len(may)),
			"give Valkey the users of templates/valkey/users.acl: `ACL LOAD`, and connect as \""+string(role)+"\"", details...)
	}
	return doctor.Passed(fmt.Sprintf("the user %q did the %d things it needs and was refused %d others", user, len(needs[role]),
		len(forbidden[role])))
}

// missing names the rule that is likely to lack.
func missing(role Role, lacks []string) string {
	rule := "+COMMAND for what is listed"
	if !slices.ContainsFunc(lacks, func(s string) bool { return !strings.HasPrefix(s, "PUBLISH") && !strings.HasPrefix(s, "SUBSCRIBE") }) {
		rule = "&" + queue.Prefix + "* (channels)"
	} else if !slices.ContainsFunc(lacks, func(s string) bool { return !strings.Contains(s, " key") }) {
		rule = "~" + queue.Prefix + "* (keys)"
	}
	return fmt.Sprintf("give the user %s: templates/valkey/users.acl has it; then `ACL LOAD`", rule) +
		map[bool]string{true: " (keys: %R~" + queue.Prefix + "egress:*)"}[role == Egress]
}

// name is the call without its arguments' values.
func (t try) name() string {
	f := strings.Fields(t.call)
	name := f[0]
	for _, arg := range f[1:] {
		if strings.Contains(arg, "%O") {
			return name + " of another key or channel"
		}
	}
	if slices.Contains([]string{"CONFIG", "ACL", "CLIENT", "MODULE", "FUNCTION", "SCRIPT", "XGROUP"}, name) {
		name += " " + f[1]
	}
	return name
}

// do makes the call; ~ stands for a blank within an argument.
func (t try) do(ctx context.Context, c client.Client, names *strings.Replacer) error {
	f := strings.Fields(t.call)
	for i := range f {
		f[i] = names.Replace(strings.ReplaceAll(f[i], "return~", "return "))
	}
	return c.Do(ctx, c.B().Arbitrary(f[0]).Args(f[1:]...).Build()).Error()
}

var errHeard = errors.New("subscribed")

// subscribe subscribes to a channel, and leaves it.
func subscribe(ctx context.Context, c client.Client, channel string) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ctx = client.WithOnSubscriptionHook(ctx, func(s client.PubSubSubscription) {
		if s.Kind == "subscribe" {
			stop(errHeard)
		}
	})
	err := c.Receive(ctx, c.B().Subscribe().Channel(channel).Build(), func(client.PubSubMessage) {})
	if errors.Is(context.Cause(ctx), errHeard) {
		return nil
	}
	return err
}

// refusedByRights says whether Valkey knew the call and refused it for the user's
// rights, in a script too.
func refusedByRights(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "NOPERM") || strings.Contains(err.Error(), "ACL failure"))
}

// Strangers tries to connect without a password.
func Strangers(ctx context.Context, where conn.Settings) doctor.Finding {
	where.Username, where.Password = "", ""
	c, err := conn.Open(where)
	if err == nil {
		defer c.Close()
		err = c.Do(ctx, c.B().Ping().Build()).Error()
	}
	switch {
	case err == nil:
		return doctor.Failed("everyone who reaches Valkey is let in without a password",
			"give Valkey the users of templates/valkey/users.acl, where the user \"default\" has a password")
	case strings.Contains(err.Error(), "NOAUTH"), strings.Contains(err.Error(), "WRONGPASS"):
		return doctor.Passed("nobody gets in without a password")
	}
	return doctor.Unknown(err)
}
