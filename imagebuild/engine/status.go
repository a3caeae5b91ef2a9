package engine

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// status is what BuildKit reports of a build: the fields that are used here of
// its control API's StatusResponse.
type status struct {
	vertexes []vertex
	logs     []vertexLog
}

// vertex is a step: numbers 1, 3, 4, 6 and 7 of Vertex.
type vertex struct {
	digest, name, err string
	cached, completed bool
}

// vertexLog is output of a step: numbers 1 and 4 of VertexLog.
type vertexLog struct {
	vertex string
	text   []byte
}

var errWire = errors.New("malformed protocol buffer")

func parseStatus(b []byte) (*status, error) {
	s := new(status)
	err := eachField(b, func(num protowire.Number, b []byte, _ uint64) error {
		switch num {
		case 1:
			v, err := parseVertex(b)
			s.vertexes = append(s.vertexes, v)
			return err
		case 3:
			l, err := parseLog(b)
			s.logs = append(s.logs, l)
			return err
		}
		return nil
	})
	return s, err
}

func parseVertex(b []byte) (v vertex, err error) {
	err = eachField(b, func(num protowire.Number, b []byte, n uint64) error {
		switch num {
		case 1:
			v.digest = string(b)
		case 3:
			v.name = string(b)
		case 4:
			v.cached = n != 0
		case 6:
			v.completed = true
		case 7:
			v.err = string(b)
		}
		return nil
	})
	return v, err
}

func parseLog(b []byte) (l vertexLog, err error) {
	err = eachField(b, func(num protowire.Number, b []byte, _ uint64) error {
		switch num {
		case 1:
			l.vertex = string(b)
		case 4:
			l.text = b
		}
		return nil
	})
	return l, err
}

// eachField calls f for the fields of a message, with bytes or with a number.
func eachField(b []byte, f func(num protowire.Number, b []byte, n uint64) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire
		}
		b = b[n:]
		var (
			value  []byte
			number uint64
		)
		switch typ {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return errWire
		}
		b = b[n:]
		if err := f(num, value, number); err != nil {
			return err
		}
	}
	return nil
}
