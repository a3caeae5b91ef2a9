package queue

import (
	"context"
	"encoding/json"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// Who publishes the host of the API.
const (
	ByControlPlane = "control-plane"
	BySubmit       = "submit"
)

// HostKey holds the API's host record, one for all queues of a Valkey.
const HostKey = Prefix + "api"

// How long a host record is believed, by who made it: a control plane makes it again
// and again, somebody who submits jobs only then.
var hostTTL = map[string]time.Duration{ByControlPlane: 10 * time.Minute, BySubmit: 7 * 24 * time.Hour}

// HostRecord says on which host the API is, so that QD955 can compare it with runners'.
type HostRecord struct {
	Host string    `json:"host"`
	Boot string    `json:"boot,omitempty"`
	By   string    `json:"by"`
	At   time.Time `json:"at"`
}

func hostContext() envelope.Context {
	return envelope.Context{Purpose: envelope.PurposeHost, Audience: "all"}
}

// PublishHost publishes the API's host, sealed. A control plane's record isn't replaced
// by another's, and one that says the same and is young stays.
func (q *Queue) PublishHost(ctx context.Context, r HostRecord) error {
	r.At = time.Now()
	ttl := hostTTL[r.By]
	if old, err := q.APIHost(ctx); err == nil && old != nil {
		same := old.Host == r.Host && old.Boot == r.Boot && old.By == r.By
		if old.By == ByControlPlane && r.By != ByControlPlane || same && r.At.Sub(old.At) < ttl/4 {
			return nil
		}
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	raw, err := q.o.Keys.Seal(envelope.Envelope{Context: hostContext(), NotBefore: r.At, Expiry: r.At.Add(ttl), Payload: body})
	if err != nil {
		return err
	}
	return conn.Do(ctx, "publish the API's host", func(ctx context.Context, _ int) error {
		return q.client.Do(ctx, q.client.B().Set().Key(HostKey).Value(valkey.BinaryString(raw)).Px(ttl).Build()).Error()
	})
}

// APIHost is the API's host record, nil when nobody has published one. One that isn't
// genuine is an error.
func (q *Queue) APIHost(ctx context.Context) (*HostRecord, error) {
	var raw string
	err := conn.Do(ctx, "look for the API's host", func(ctx context.Context, _ int) (err error) {
		raw, err = q.client.Do(ctx, q.client.B().Getrange().Key(HostKey).Start(0).End(maxChallenge).Build()).ToString()
		return err
	})
	if err != nil || raw == "" {
		return nil, err
	}
	e, err := q.open([]byte(raw), envelope.Expect{Context: hostContext()})
	if err != nil {
		return nil, err
	}
	var r HostRecord
	if err := json.Unmarshal(e.Payload, &r); err != nil {
		return nil, q.counted(envelope.Refuse(envelope.Malformed, "a host record"))
	}
	return &r, nil
}
