package docker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
)

func frame(kind byte, text string) []byte {
	h := []byte{kind, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(h[4:], uint32(len(text)))
	return append(h, text...)
}

func connOf(data []byte) *conn {
	a, b := net.Pipe()
	_ = b.Close()
	return newConn(a, bufio.NewReader(bytes.NewReader(data)))
}

func TestFrames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data      []byte
		want, log string
		err       string
	}{
		"both streams":   {bytes.Join([][]byte{frame(1, "a"), frame(2, "x\x1b"), frame(1, ""), frame(1, "bc")}, nil), "abc", `x\u001b`, ""},
		"unknown kind":   {append(frame(1, "a"), frame(3, "b")...), "a", "", "unknown kind"},
		"stdin's kind":   {frame(0, "a"), "", "", "unknown kind"},
		"no frame":       {[]byte("HTTP/1.1 200 OK\r\n"), "", "", "no frame"},
		"a huge frame":   {[]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, "", "", "no frame"},
		"cut in a frame": {frame(1, "abc")[:9], "a", "", "EOF"},
		"cut in a head":  {frame(1, "abc")[:5], "", "", "EOF"},
	} {
		cn := connOf(c.data)
		got, err := io.ReadAll(cn)
		if string(got) != c.want || c.err == "" && err != nil || c.err != "" && err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if log := cn.log.String(); log != c.log {
			t.Errorf("%s: log %q", name, log)
		}
		select {
		case <-cn.ended:
		default:
			t.Errorf("%s: not ended", name)
		}
	}
}

// Whatever an engine sends, reading ends, and no more comes out than went in.
func FuzzFrames(f *testing.F) {
	f.Add(append(frame(1, "out"), frame(2, "err")...))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 200, 'x'})
	f.Add([]byte{2, 1, 0, 0, 0, 0, 0, 1, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		cn := connOf(data)
		got, _ := io.ReadAll(cn)
		if len(got)+len(cn.log.String()) > 6*len(data)+100 {
			t.Errorf("%d bytes of %d", len(got), len(data))
		}
		cn.drain()
	})
}
