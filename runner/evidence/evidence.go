// Package evidence is what a smoke test's word depends on: when any of it differs from
// what is there now, the word counts for nothing.
package evidence

import "slices"

// Bound is all that was tested. Digests are "sha256:" and hexadecimal digits.
type Bound struct {
	BootID        string   `json:"boot_id"`
	Kernel        string   `json:"kernel"`
	RuntimeDigest string   `json:"runtime_digest"`
	RuntimeArgs   []string `json:"runtime_args"`
	LockDigest    string   `json:"lock_digest"`
	PolicyDigest  string   `json:"policy_digest"`
}

// Equal says whether nothing has changed.
func (b Bound) Equal(o Bound) bool {
	return b.BootID == o.BootID && b.Kernel == o.Kernel && b.RuntimeDigest == o.RuntimeDigest &&
		b.LockDigest == o.LockDigest && b.PolicyDigest == o.PolicyDigest && slices.Equal(b.RuntimeArgs, o.RuntimeArgs)
}
