// Package fault holds the one root error type of Quavon. Every error that
// reaches an operator says what failed, why, and what to type next.
package fault

import "errors"

// Error is an operation that failed. What names the operation in the reader's
// words, Err says why, Hint is the next thing to type or change, and Code is a
// stable machine-readable reason (the job package lists those that end a job).
type Error struct {
	What string
	Err  error
	Hint string
	Code string
}

// Error renders "what: why" on one line; the hint is shown separately.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New is a fault with no underlying error.
func New(what, hint string) *Error { return &Error{What: what, Hint: hint} }

// Wrap adds the failed operation and the next step to a cause.
func Wrap(err error, what, hint string) *Error {
	return &Error{What: what, Err: err, Hint: hint}
}

// WithCode sets the machine-readable reason and returns the receiver, so that
// it can end a constructor call.
func (e *Error) WithCode(code string) *Error {
	e.Code = code
	return e
}

// Hint returns the outermost hint in the chain, "" when nobody left one.
func Hint(err error) string { return find(err, func(e *Error) string { return e.Hint }) }

// Code returns the outermost machine-readable reason in the chain, "" when
// there is none.
func Code(err error) string { return find(err, func(e *Error) string { return e.Code }) }

func find(err error, get func(*Error) string) string {
	for {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if s := get(e); s != "" {
			return s
		}
		err = e.Err
	}
}
