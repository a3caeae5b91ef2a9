package proxy

import (
	"fmt"
	"io"
	"time"

	"github.com/quavon/quavon/runner/egress/policy"
)

// replier tells a client what becomes of its connection.
type replier interface {
	connected(w io.Writer) error
	refused(w io.Writer, to policy.Request, reason policy.Reason, err error) error
	failed(w io.Writer, to policy.Request) error
}

// advice is what a developer can do about a refusal.
func advice(to policy.Request, reason policy.Reason) string {
	rule := fmt.Sprintf("%s:%d", to.Name, to.Port)
	if to.Scheme == policy.HTTP {
		rule = "http://" + rule
	}
	switch reason {
	case policy.ReasonHost, policy.ReasonPort, policy.ReasonScheme:
		return "it must be on the operator's list of hosts and on the job's: quavon run --net " + rule +
			", or with a runner QUAVON_SANDBOX_REGISTRIES and the job's own"
	case policy.ReasonMethod, policy.ReasonPath:
		return fmt.Sprintf("%s isn't allowed there; %s=%s on both lists allows it", to.Method, to.Method, rule)
	case policy.ReasonAddress:
		return "only hosts' names are allowed, never addresses"
	case ReasonForbidden:
		return "its name leads to an address that is not public"
	case ReasonNoTLS:
		return "only TLS may go there; for anything else an operator allows tcp://HOST:PORT"
	case ReasonSNI, ReasonNoSNI, ReasonHostField:
		return "the server name of TLS, or Host, must be the name of the request"
	case ReasonConns, ReasonBytes:
		return "this job has used up what it may"
	case ReasonPlaceholder, ReasonUnknown:
		return "a secret goes only to the URL and the header it is bound to"
	case ReasonUpgrade:
		return "only HTTP/1.1 and WebSocket (RFC 6455) can be spoken with the host of a secret"
	case ReasonEncoded:
		return "values couldn't be kept out of it; its server must heed Accept-Encoding: identity"
	case ReasonUntrusted:
		return "an operator trusts another authority with SSL_CERT_FILE"
	}
	return ""
}

// replyHTTP answers before a tunnel is made, or a plain request.
type replyHTTP struct{}

func (replyHTTP) connected(w io.Writer) error {
	_, err := io.WriteString(w, "HTTP/1.1 200 Connection established\r\n\r\n")
	return err
}

// refused puts the reason into the status line too: of an answer to CONNECT that is all
// most clients show.
func (replyHTTP) refused(w io.Writer, to policy.Request, reason policy.Reason, err error) error {
	status := 403
	if reason == ReasonRequest {
		status = 400
	}
	where := ""
	if to.Name != "" {
		where = fmt.Sprintf(" %s:%d", to.Name, to.Port)
	}
	text := fmt.Sprintf("quavon: egress refused%s: %s", where, reason)
	if err != nil {
		text += ": " + err.Error()
	}
	if a := advice(to, reason); a != "" {
		text += "\nhint: " + a
	}
	return writeStatus(w, status, fmt.Sprintf("Refused by quavon: %s%s", reason, where), text)
}

func (replyHTTP) failed(w io.Writer, to policy.Request) error {
	text := fmt.Sprintf("%s:%d can't be reached from the egress proxy", to.Name, to.Port)
	return writeStatus(w, 502, "quavon: "+text, "quavon: "+text)
}

func writeStatus(w io.Writer, status int, phrase, text string) error {
	const form = "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n"
	_, err := fmt.Fprintf(w, form,
		status, phrase, len(text)+1, text)
	return err
}

// replySOCKS answers in the codes of RFC 1928.
type replySOCKS struct{}

func (replySOCKS) connected(w io.Writer) error { return socksReply(w, socksOK) }

func (replySOCKS) refused(w io.Writer, _ policy.Request, reason policy.Reason, _ error) error {
	if reason == ReasonCommand {
		return socksReply(w, socksNoCommand)
	}
	return socksReply(w, socksNotAllowed)
}

func (replySOCKS) failed(w io.Writer, _ policy.Request) error { return socksReply(w, socksUnreachable) }

// replyTLS tells a client that expects a server hello. Its alert is "unrecognized
// name", in the version that every TLS understands.
type replyTLS struct{ replyNothing }

func (replyTLS) refused(w io.Writer, _ policy.Request, _ policy.Reason, _ error) error {
	_, err := w.Write([]byte{21, 3, 1, 0, 2, 2, 112})
	return err
}

// replyNothing is for a connection that is the job's own protocol by now.
type replyNothing struct{}

func (replyNothing) connected(io.Writer) error                                     { return nil }
func (replyNothing) refused(io.Writer, policy.Request, policy.Reason, error) error { return nil }
func (replyNothing) failed(io.Writer, policy.Request) error                        { return nil }

// lingerTime is how long a client has to read why it was refused.
const lingerTime = time.Second

// linger ends a connection so that its last answer arrives: a close with unread
// bytes would reset it.
func linger(conn Conn) {
	_ = conn.CloseWrite() // the client may have left
	timer := time.AfterFunc(lingerTime, func() { conn.Close() })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, conn, 1<<20)
}
