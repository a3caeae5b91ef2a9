// Package websocket reads WebSocket (RFC 6455) as somebody in the middle must: its
// handshake, and frames one after the other, as strictly as the RFC allows.
package websocket

import (
	"crypto/sha1" //nolint:gosec // the RFC has it so, and nothing is kept secret by it
	"encoding/base64"
	"io"
)

// Version is the only one.
const Version = "13"

// IsKey says whether a Sec-WebSocket-Key is one: 16 bytes in base64.
func IsKey(key string) bool {
	b, err := base64.StdEncoding.Strict().DecodeString(key)
	return err == nil && len(b) == 16 && len(key) == 24 // without ends of lines, which the decoder skips
}

// Accept is the Sec-WebSocket-Accept of a server that has understood the key.
func Accept(key string) string {
	h := sha1.New() //nolint:gosec // see above
	_, _ = io.WriteString(h, key+"258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}
