// Package chaos shows, as one test, that jobs survive what happens to runners and to
// Valkey: every job ends exactly once, in a typed state, and nothing is left behind.
package chaos
