package secret

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
)

// Patterns are the texts that a response must not bring: values, and forms of them
// that servers commonly make. They are an automaton of Aho and Corasick.
type Patterns struct {
	nodes []node
	// root is where each byte leads from the start, 0 for nowhere.
	root [256]int32
}

// node is one state: what was matched so far.
type node struct {
	next []edge
	// fail is the state of the longest other suffix of this one, depth its length.
	fail, depth int32
	// longest is the length of the longest pattern that ends here, 0 for none.
	longest int32
}

type edge struct {
	c  byte
	to int32
}

// Patterns makes what removes the set's values.
func (s Set) Patterns() *Patterns {
	var texts []string
	for _, b := range s {
		texts = append(texts, forms(b.Value.Reveal())...)
	}
	return newPatterns(texts)
}

// minForm is the shortest text that is looked for.
const minForm = 6

// forms are the value and what others may have made of it.
func forms(value string) []string {
	list := []string{value, url.QueryEscape(value), url.PathEscape(value), html.EscapeString(value)}
	list = append(list, lowerHex(list[1]), lowerHex(list[2]))
	if quoted, err := json.Marshal(value); err == nil {
		inner := string(quoted[1 : len(quoted)-1])
		list = append(list, inner, strings.ReplaceAll(inner, "/", `\/`))
	}
	for shift := range 3 {
		core := base64Core(value, shift)
		list = append(list, core, strings.NewReplacer("+", "-", "/", "_").Replace(core))
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(s string) bool { return len(s) < minForm })
}

// base64Core is what base64 has of the value behind shift other bytes: the characters
// that depend on it alone.
func base64Core(value string, shift int) string {
	text := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), value...))
	begin := (shift*8 + 5) / 6
	return text[begin : (shift+len(value))*8/6]
}

// lowerHex writes percent escapes with small letters.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

func newPatterns(texts []string) *Patterns {
	p := &Patterns{nodes: make([]node, 1)}
	for _, t := range texts {
		p.add(t)
	}
	p.link()
	return p
}

func (p *Patterns) add(text string) {
	at := int32(0)
	for i := range len(text) {
		to := p.nodes[at].edge(text[i])
		if to == 0 {
			to = int32(len(p.nodes))
			p.nodes = append(p.nodes, node{depth: int32(i) + 1})
			p.nodes[at].next = append(p.nodes[at].next, edge{text[i], to})
		}
		at = to
	}
	p.nodes[at].longest = int32(len(text))
}

// edge is where a byte leads, 0 for nowhere: no edge leads to the start.
func (n *node) edge(c byte) int32 {
	for _, e := range n.next {
		if e.c == c {
			return e.to
		}
	}
	return 0
}

// link finds the states to go on from where none matches further, breadth first.
func (p *Patterns) link() {
	queue := []int32{}
	for _, e := range p.nodes[0].next {
		p.root[e.c] = e.to
		queue = append(queue, e.to)
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, e := range p.nodes[at].next {
			fail := p.step(p.nodes[at].fail, e.c)
			p.nodes[e.to].fail = fail
			p.nodes[e.to].longest = max(p.nodes[e.to].longest, p.nodes[fail].longest)
			queue = append(queue, e.to)
		}
	}
}

// step is the state behind one more byte.
func (p *Patterns) step(at int32, c byte) int32 {
	for at != 0 {
		if to := p.nodes[at].edge(c); to != 0 {
			return to
		}
		at = p.nodes[at].fail
	}
	return p.root[c]
}

// Text is s with every pattern in it masked.
func (p *Patterns) Text(s string) string {
	var sc Scrubber
	sc.Patterns = p
	return string(sc.Flush(sc.Next(nil, []byte(s))))
}

// mask takes the place of each byte of a value: lengths don't change.
const mask = '*'

// Scrubber masks patterns in a stream, wherever it is cut. It holds back only what
// may be the beginning of one.
type Scrubber struct {
	*Patterns
	at   int32
	held []byte
	// from and to are the last run of masked bytes, counted from the first that is
	// held: overlapping patterns mask a byte once.
	from, to int
}

// Next appends to dst what can be passed on once src has followed.
func (s *Scrubber) Next(dst, src []byte) []byte {
	if s.at == 0 && len(s.held) == 0 {
		n := s.skip(src)
		dst, src = append(dst, src[:n]...), src[n:]
		s.from, s.to = s.from-n, s.to-n
	}
	begin := len(dst)
	dst = append(append(dst, s.held...), src...)
	for i := begin + len(s.held); i < len(dst); i++ {
		s.at = s.step(s.at, dst[i])
		if n := int(s.nodes[s.at].longest); n > 0 {
			s.mask(dst[begin:], i+1-begin-n, i+1-begin)
		}
	}
	keep := len(dst) - int(s.nodes[s.at].depth)
	s.held = append(s.held[:0], dst[keep:]...)
	s.from, s.to = s.from-(keep-begin), s.to-(keep-begin)
	return dst[:keep]
}

// mask masks b[from:to], where to is behind all that was masked before.
func (s *Scrubber) mask(b []byte, from, to int) {
	if from > s.to {
		s.from, s.to = from, from
	}
	for i := from; i < s.from; i++ {
		b[i] = mask
	}
	for i := max(from, s.to); i < to; i++ {
		b[i] = mask
	}
	s.from, s.to = min(s.from, from), to
}

// skip is how many bytes begin no pattern.
func (s *Scrubber) skip(src []byte) int {
	for i, c := range src {
		if s.root[c] != 0 {
			return i
		}
	}
	return len(src)
}

// Flush appends what was held back: nothing follows.
func (s *Scrubber) Flush(dst []byte) []byte {
	dst = append(dst, s.held...)
	*s = Scrubber{Patterns: s.Patterns}
	return dst
}
