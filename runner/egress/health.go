package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/quavon/quavon/runner/egress/token"
)

// verbHealth asks whether the service can look tokens up; the token is one that
// nobody has minted. It is as long as the others.
const verbHealth = "healthy"

// health answers "ok" or why not, one line.
func (s *Service) health(ctx context.Context, c net.Conn, t token.Token) {
	answer := "ok\n"
	if _, err := s.Tokens.Get(ctx, t); err != nil && !errors.Is(err, token.ErrUnknown) {
		s.Log.Warn("tokens can't be looked up", "err", err)
		answer = "tokens can't be looked up\n"
	}
	_, _ = io.WriteString(c, answer) // the caller may have gone
}

// Check asks the service at addr, HOST:PORT, whether it could serve a runner.
func Check(ctx context.Context, addr string) error {
	d := net.Dialer{Timeout: answerTime}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	if _, err := c.Write(opening(verbHealth, token.Mint())); err != nil {
		return err
	}
	line, err := bufio.NewReader(io.LimitReader(c, maxAnswer)).ReadString('\n')
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	if line != "ok\n" {
		return fmt.Errorf("it answered: %.200q", line)
	}
	return nil
}
