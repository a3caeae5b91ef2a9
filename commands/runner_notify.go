package commands

import (
	"context"
	"net"
	"os"
	"strconv"
	"time"
)

// notifier tells systemd how the service does. Without systemd it does nothing.
type notifier struct {
	socket string
	every  time.Duration
	log    func(error)
}

func newNotifier(p *program) *notifier {
	n := &notifier{socket: p.env("NOTIFY_SOCKET"), log: func(err error) { p.Log.Warn("systemd could not be told", "error", err) }}
	usec, err := strconv.ParseInt(p.env("WATCHDOG_USEC"), 10, 64)
	if pid := p.env("WATCHDOG_PID"); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.every = time.Duration(usec) * time.Microsecond / 2
	}
	return n
}

// say sends lines such as READY=1. The socket's name may be abstract, with an @ for
// the zero byte, which net has too.
func (n *notifier) say(lines string) {
	if n.socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err == nil {
		_, err = c.Write([]byte(lines))
		c.Close() // a datagram is sent or not
	}
	if err != nil {
		n.log(err)
	}
}

// watchdog keeps telling systemd that the service is alive while it is, until its
// process ends: jobs still have to be told apart from a deadlock after ctx has ended.
func (n *notifier) watchdog(ctx context.Context, alive func() bool) {
	if n.every <= 0 {
		return
	}
	for ctx = context.WithoutCancel(ctx); ctx.Err() == nil; time.Sleep(n.every) {
		if alive() {
			n.say("WATCHDOG=1")
		}
	}
}
