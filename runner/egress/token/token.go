// Package token keeps what each step with a network may reach where the egress proxy
// can read it: a runner mints a token when the step starts and deletes it when it ends.
// Tokens are stored by their digest, so who reads the store can't use them.
package token

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/quavon/quavon/runner/queue/conn"
)

// Prefix begins the keys of all tokens, and is all that the egress proxy's user sees.
const Prefix = "quavon-sandbox:egress:"

// Life is how long a token lives that its runner doesn't renew.
const Life = 60 * time.Second

// Token is a secret that lets one step out; Size characters.
type Token string

// Size is the length of every token: two texts of 130 bits each.
const Size = 52

// Mint makes a token.
func Mint() Token { return Token(rand.Text() + rand.Text()) }

// key is where a token's grant is.
func (t Token) key() string {
	sum := sha256.Sum256([]byte(t))
	return Prefix + hex.EncodeToString(sum[:])
}

// Grant is what a token allows.
type Grant struct {
	Job   string   `json:"job"`
	Step  int      `json:"step"`
	Allow []string `json:"allow"`
	// Secrets are what Token.Seal made of the step's.
	Secrets []byte `json:"secrets,omitempty"`
	// Moved is how many bytes the job's steps before have moved.
	Moved int64 `json:"moved,omitempty"`
}

// ErrUnknown is a token that was never minted, was revoked, or has expired.
var ErrUnknown = errors.New("the token is not known")

// maxGrant bounds a grant as it is stored.
const maxGrant = 8 << 20

// Store keeps grants in Valkey.
type Store struct{ Client valkey.Client }

// Put stores a grant for Life.
func (s Store) Put(ctx context.Context, t Token, g Grant) error {
	doc, err := json.Marshal(g)
	if err != nil {
		return err
	}
	if len(doc) > maxGrant {
		return fmt.Errorf("the list of hosts has %d bytes, more than %d", len(doc), maxGrant)
	}
	cmd := s.Client.B().Set().Key(t.key()).Value(string(doc)).Px(Life).Build()
	return conn.Explain(s.Client.Do(ctx, cmd).Error(), "store an egress token")
}

// Renew gives a token another Life. The error is ErrUnknown when it is gone.
func (s Store) Renew(ctx context.Context, t Token) error {
	n, err := s.Client.Do(ctx, s.Client.B().Pexpire().Key(t.key()).Milliseconds(Life.Milliseconds()).Build()).AsInt64()
	if err == nil && n == 0 {
		return ErrUnknown
	}
	return conn.Explain(err, "renew an egress token")
}

// Delete revokes a token.
func (s Store) Delete(ctx context.Context, t Token) error {
	return conn.Explain(s.Client.Do(ctx, s.Client.B().Del().Key(t.key()).Build()).Error(), "delete an egress token")
}

// Get reads what a token allows.
func (s Store) Get(ctx context.Context, t Token) (g Grant, err error) {
	doc, err := s.Client.Do(ctx, s.Client.B().Get().Key(t.key()).Build()).AsBytes()
	if valkey.IsValkeyNil(err) {
		return g, ErrUnknown
	}
	if err != nil {
		return g, conn.Explain(err, "read an egress token")
	}
	if len(doc) > maxGrant || json.Unmarshal(doc, &g) != nil {
		return g, errors.New("a token's grant can't be read")
	}
	return g, nil
}
