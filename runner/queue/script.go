package queue

import (
	"context"
	_ "embed"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/queue/conn"
)

//go:embed lua/common.lua
var common string

// The scripts. Each call is atomic and one round trip; Valkey knows them by hash, and
// gets their text when it doesn't.
var (
	//go:embed lua/submit.lua
	submitText string
	//go:embed lua/claim.lua
	claimText string
	//go:embed lua/finish.lua
	finishText string
	//go:embed lua/end.lua
	endText string
	//go:embed lua/sweep.lua
	sweepText string
	//go:embed lua/renew.lua
	renewText string
	//go:embed lua/release.lua
	releaseText string
	//go:embed lua/cancel.lua
	cancelText string
	//go:embed lua/lookup.lua
	lookupText string
	//go:embed lua/append.lua
	appendText string
	//go:embed lua/health.lua
	healthText string
	//go:embed lua/runners.lua
	runnersText string
	//go:embed lua/stats.lua
	statsText string
	//go:embed lua/ask.lua
	askText string
	//go:embed lua/asked.lua
	askedText string
	//go:embed lua/answer.lua
	answerText string
	//go:embed lua/answered.lua
	answeredText string
)

var (
	submitScript   = newScript(common, submitText)
	claimScript    = newScript(common, claimText)
	finishScript   = newScript(common, finishText)
	endScript      = newScript(common, endText)
	sweepScript    = newScript(common, sweepText)
	renewScript    = newScript(common, renewText)
	releaseScript  = newScript(common, releaseText)
	cancelScript   = newScript(common, cancelText)
	lookupScript   = newScript(common, lookupText)
	appendScript   = newScript(appendText)
	healthScript   = newScript(common, healthText)
	runnersScript  = newScript(common, runnersText)
	statsScript    = newScript(common, statsText)
	askScript      = newScript(common, askText)
	askedScript    = newScript(common, askedText)
	answerScript   = newScript(common, answerText)
	answeredScript = newScript(common, answeredText)
)

// script is hashed when it is first used: most runs of quavon talk to no queue.
type script func() *valkey.Lua

func newScript(parts ...string) script {
	return sync.OnceValue(func() *valkey.Lua { return valkey.NewLuaScript(strings.Join(parts, "")) })
}

// run calls a script of the queue until Valkey has answered, see conn.Do.
func (q *Queue) run(ctx context.Context, what string, s script, args ...string) (valkey.ValkeyMessage, error) {
	var out valkey.ValkeyMessage
	err := conn.Do(ctx, what, func(ctx context.Context, _ int) (err error) {
		out, err = s().Exec(ctx, q.client, []string{q.base}, args).ToMessage()
		return err
	})
	return out, err
}

// word calls a script that answers with one word.
func (q *Queue) word(ctx context.Context, what string, s script, args ...string) (string, error) {
	m, err := q.run(ctx, what, s, args...)
	if err != nil {
		return "", err
	}
	return m.ToString()
}

// rows calls a script that answers with a list of lists of texts.
func rows(m valkey.ValkeyMessage) ([][]string, error) {
	list, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	out := make([][]string, len(list))
	for i := range list {
		if out[i], err = texts(list[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// texts reads a list of texts and numbers.
func texts(m valkey.ValkeyMessage) ([]string, error) {
	list, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	out := make([]string, len(list))
	for i := range list {
		if n, err := list[i].AsInt64(); err == nil && list[i].IsInt64() {
			out[i] = strconv.FormatInt(n, 10)
			continue
		}
		if out[i], err = list[i].ToString(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
