package commands

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestNotify plays systemd.
func TestNotify(t *testing.T) {
	t.Parallel()
	for name, socket := range map[string]string{
		"path": filepath.Join(t.TempDir(), "n"), "abstract": "@quavon-notify-" + strconv.Itoa(os.Getpid()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			vars := map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": strconv.Itoa(os.Getpid())}
			p := &program{LookupEnv: func(k string) (string, bool) { v, ok := vars[k]; return v, ok }, Log: slog.New(slog.DiscardHandler)}
			n := newNotifier(p)
			n.say("READY=1\nSTATUS=x")
			if got := receive(t, l); got != "READY=1\nSTATUS=x" {
				t.Errorf("got %q", got)
			}
			alive := make(chan bool)
			go n.watchdog(t.Context(), func() bool { return <-alive })
			// The fourth is asked for when the third is told of, or not.
			for _, is := range []bool{true, false, true, false} {
				alive <- is
			}
			n.say("END")
			for _, want := range []string{"WATCHDOG=1", "WATCHDOG=1", "END"} { // the one between isn't told
				if got := receive(t, l); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
	if n := newNotifier(&program{LookupEnv: func(string) (string, bool) { return "", false }}); n.every != 0 || n.socket != "" {
		t.Errorf("without systemd: %+v", n)
	}
}

func receive(t *testing.T, l *net.UnixConn) string {
	t.Helper()
	_ = l.SetReadDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 1000)
	n, err := l.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}
