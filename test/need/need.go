// Package need skips a test whose prerequisite is missing, and fails it in CI,
// where everything must be there.
package need

import (
	"os"
	"testing"
)

// Skip ends a test for want of something, which the format says.
func Skip(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatalf("must not be skipped in CI: "+format, args...)
	}
	tb.Skipf(format, args...)
}

// That skips unless what the test needs is there.
func That(tb testing.TB, there bool, what string) {
	tb.Helper()
	if !there {
		Skip(tb, "needs %s", what)
	}
}
