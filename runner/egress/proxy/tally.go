package proxy

import (
	"slices"
	"sync"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/job"
)

// Reasons of refusals besides policy's; stable.
const (
	ReasonRequest   policy.Reason = "bad_request"
	ReasonHostField policy.Reason = "host_mismatch"
	ReasonForbidden policy.Reason = "address_forbidden"
	ReasonNoTLS     policy.Reason = "not_tls"
	ReasonNoSNI     policy.Reason = "sni_missing"
	ReasonSNI       policy.Reason = "sni_mismatch"
	ReasonECH       policy.Reason = "ech"
	ReasonCommand   policy.Reason = "socks_command"
	ReasonConns     policy.Reason = "connection_limit"
	ReasonBytes     policy.Reason = "byte_limit"
)

// tally is what a session has let through and refused.
type tally struct {
	mu sync.Mutex
	t  job.Egress
}

// refused counts a refusal and returns how many of its kind there were.
func (t *tally) refused(r job.Refusal) int64 {
	r.Count = 1
	t.add(job.Egress{Refused: 1, Refusals: []job.Refusal{r}})
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, have := range t.t.Refusals {
		if have.Host == r.Host && have.Port == r.Port && have.Reason == r.Reason {
			return have.Count
		}
	}
	return 1
}

func (t *tally) carried(sent, received int64) {
	t.add(job.Egress{Connections: 1, Sent: sent, Received: received})
}

func (t *tally) add(e job.Egress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.t.Add(e)
}

func (t *tally) snapshot() job.Egress {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.t
	out.Refusals = slices.Clone(t.t.Refusals)
	return out
}
