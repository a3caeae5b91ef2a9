// Package conn connects to Valkey (or Redis): settings and URLs, TLS, and which
// errors pass by themselves.
package conn

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/quavon/quavon/runner/fault"
)

// Settings say where Valkey is and who we are there.
type Settings struct {
	// Addresses are host:port, several of a cluster, or the one path of a socket.
	Addresses []string
	Username  string
	Password  string
	DB        int
	// TLS encrypts, and checks the server's certificate.
	TLS bool
	// CAFile holds the certificates to trust instead of the system's. CertFile and
	// KeyFile are our own, for servers that ask for one.
	CAFile, CertFile, KeyFile string
	// ServerName is the name in the server's certificate, "" the address's host.
	ServerName string
}

// String shows where, never the password.
func (s Settings) String() string {
	scheme := "valkey"
	switch {
	case s.socket():
		scheme = "unix"
	case s.TLS:
		scheme = "valkeys"
	}
	return scheme + "://" + strings.Join(s.Addresses, ",")
}

// GoString never shows the password.
func (s Settings) GoString() string { return s.String() }

func (s Settings) socket() bool { return len(s.Addresses) == 1 && path.IsAbs(s.Addresses[0]) }

const urlHint = "write valkey://USER:PASSWORD@HOST:PORT/DB with % / ? # and @ of the password as %25 %2F %3F %23 %40, " +
	"or set host, user and password separately"

// ParseURL reads redis://, rediss://, valkey://, valkeys:// and unix:// URLs. net/url
// isn't used: it refuses many passwords, and its errors show them. Here the
// last @ ends the password, which may hold any character but an unescaped %; escapes
// are decoded once. Errors name the scheme and nothing else.
func ParseURL(text string) (Settings, error) {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(text), "://")
	var s Settings
	switch strings.ToLower(scheme) {
	case "redis", "valkey", "unix":
	case "rediss", "valkeys":
		s.TLS = true
	default:
		ok = false
	}
	if !ok {
		return Settings{}, fault.New("Valkey's URL does not begin with valkey://, valkeys://, redis://, rediss:// or unix://", urlHint)
	}
	bad := func(what string) (Settings, error) {
		return Settings{}, fault.New(fmt.Sprintf("Valkey's URL (%s://…) has a bad %s", strings.ToLower(scheme), what), urlHint)
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, password, _ := strings.Cut(rest[:i], ":")
		var err1, err2 error
		s.Username, err1 = url.PathUnescape(user)
		s.Password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return bad("user or password: a % is followed by no two hexadecimal digits")
		}
		rest = rest[i+1:]
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.EqualFold(scheme, "unix") {
		return parseSocket(s, rest, query, bad)
	}
	hosts, db, _ := strings.Cut(rest, "/")
	for _, h := range strings.Split(hosts, ",") {
		addr, ok := address(h)
		if !ok {
			return bad("host or port")
		}
		s.Addresses = append(s.Addresses, addr)
	}
	if s.DB, ok = number(db); !ok || query != "" {
		return bad("database number")
	}
	return s, nil
}

func parseSocket(s Settings, file, query string, bad func(string) (Settings, error)) (Settings, error) {
	if !path.IsAbs(file) {
		return bad("path: it is not absolute")
	}
	s.Addresses = []string{file}
	var ok bool
	if s.DB, ok = number(strings.TrimPrefix(query, "db=")); !ok {
		return bad("database number")
	}
	return s, nil
}

// number reads a database's number; none is 0.
func number(s string) (int, bool) {
	n, err := strconv.ParseUint(cmp.Or(s, "0"), 10, 16)
	return int(n), err == nil
}

// address completes a host with Valkey's port.
func address(h string) (string, bool) {
	host, port := h, "6379"
	if strings.HasPrefix(h, "[") || strings.Count(h, ":") == 1 {
		var err error
		if host, port, err = net.SplitHostPort(h); err != nil {
			host, port = strings.Trim(h, "[]"), "6379"
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || host == "" || strings.ContainsAny(host, " []/\\") {
		return "", false
	}
	if strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}
