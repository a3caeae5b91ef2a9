package proxy

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a message's head.
const (
	maxHead   = 32 << 10
	maxFields = 128
)

// badMessage is a message that two readers could take in two ways, or that breaks
// HTTP's grammar. It is refused, never repaired.
type badMessage struct{ why string }

func (b *badMessage) Error() string { return b.why }

func bad(why string) error { return &badMessage{why} }

// head is the start of an HTTP/1 message.
type head struct {
	line   string
	fields []field
}

// field is one header field; key is its name in lower case.
type field struct{ name, key, value string }

// parseHead reads a head with its final empty line. Lines end in CR LF and nothing
// else does.
func parseHead(b []byte) (*head, error) {
	body, ok := strings.CutSuffix(string(b), "\r\n\r\n")
	if !ok {
		return nil, bad("the head has no end")
	}
	lines := strings.Split(body, "\r\n")
	h := &head{line: lines[0]}
	if strings.ContainsAny(h.line, "\r\n\x00") {
		return nil, bad("a line ends in a bare CR or LF")
	}
	if len(lines)-1 > maxFields {
		return nil, bad("too many header fields")
	}
	for _, line := range lines[1:] {
		f, err := parseField(line)
		if err != nil {
			return nil, err
		}
		h.fields = append(h.fields, f)
	}
	return h, h.checkFraming()
}

func parseField(line string) (field, error) {
	if line == "" || line[0] == ' ' || line[0] == '\t' {
		return field{}, bad("a folded or empty header line")
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok || !isToken(name) {
		return field{}, bad("a header name that is none")
	}
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return field{}, bad("a control character in a header, such as a bare CR or LF")
		}
	}
	return field{name, strings.ToLower(name), strings.Trim(value, " \t")}, nil
}

// isToken says whether s is an RFC 9110 token.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// checkFraming refuses what makes two readers see two ends of the message.
func (h *head) checkFraming() error {
	te, cl, host := h.all("transfer-encoding"), h.all("content-length"), h.all("host")
	switch {
	case len(te) > 0 && len(cl) > 0:
		return bad("Transfer-Encoding and Content-Length together")
	case len(te) > 1 || len(te) == 1 && !strings.EqualFold(te[0], "chunked"):
		return bad("a Transfer-Encoding other than chunked, or two of them")
	case len(cl) > 1:
		return bad("Content-Length twice")
	case len(cl) == 1 && !isLength(cl[0]):
		return bad("a Content-Length that is no number")
	case len(host) > 1:
		return bad("Host twice")
	}
	return nil
}

func isLength(s string) bool {
	return s != "" && len(s) <= 18 && strings.Trim(s, "0123456789") == ""
}

// all returns the values of a field.
func (h *head) all(key string) []string {
	var values []string
	for _, f := range h.fields {
		if f.key == key {
			values = append(values, f.value)
		}
	}
	return values
}

// tokens returns the elements of a list field in lower case.
func (h *head) tokens(key string) []string {
	var list []string
	for _, v := range h.all(key) {
		for e := range strings.SplitSeq(v, ",") {
			if e = strings.ToLower(strings.Trim(e, " \t")); e != "" {
				list = append(list, e)
			}
		}
	}
	return list
}

func (h *head) chunked() bool { return len(h.all("transfer-encoding")) == 1 }

// length is the Content-Length, -1 without one.
func (h *head) length() int64 {
	cl := h.all("content-length")
	if len(cl) == 0 {
		return -1
	}
	n, err := strconv.ParseInt(cl[0], 10, 64)
	if err != nil { // checkFraming has seen it
		return -1
	}
	return n
}

// hopByHop are fields that end at a proxy. Those that say where a message ends are
// written anew.
var hopByHop = []string{
	"connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization",
	"te", "trailer", "upgrade", "transfer-encoding", "content-length", "host",
}

// endToEnd writes the fields that travel on.
func (h *head) endToEnd(b *bytes.Buffer) {
	named := h.tokens("connection")
	for _, f := range h.fields {
		if slices.Contains(hopByHop, f.key) || slices.Contains(named, f.key) {
			continue
		}
		b.WriteString(f.name + ": " + f.value + "\r\n")
	}
}

// framing writes the field that says where the body ends.
func (h *head) framing(b *bytes.Buffer) {
	if h.chunked() {
		b.WriteString("Transfer-Encoding: chunked\r\n")
	} else if n := h.length(); n >= 0 {
		b.WriteString("Content-Length: " + strconv.FormatInt(n, 10) + "\r\n")
	}
}

// input reads a message's head and leaves what follows for later.
type input struct {
	r io.Reader
	// rest was read and not used.
	rest []byte
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	if len(in.rest) > 0 {
		n := copy(p, in.rest)
		in.rest = in.rest[n:]
		return n, nil
	}
	return in.r.Read(p)
}

// more reads once more behind what is there.
func (in *input) more() error {
	if cap(in.rest)-len(in.rest) < 1024 {
		in.rest = append(make([]byte, 0, 2*cap(in.rest)+4096), in.rest...)
	}
	n, err := in.r.Read(in.rest[len(in.rest):cap(in.rest)])
	in.rest = in.rest[:len(in.rest)+n]
	if n > 0 {
		return nil
	}
	return err
}

// first waits for the first byte.
func (in *input) first() (byte, error) {
	for len(in.rest) == 0 {
		if err := in.more(); err != nil {
			return 0, err
		}
	}
	return in.rest[0], nil
}

var errHeadTooLong = bad("the head is longer than 32 KiB")

// head reads and parses a head. A line that ends in a bare LF is refused at once: its
// sender may wait for an answer.
func (in *input) head() (*head, error) {
	for {
		if end := bytes.Index(in.rest, []byte("\r\n\r\n")); end >= 0 && end+4 <= maxHead {
			h, err := parseHead(in.rest[:end+4])
			in.rest = in.rest[end+4:]
			return h, err
		}
		if i := bytes.IndexByte(in.rest, '\n'); i == 0 || i > 0 && in.rest[i-1] != '\r' {
			return nil, bad("a line ends in a bare LF")
		}
		if len(in.rest) >= maxHead {
			return nil, errHeadTooLong
		}
		if err := in.more(); err != nil {
			if errors.Is(err, io.EOF) && len(in.rest) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}
