package egress_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/quavon/quavon/runner/egress/egresstest"
)

// form is a way in which a server may give a value back, and how its reader finds the
// value in that.
type form struct {
	// say is a whole response.
	say func(value string) string
	// read undoes it; nil takes the response as it is.
	read func(response string) string
	// reason is the refusal's; residual says that the value gets through, as the
	// documentation has it.
	reason   string
	residual bool
	// lost says that nothing of the response gets through.
	lost bool
}

// bodied is a response with a body.
func bodied(body string, fields ...string) string {
	head := append([]string{"HTTP/1.1 200 OK", fmt.Sprintf("Content-Length: %d", len(body))}, fields...)
	return strings.Join(head, "\r\n") + "\r\n\r\n" + body
}

// chunks is a response in chunks of a size.
func chunks(body string, size int, end string) string {
	b := []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	for c := range slices.Chunk([]byte(body), size) {
		b = fmt.Appendf(b, "%x\r\n%s\r\n", len(c), c)
	}
	return string(b) + "0\r\n" + end + "\r\n"
}

// written is a body in which each byte of the value is in a format.
func written(format string) func(string) string {
	return func(value string) string {
		var b strings.Builder
		for _, c := range []byte(value) {
			fmt.Fprintf(&b, format, c)
		}
		return bodied("it is <" + b.String() + ">")
	}
}

// inside is what is between < and > of a response's body.
func inside(response string) string {
	_, rest, _ := strings.Cut(response, "<")
	text, _, _ := strings.Cut(rest, ">")
	return text
}

func without(drop string) func(string) string {
	return func(response string) string { return strings.ReplaceAll(inside(response), drop, "") }
}

func unquoted(response string) string {
	s, _ := strconv.Unquote(`"` + strings.ReplaceAll(inside(response), `\/`, "/") + `"`)
	return s
}

func unhex(response string) string {
	b, _ := hex.DecodeString(inside(response))
	return string(b)
}

func unescaped(response string) string {
	s, _ := url.QueryUnescape(inside(response))
	return s
}

// unbase64 reads base64 of any alphabet, broken anywhere.
func unbase64(response string) string {
	text := strings.NewReplacer("\r", "", "\n", "", "-", "+", "_", "/", "=", "").Replace(inside(response))
	b, _ := base64.RawStdEncoding.DecodeString(text)
	return string(b)
}

func zipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, s)
	_ = z.Close()
	return b.String()
}

func unzipped(response string) string {
	_, body, _ := strings.Cut(response, "\r\n\r\n")
	z, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		return ""
	}
	b, _ := io.ReadAll(z)
	return string(b)
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// in64 is base64 behind some bytes of the sender's choice.
func in64(before string, enc *base64.Encoding, line int) func(string) string {
	return func(value string) string {
		var lines []string
		for l := range slices.Chunk([]byte(enc.EncodeToString([]byte(before+value+"tail"))), line) {
			lines = append(lines, string(l))
		}
		return bodied("<" + strings.Join(lines, "\r\n") + ">")
	}
}

// field is a response with the value in a header.
func field(format string) func(string) string {
	return func(value string) string { return bodied("x", fmt.Sprintf(format, value)) }
}

