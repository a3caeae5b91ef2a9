package secret

import (
	"bytes"
	"strconv"
	"strings"
)

// maxGap is how many bytes in a row may be nothing within a pattern: more aren't
// waited for.
const maxGap = 4

// nothing is what a byte reads as that stands for none.
const nothing = -1

// readMasker masks what reads as a pattern to somebody who undoes escapes of URLs, JSON,
// JavaScript and HTML, each character by itself; takes large letters for small; and skips
// NUL, as UTF-16 has beside each letter, and ends of lines, as wrapped base64 has.
type readMasker struct {
	*automaton
	at, gap int32
	// held is what wasn't passed on, done how much of it was read.
	held []byte
	done int
	// starts are where in held each byte of the match so far begins.
	starts starts
	masked run
}

func (m *readMasker) next(dst, src []byte) []byte {
	if m.at == 0 && len(m.held) == 0 {
		n := m.skip(src)
		dst, src = append(dst, src[:n]...), src[n:]
		m.masked.back(n)
	}
	m.held = append(m.held, src...)
	m.read(false)
	return m.pass(dst)
}

func (m *readMasker) flush(dst []byte) []byte {
	m.read(true)
	return append(dst, m.held...)
}

// read reads what is held; final says that nothing follows.
func (m *readMasker) read(final bool) {
	for m.done < len(m.held) {
		if m.at == 0 {
			if m.done += m.skip(m.held[m.done:]); m.done == len(m.held) {
				return
			}
		}
		c, n := readOne(m.held[m.done:], final)
		if n == 0 {
			return
		}
		m.take(c, n)
		m.done += n
	}
}

// take goes on with what the next n bytes read as.
func (m *readMasker) take(c, n int) {
	if c == nothing {
		if m.gap++; m.gap > maxGap {
			m.at = 0
			m.starts.keep(0)
		}
		return
	}
	m.gap = 0
	m.at = m.step(m.at, byte(c)) //nolint:gosec // it is a byte
	at := &m.nodes[m.at]
	m.starts.list = append(m.starts.list, m.done)
	m.starts.keep(int(at.depth))
	if at.longest > 0 {
		m.masked.mask(m.held, m.starts.last(int(at.longest)), m.done+n)
	}
}

// starts says where each byte of a match begins.
type starts struct {
	list []int
	// gone is how many of the list don't count any more.
	gone int
}

// keep leaves the last n. The list is moved only when most of it is gone.
func (s *starts) keep(n int) {
	s.gone = len(s.list) - n
	if s.gone > n {
		s.list = s.list[:copy(s.list, s.list[s.gone:])]
		s.gone = 0
	}
}

// last is the last but n.
func (s *starts) last(n int) int { return s.list[len(s.list)-n] }

// pass hands on what no match needs.
func (m *readMasker) pass(dst []byte) []byte {
	n := m.done
	if live := len(m.starts.list) - m.starts.gone; live > 0 {
		n = m.starts.last(live)
	}
	dst = append(dst, m.held[:n]...)
	m.held = m.held[:copy(m.held, m.held[n:])]
	m.done -= n
	for i := range m.starts.list {
		m.starts.list[i] -= n
	}
	m.masked.back(n)
	return dst
}

// skip is how many bytes begin nothing.
func (m *readMasker) skip(src []byte) int {
	for i, c := range src {
		if m.root[small(c)] != 0 || c == '%' || c == '\\' || c == '&' {
			return i
		}
	}
	return len(src)
}

func small(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// readAll is how a whole text reads.
func readAll(text string) (out []byte) {
	for b := []byte(text); len(b) > 0; {
		c, n := readOne(b, true)
		if c != nothing {
			out = append(out, byte(c)) //nolint:gosec // it is a byte
		}
		b = b[n:]
	}
	return out
}

// readOne is what the next n bytes read as, a byte or nothing. n is 0 when it depends on
// what follows.
func readOne(b []byte, final bool) (c, n int) {
	switch b[0] {
	case 0, '\r', '\n':
		return nothing, 1
	case '%':
		c, n = digits(b, 1, 2)
	case '\\':
		c, n = readBackslash(b)
	case '&':
		c, n = readEntity(b)
	default:
		return int(small(b[0])), 1
	}
	if n < 0 && !final {
		return 0, 0
	}
	if n <= 0 {
		return int(b[0]), 1 // it stands for itself
	}
	if 0 <= c && c <= 0xff {
		c = int(small(byte(c)))
	}
	return c, n
}

// digits reads a number of hexadecimal digits behind a prefix. n is 0 for what is none,
// or no byte, and -1 for what ends too early.
func digits(b []byte, prefix, size int) (c, n int) {
	end := min(len(b), prefix+size)
	for _, d := range b[min(prefix, end):end] {
		v := strings.IndexByte("0123456789abcdef", small(d))
		if v < 0 {
			return 0, 0
		}
		if c = c<<4 | v; c > 0xff {
			return 0, 0
		}
	}
	if end < prefix+size {
		return 0, -1
	}
	return plain(c), end
}

// plain has the bytes that are nothing stay so when they are escaped.
func plain(c int) int {
	if c == 0 || c == '\r' || c == '\n' {
		return nothing
	}
	return c
}

// readBackslash reads an escape of JSON or JavaScript.
func readBackslash(b []byte) (c, n int) {
	if len(b) < 2 {
		return 0, -1
	}
	switch b[1] {
	case 'u':
		return digits(b, 2, 4)
	case 'x':
		return digits(b, 2, 2)
	case 'n', 'r':
		return nothing, 2
	case '/', '"', '\'', '\\':
		return int(b[1]), 2
	}
	return 0, 0
}

// maxEntity is the longest entity that is read.
const maxEntity = 10

var entities = map[string]int{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\''}

// readEntity reads an entity of HTML.
func readEntity(b []byte) (c, n int) {
	end := bytes.IndexByte(b[:min(len(b), maxEntity)], ';')
	if end < 0 {
		if len(b) < maxEntity && bytes.IndexFunc(b[1:], notEntity) < 0 {
			return 0, -1
		}
		return 0, 0
	}
	name := string(b[1:end])
	if c, ok := entities[name]; ok {
		return c, end + 1
	}
	if text, ok := strings.CutPrefix(name, "#"); ok && text != "" {
		base := 10
		if text[0] == 'x' || text[0] == 'X' {
			base, text = 16, text[1:]
		}
		if v, err := strconv.ParseUint(text, base, 8); err == nil {
			return plain(int(v)), end + 1 //nolint:gosec // it has 8 bits
		}
	}
	return 0, 0
}

func notEntity(r rune) bool {
	return r != '#' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}
