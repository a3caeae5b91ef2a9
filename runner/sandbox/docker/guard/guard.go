// Package guard is a filtering proxy for the API of a Docker engine. The engine's
// socket is root on the host, whoever holds it; behind the guard a client can do
// what the docker backend does and nothing more. Nothing of a request is passed on:
// it is parsed, every part of it is checked against what the backend sends, and a
// new one is written from what was understood. Answers are cut to what the backend
// reads of its own objects.
package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/quavon/quavon/runner/image/lock"
)

// Config is what a guard lets through.
type Config struct {
	// Upstream is the path of the engine's socket.
	Upstream string
	// Runtimes are the engine's runtimes that containers may have.
	Runtimes []string
	// Lock pins the images that containers may be made of.
	Lock *lock.File
	// Log gets every refusal; nil discards them.
	Log *slog.Logger
}

// Guard is an http.Handler.
type Guard struct {
	Config
	images map[string]bool // digests, and references by digest
	client *http.Client
	routes []route
}

// Bounds of what passes.
const (
	maxBody   = 256 << 10 // a request's JSON
	maxAnswer = 8 << 20   // an answer's
	maxHeader = 16 << 10
	maxGuest  = 64 << 20
)

// New makes a guard.
func New(c Config) *Guard {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	g := &Guard{Config: c, images: allowed(c.Lock)}
	g.client = &http.Client{Transport: &http.Transport{DialContext: g.dial, MaxIdleConns: 8, IdleConnTimeout: time.Minute}}
	g.routes = g.table()
	return g
}

func (g *Guard) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", g.Upstream)
}

// allowed are the names that the lock's images have in an engine.
func allowed(l *lock.File) map[string]bool {
	names := map[string]bool{}
	if l == nil {
		return names
	}
	add := func(img lock.Image, digest string) {
		if digest != "" {
			names[digest] = true
			names[img.Ref+"@"+digest] = img.Source == lock.SourceRegistry
		}
	}
	for _, img := range l.Images {
		add(img, img.Index)
		for _, p := range img.Platforms {
			add(img, p.Manifest)
			add(img, p.Config)
		}
	}
	return names
}

// Serve answers on a listener until ctx ends.
func (g *Guard) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{
		Handler: g, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog:    slog.NewLogLogger(g.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	err := s.Serve(l)
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return err
}

// refusal is a request that isn't let through, with the status it gets.
type refusal struct {
	status int
	why    string
}

func (r *refusal) Error() string { return r.why }

func refuse(format string, args ...any) error {
	return &refusal{http.StatusForbidden, fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := g.serve(w, r)
	if err == nil {
		return
	}
	status, message := http.StatusBadGateway, "quavon docker-guard: "+err.Error()
	var no *refusal
	var up *upstreamError
	switch {
	case errors.As(err, &no):
		status = no.status
		g.Log.Warn("refused", "method", r.Method, "path", fmt.Sprintf("%.200q", r.URL.Path), "why", no.why)
	case errors.As(err, &up):
		status, message = up.status, up.message
	default:
		g.Log.Error("the engine does not answer", "error", err)
	}
	answer(w, status, map[string]string{"message": message})
}

func answer(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		data = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // the client may have gone
}

// upstreamError is the engine's own refusal. Only its message is passed on.
type upstreamError struct {
	status  int
	message string
}

func (e *upstreamError) Error() string { return e.message }

// send makes a request of our own to the engine. A status that isn't in want is an
// error; 0 in it allows every one. The caller closes the body.
func (g *Guard) send(
	ctx context.Context, method, path string, q url.Values, body io.Reader, contentType string, want ...int,
) (*http.Response, error) {
	u := url.URL{Scheme: "http", Host: "docker", Path: path, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return nil, err
	}
	if slices.Contains(want, resp.StatusCode) {
		return resp, nil
	}
	defer resp.Body.Close()
	var m struct{ Message string }
	_ = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&m) // the status says enough
	return nil, &upstreamError{resp.StatusCode, m.Message}
}

// get asks the engine and decodes its answer.
func (g *Guard) get(ctx context.Context, path string, q url.Values, into any) error {
	resp, err := g.send(ctx, http.MethodGet, path, q, nil, "", http.StatusOK)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into)
}
