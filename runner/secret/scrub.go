package secret

// Text is s with every pattern in it masked.
func (p *Patterns) Text(s string) string {
	sc := Scrubber{Patterns: p}
	return string(sc.Flush(sc.Next(nil, []byte(s))))
}

// mask takes the place of each byte of a value: lengths don't change.
const mask = '*'

// Scrubber masks patterns in a stream, wherever it is cut. It holds back only what
// may be the beginning of one.
type Scrubber struct {
	*Patterns
	asIs   rawMasker
	asRead readMasker
	buf    []byte
}

// Next appends to dst what can be passed on once src has followed.
func (s *Scrubber) Next(dst, src []byte) []byte {
	s.asIs.automaton, s.asRead.automaton = s.raw, s.read
	s.buf = s.asIs.next(s.buf[:0], src)
	return s.asRead.next(dst, s.buf)
}

// Flush appends what was held back: nothing follows.
func (s *Scrubber) Flush(dst []byte) []byte {
	dst = s.Next(dst, nil)
	dst = s.asRead.next(dst, s.asIs.held)
	dst = s.asRead.flush(dst)
	*s = Scrubber{Patterns: s.Patterns}
	return dst
}

// run is the last run of masked bytes: overlapping patterns mask a byte once.
type run struct{ from, to int }

// mask masks b[from:to], where to is behind all that was masked before.
func (r *run) mask(b []byte, from, to int) {
	if from > r.to {
		r.from, r.to = from, from
	}
	for i := from; i < r.from; i++ {
		b[i] = mask
	}
	for i := max(from, r.to); i < to; i++ {
		b[i] = mask
	}
	r.from, r.to = min(r.from, from), to
}

// back notes that n bytes have left in front.
func (r *run) back(n int) { r.from, r.to = r.from-n, r.to-n }

// rawMasker masks bytes as they are.
type rawMasker struct {
	*automaton
	at   int32
	held []byte
	// masked is counted from the first byte that is held.
	masked run
}

func (m *rawMasker) next(dst, src []byte) []byte {
	if m.at == 0 && len(m.held) == 0 {
		n := m.skip(src)
		dst, src = append(dst, src[:n]...), src[n:]
		m.masked.back(n)
	}
	begin := len(dst)
	dst = append(append(dst, m.held...), src...)
	for i := begin + len(m.held); i < len(dst); i++ {
		m.at = m.step(m.at, dst[i])
		if n := int(m.nodes[m.at].longest); n > 0 {
			m.masked.mask(dst[begin:], i+1-begin-n, i+1-begin)
		}
	}
	keep := len(dst) - int(m.nodes[m.at].depth)
	m.held = append(m.held[:0], dst[keep:]...)
	m.masked.back(keep - begin)
	return dst[:keep]
}

// skip is how many bytes begin no pattern.
func (m *rawMasker) skip(src []byte) int {
	for i, c := range src {
		if m.root[c] != 0 {
			return i
		}
	}
	return len(src)
}
