package envelope

import (
	"errors"
	"fmt"
)

// Cause is why a message was refused. Causes are stable words: they are counted.
type Cause string

// Causes.
const (
	Malformed     Cause = "malformed"
	Unsupported   Cause = "unsupported"
	WrongKey      Cause = "wrong_key"
	Tampered      Cause = "tampered"
	WrongAudience Cause = "wrong_audience"
	WrongContext  Cause = "wrong_context"
	TooEarly      Cause = "too_early"
	Expired       Cause = "expired"
	Replayed      Cause = "replayed"
	TooLarge      Cause = "too_large"
	Truncated     Cause = "truncated"
)

// Refusal is a message that isn't what it should be.
type Refusal struct {
	Cause Cause
	why   string
}

// Error never holds secrets: at most printable parts of a header.
func (r *Refusal) Error() string { return string(r.Cause) + ": " + r.why }

// Refuse is a refusal for a cause; the rest is as for fmt.Sprintf.
func Refuse(c Cause, format string, args ...any) error { return refuse(c, format, args...) }

func refuse(c Cause, format string, args ...any) error {
	return &Refusal{c, fmt.Sprintf(format, args...)}
}

// CauseOf is the cause of the first refusal in a chain, "" when there is none.
func CauseOf(err error) Cause {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Cause
	}
	return ""
}
