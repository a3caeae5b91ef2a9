package probe

import (
	"bytes"
	"encoding/base64"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/sandbox"
)

var doorway = []Probe{knocking("E1-allowed"), knocking("E2-door"), knocking("E7-door"), knocking("E8-bypass")}

func knocking(id string) Probe {
	return Probe{ID: id, Timeout: 60 * time.Second, Run: (*Context).knock}
}

// knock says to the door what the host's side has written down: "SUB SAY.THEN", both in
// base64.
func (c *Context) knock() {
	for _, p := range c.Params[c.probe.ID] {
		sub, rest, _ := strings.Cut(p, " ")
		first, second, _ := strings.Cut(rest, ".")
		say, err1 := base64.StdEncoding.DecodeString(first)
		then, err2 := base64.StdEncoding.DecodeString(second)
		if err1 != nil || err2 != nil {
			c.out.result(c.probe.ID, "parameters", ErrnoOther, p)
			return
		}
		c.TryFor(2*doorTime, sub, func() (string, error) { return throughDoor(say, then) })
	}
}

// doorTime is how long the door may take to answer.
const doorTime = 4 * time.Second

// throughDoor returns what came back from behind the door.
func throughDoor(say, then []byte) (string, error) {
	fd, err := dial("tcp", sandbox.Door)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	head, err := exchange(fd, say)
	if err != nil {
		return "", err
	}
	if refusal := refusalOf(head); refusal != "" || len(then) == 0 {
		if refusal != "" {
			err = &Remote{Errno: refusal, Answer: firstLine(head)}
		}
		return firstLine(head), err
	}
	body, err := exchange(fd, then)
	if err != nil || refusalOf(body) == "tunnel closed" || len(body) == 0 {
		return "", &Remote{Errno: "tunnel closed", Answer: firstLine(head)}
	}
	return firstLine(body), nil
}

// exchange sends and reads what comes back first.
func exchange(fd int, say []byte) ([]byte, error) {
	if _, err := unix.Write(fd, say); err != nil {
		return nil, err
	}
	if err := await(fd, unix.POLLIN, doorTime); err != nil {
		return nil, err
	}
	buf := make([]byte, 1024)
	n, err := unix.Read(fd, buf)
	// The two answers of SOCKS may come one by one.
	for err == nil && n > 0 && n < socksReply && buf[0] == socks {
		if err = await(fd, unix.POLLIN, doorTime); err != nil {
			break
		}
		var more int
		if more, err = unix.Read(fd, buf[n:]); more == 0 {
			break
		}
		n += more
	}
	return buf[:max(n, 0)], err
}

// First bytes of SOCKS, and of what TLS says at its end; and how much SOCKS says to
// have answered a request.
const (
	socks, alert = 5, 21
	socksReply   = 4
)

// refusalOf names the proxy's answer, "" for one that lets through.
func refusalOf(head []byte) string {
	fields := bytes.Fields(head)
	switch {
	case len(head) == 0:
		return "closed"
	case head[0] == alert:
		return "tunnel closed"
	case len(head) >= socksReply && head[0] == socks && head[3] != 0: // the method, then the reply
		return "SOCKS " + string('0'+rune(head[3]))
	case len(head) >= socksReply && head[0] == socks:
		return ""
	case len(fields) < 2 || !bytes.HasPrefix(head, []byte("HTTP/1.")):
		return "no answer of a proxy"
	case fields[1][0] != '2':
		return "HTTP " + string(fields[1])
	}
	return ""
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(string(b), "\r\n")
	return line
}
