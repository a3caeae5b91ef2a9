package probe

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
)

// writer writes lines; it remembers the first error.
type writer struct {
	w     io.Writer
	nonce string
	// held is the program's stdin, nil when it is no file.
	held *os.File

	mu      sync.Mutex
	results int
	err     error
}

func (w *writer) line(l Line) {
	l.Nonce = w.nonce
	l.Answer = bounded(l.Answer)
	data, err := json.Marshal(l)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		_, err = w.w.Write(append(data, '\n'))
	}
	if l.Kind == KindResult {
		w.results++
	}
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) result(id, sub, errno, answer string) {
	w.line(Line{Kind: KindResult, Probe: id, Sub: sub, Errno: errno, Answer: answer})
}

// bounded cuts an answer and leaves out what would grow in JSON.
func bounded(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if r < ' ' && r != '\n' || r == 0x7f || r == '\u2028' || r == '\u2029' || r == '\ufffd' {
			return '.'
		}
		return r
	}, strings.ToValidUTF8(s, "."))
	if len(s) > MaxAnswer/2 {
		s = strings.ToValidUTF8(s[:MaxAnswer/2], ".")
	}
	return s
}
