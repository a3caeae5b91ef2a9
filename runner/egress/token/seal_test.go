package token_test

import (
	"bytes"
	"testing"

	"github.com/quavon/quavon/runner/egress/token"
)

func TestSeal(t *testing.T) {
	t.Parallel()
	mine, other, plain := token.Mint(), token.Mint(), []byte("a value that is sealed")
	sealed, err := mine.Seal(plain)
	if err != nil || bytes.Contains(sealed, plain[:8]) {
		t.Fatalf("%q, %v", sealed, err)
	}
	if got, err := mine.Open(sealed); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := other.Open(sealed); err == nil {
		t.Error("another token opens it")
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := mine.Open(changed); err == nil {
			t.Errorf("byte %d may be changed", i)
		}
	}
	if _, err := mine.Open(sealed[:5]); err == nil {
		t.Error("a part is opened")
	}
}
