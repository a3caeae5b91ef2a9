package guard

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

// attach joins the client's connection with the standard streams of a sandbox.
func (g *Guard) attach(c *call) error {
	for _, p := range []string{"stream", "stdin", "stdout", "stderr"} {
		if !c.q.Has(p) {
			return refuse("an attach without %s", p)
		}
	}
	i, err := g.ours(c, object.RoleJob)
	if err != nil {
		return err
	}
	up, from, err := g.upgrade(c, "/containers/"+i.ID+"/attach")
	if err != nil {
		return err
	}
	defer up.Close()
	down, rw, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		return err
	}
	defer down.Close()
	_ = down.SetDeadline(time.Time{})
	const switching = "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.multiplexed-stream\r\n" +
		"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
	if _, err := io.WriteString(down, switching); err != nil {
		return nil // the client has gone, and no answer can reach it
	}
	join(down, rw.Reader, up, from)
	return nil
}

// upgrade asks the engine to attach, over a connection of its own.
func (g *Guard) upgrade(c *call, path string) (net.Conn, *bufio.Reader, error) {
	up, err := g.dial(c.r.Context(), "", "")
	if err != nil {
		return nil, nil, err
	}
	q := url.Values{"stream": {"1"}, "stdin": {"1"}, "stdout": {"1"}, "stderr": {"1"}}
	u := url.URL{Scheme: "http", Host: "docker", Path: c.version + path, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(c.r.Context(), http.MethodPost, u.String(), nil)
	if err != nil {
		return nil, nil, errors.Join(err, up.Close())
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "tcp")
	if err := req.Write(up); err != nil {
		return nil, nil, errors.Join(err, up.Close())
	}
	from := bufio.NewReader(up)
	resp, err := http.ReadResponse(from, req)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body.Close()
		err = &upstreamError{resp.StatusCode, "the engine does not attach"}
	}
	if err != nil {
		return nil, nil, errors.Join(err, up.Close())
	}
	return up, from, nil
}

// join copies both ways until both have ended: the end of one way is passed on, and
// the other goes on.
func join(down net.Conn, fromDown io.Reader, up net.Conn, fromUp io.Reader) {
	var wg sync.WaitGroup
	way := func(to net.Conn, from io.Reader) {
		_, err := io.Copy(to, from)
		half, ok := to.(interface{ CloseWrite() error })
		if err != nil || !ok || half.CloseWrite() != nil {
			_ = to.Close() // nothing more can be told
		}
	}
	wg.Go(func() { way(up, fromDown) })
	way(down, fromUp)
	// The sandbox has ended; what the client still says reaches nobody.
	_ = down.Close()
	wg.Wait()
}