// says are the ways to say a value, by the path that asks for them.
var says = map[string]form{
	"body":       {say: func(v string) string { return bodied("it is " + v) }},
	"until-end":  {say: func(v string) string { return "HTTP/1.1 200 OK\r\n\r\nit is " + v }},
	"old":        {say: func(v string) string { return "HTTP/1.0 200 OK\r\n\r\nit is " + v }},
	"chunks":     {say: func(v string) string { return chunks("it is <"+v+">", 1, "") }, read: func(r string) string { return egresstest.Unchunked(r) }},
	"header":     {say: field("X-Echo: Bearer %s")},
	"two-fields": {say: field("X-A: 1\r\nX-Echo: %s")},
	"set-cookie": {say: field("Set-Cookie: session=%s; Path=/; HttpOnly")},
	"field-name": {say: field("%s: x")},
	"trace": {say: func(v string) string {
		return bodied("TRACE /v1 HTTP/1.1\r\nAuthorization: Bearer "+v+"\r\n\r\n", "Content-Type: message/http")
	}},
	"location": {say: func(v string) string {
		return "HTTP/1.1 302 Found\r\nLocation: https://spliced.example/?t=" + v + "\r\nContent-Length: 0\r\n\r\n"
	}},
	"status":      {say: func(v string) string { return "HTTP/1.1 200 " + v + "\r\nContent-Length: 0\r\n\r\n" }},
	"early-hints": {say: func(v string) string { return "HTTP/1.1 103 Early Hints\r\nLink: <" + v + ">\r\n\r\n" + bodied("x") }},
	"interim":     {say: func(v string) string { return "HTTP/1.1 199 " + v + "\r\nX: " + v + "\r\n\r\n" + bodied("x") }},
	"partial": {say: func(v string) string {
		return strings.Replace(bodied(v, "Content-Range: bytes 0-1/2"), "200 OK", "206 Partial", 1)
	}},
	"byteranges": {say: func(v string) string {
		return bodied("--B\r\nContent-Range: bytes 0-20/21\r\n\r\n"+v+"\r\n--B--", "Content-Type: multipart/byteranges; boundary=B")
	}},
	"error":         {say: func(v string) string { return strings.Replace(bodied("bad token "+v), "200 OK", "401 Unauthorized", 1) }},
	"percent":       {say: written("%%%02X"), read: unescaped},
	"percent-small": {say: written("%%%02x"), read: unescaped},
	"json":          {say: written(`\u%04x`), read: unquoted},
	"javascript":    {say: written(`\x%02X`), read: unquoted},
	"html":          {say: written("&#%d;"), read: func(r string) string { return html.UnescapeString(inside(r)) }},
	"html-hex":      {say: written("&#x%x;"), read: func(r string) string { return html.UnescapeString(inside(r)) }},
	"utf16le":       {say: written("%c\x00"), read: without("\x00")},
	"utf16be":       {say: written("\x00%c"), read: without("\x00")},
	"utf32":         {say: written("%c\x00\x00\x00"), read: without("\x00")},
	"lines":         {say: written("%c\r\n"), read: without("\r\n")},
	"hex":           {say: written("%02x"), read: unhex},
	"hex-large":     {say: written("%02X"), read: unhex},
	"large":         {say: func(v string) string { return bodied(strings.ToUpper(v)) }, read: strings.ToLower},
	"base64":        {say: in64("", base64.StdEncoding, 999), read: unbase64},
	"base64-1":      {say: in64("a", base64.StdEncoding, 999), read: unbase64},
	"base64-2":      {say: in64("ab", base64.URLEncoding, 999), read: unbase64},
	"base64-lines":  {say: in64("user:", base64.StdEncoding, 8), read: unbase64},

	"gzip":   {say: func(v string) string { return bodied(zipped(v), "Content-Encoding: gzip") }, read: unzipped, reason: "secret_encoded_response", lost: true},
	"x-gzip": {say: func(v string) string { return bodied(zipped(v), "content-encoding: identity, X-GZIP") }, read: unzipped, reason: "secret_encoded_response", lost: true},
	"te-gzip": {say: func(v string) string {
		return "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + zipped(v)
	}, read: unzipped, lost: true},
	"trailer": {say: func(v string) string { return chunks("x", 1, "X-Echo: "+v+"\r\n") }},
	"extended": {say: func(v string) string {
		return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=" + v + "\r\nx\r\n0\r\n\r\n"
	}},
	"folded":  {say: func(v string) string { return bodied("x", "X-Echo: "+v[:9]+"\r\n "+v[9:]) }, read: func(r string) string { return strings.ReplaceAll(r, "\r\n ", "") }, lost: true},
	"bare-lf": {say: func(v string) string { return bodied("x", "X-A: 1\nX-Echo: "+v) }, lost: true},
	"upgraded": {say: func(v string) string {
		return "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n" + v
	}, lost: true},
	"length":  {say: func(v string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n" + v }, lost: true},
	"longer":  {say: func(v string) string { return bodied("x") + v }},
	"no-body": {say: func(v string) string { return "HTTP/1.1 204 No\r\nContent-Length: 99\r\n\r\n" + v }},

	// What is documented as left: the server itself makes something else of it.
	"in-parts":    {say: func(v string) string { return bodied("x", "X-A: "+v[:9], "X-B: "+v[9:]) }, read: func(r string) string { return strings.ReplaceAll(r, "\r\nX-B: ", "") }, residual: true},
	"reversed":    {say: func(v string) string { return bodied(reversed(v)) }, read: reversed, residual: true},
	"zipped-file": {say: func(v string) string { return bodied(zipped(v), "Content-Type: application/gzip") }, read: unzipped, residual: true},
	"twice":       {say: written("%%25%02x"), read: func(r string) string { s := unescaped(r); s, _ = url.QueryUnescape(s); return s }, residual: true},
}
