package proxy

import (
	"errors"
	"strconv"
	"strings"

	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/secret"
)

// request is a head that asks for something through the proxy.
type request struct {
	*head
	method, version string
	// target is where it goes; Scheme is policy.HTTPS for CONNECT.
	target policy.Request
	// path is the origin form of a plain request's target.
	path string
	// scan looks for placeholders in the body, scrub keeps values out of the response.
	scan  bool
	scrub *secret.Patterns
}

func parseRequest(h *head) (*request, error) { return parseMessage(h, 80) }

// parseMessage reads a request whose Host, without a port, means the usual one.
func parseMessage(h *head, usual uint16) (*request, error) {
	parts := strings.Split(h.line, " ")
	if len(parts) != 3 || !isToken(parts[0]) {
		return nil, bad("the request line isn't METHOD TARGET VERSION")
	}
	r := &request{head: h, method: parts[0], version: parts[2]}
	if r.version != "HTTP/1.1" && r.version != "HTTP/1.0" {
		return nil, bad("the version isn't HTTP/1.1 or HTTP/1.0")
	}
	for _, c := range []byte(parts[1]) {
		if c <= ' ' || c >= 0x7f {
			return nil, bad("a target that isn't printable ASCII")
		}
	}
	if r.version == "HTTP/1.0" && h.chunked() {
		return nil, bad("Transfer-Encoding in HTTP/1.0")
	}
	if r.method == "CONNECT" {
		return r, r.parseConnect(parts[1])
	}
	return r, r.parsePlain(parts[1], usual)
}

func (r *request) parseConnect(target string) (err error) {
	if r.chunked() || r.length() > 0 {
		return bad("CONNECT with a body")
	}
	r.target.Scheme = policy.HTTPS
	if r.target.Name, r.target.Port, err = parseAuthority(target, 0); err != nil {
		return err
	}
	return r.checkHost(r.target.Port)
}

func (r *request) parsePlain(target string, usual uint16) (err error) {
	rest, ok := strings.CutPrefix(target, "http://")
	if !ok {
		return bad("the target isn't http://HOST/PATH: this is a proxy, and https goes through CONNECT")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	r.path = rest[end:]
	switch {
	case r.path == "" || r.path[0] == '?':
		r.path = "/" + r.path
	case strings.Contains(r.path, "#"):
		return bad("a target with a fragment")
	}
	r.target = policy.Request{Scheme: policy.HTTP, Method: r.method, Path: r.path}
	if r.target.Name, r.target.Port, err = parseAuthority(rest[:end], usual); err != nil {
		return err
	}
	return r.checkHost(usual)
}

// errHost is a Host that is another than the target's.
var errHost = errors.New("the Host is another than the request's target")

// checkHost compares Host with the target. Older clients have none for CONNECT.
func (r *request) checkHost(port uint16) error {
	hosts := r.all("host")
	if len(hosts) == 0 {
		if r.version == "HTTP/1.1" && r.method != "CONNECT" {
			return bad("there is no Host")
		}
		return nil
	}
	name, port, err := parseAuthority(hosts[0], port)
	if err != nil || name != r.target.Name || port != r.target.Port {
		return errHost
	}
	return nil
}

// parseAuthority reads HOST[:PORT]; the port is a must when there is no usual one.
func parseAuthority(s string, usual uint16) (policy.Name, uint16, error) {
	if strings.ContainsAny(s, "@/\\") {
		return "", 0, bad("user information or a slash where a host belongs")
	}
	host, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		host, port = s[:i], s[i+1:]
	} else if usual == 0 {
		return "", 0, bad("the target has no port")
	}
	name, err := policy.Canonical(host)
	if err != nil {
		return "", 0, err
	}
	if port == "" && host == s {
		return name, usual, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", 0, bad("a port that is no number from 1 to 65535")
	}
	return name, uint16(n), nil
}
