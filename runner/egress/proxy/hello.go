package proxy

import (
	"errors"
	"strings"

	"golang.org/x/crypto/cryptobyte"
)

// Bounds of a TLS ClientHello, and of the records that carry it.
const (
	maxHello   = 32 << 10
	maxRecords = 64 << 10
)

// Numbers of TLS.
const (
	recordHandshake     = 22
	messageClientHello  = 1
	extensionServerName = 0
	extensionECH        = 0xfe0d
	nameTypeHost        = 0
)

var (
	errNotTLS    = errors.New("the client doesn't speak TLS")
	errShort     = errors.New("more bytes are needed")
	errHelloForm = errors.New("the ClientHello can't be read")
)

// hello is what a ClientHello says in the clear.
type hello struct {
	// name is the server name as it was sent, "" without one.
	name string
	ech  bool
}

// parseHello reads a ClientHello that may be split over records. errShort asks for
// more bytes.
func parseHello(b []byte) (hello, error) {
	var message []byte
	for {
		if len(message) >= 4 {
			if message[0] != messageClientHello {
				return hello{}, errNotTLS
			}
			size := int(message[1])<<16 | int(message[2])<<8 | int(message[3])
			if size > maxHello {
				return hello{}, errHelloForm
			}
			if len(message) >= 4+size {
				return parseClientHello(message[4 : 4+size])
			}
		}
		payload, rest, err := nextRecord(b)
		if err != nil {
			return hello{}, err
		}
		message, b = append(message, payload...), rest
	}
}

// nextRecord splits off a handshake record.
func nextRecord(b []byte) (payload, rest []byte, err error) {
	if len(b) > 0 && b[0] != recordHandshake || len(b) > 1 && b[1] != 3 {
		return nil, nil, errNotTLS
	}
	if len(b) < 5 {
		return nil, nil, errShort
	}
	size := int(b[3])<<8 | int(b[4])
	if size == 0 || size > 1<<14 {
		return nil, nil, errNotTLS
	}
	if len(b) < 5+size {
		return nil, nil, errShort
	}
	return b[5 : 5+size], b[5+size:], nil
}

func parseClientHello(body []byte) (h hello, err error) {
	s := cryptobyte.String(body)
	var session, suites, compressions, extensions cryptobyte.String
	if !s.Skip(2+32) || !s.ReadUint8LengthPrefixed(&session) || !s.ReadUint16LengthPrefixed(&suites) ||
		!s.ReadUint8LengthPrefixed(&compressions) {
		return h, errHelloForm
	}
	if s.Empty() {
		return h, nil
	}
	if !s.ReadUint16LengthPrefixed(&extensions) || !s.Empty() {
		return h, errHelloForm
	}
	seen := map[uint16]bool{}
	for !extensions.Empty() {
		var kind uint16
		var data cryptobyte.String
		if !extensions.ReadUint16(&kind) || !extensions.ReadUint16LengthPrefixed(&data) || seen[kind] {
			return h, errHelloForm
		}
		seen[kind] = true
		switch kind {
		case extensionServerName:
			if h.name, err = parseServerName(data); err != nil {
				return h, err
			}
		case extensionECH:
			h.ech = true
		}
	}
	return h, nil
}

// parseServerName reads the one host name that RFC 6066 allows.
func parseServerName(data cryptobyte.String) (string, error) {
	var list, name cryptobyte.String
	var kind uint8
	if !data.ReadUint16LengthPrefixed(&list) || !data.Empty() || !list.ReadUint8(&kind) || kind != nameTypeHost ||
		!list.ReadUint16LengthPrefixed(&name) || !list.Empty() || name.Empty() {
		return "", errHelloForm
	}
	if strings.HasSuffix(string(name), ".") {
		return "", errHelloForm // servers read it in two ways
	}
	return string(name), nil
}
