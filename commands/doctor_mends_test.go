package commands

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/quavon/quavon/runner/egress"
	"github.com/quavon/quavon/runner/egress/policy"
	"github.com/quavon/quavon/runner/egress/proxy"
	"github.com/quavon/quavon/runner/egress/token"
	"github.com/quavon/quavon/runner/image"
	"github.com/quavon/quavon/runner/image/imagetest"
	"github.com/quavon/quavon/runner/image/source"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/queuetest"
)

// restoreLock puts a lock where it is looked for, and what it has into the store.
func restoreLock(t *testing.T, s *localSandbox) {
	t.Helper()
	img := imagetest.Image(t, v1.Config{}, imagetest.Gzip(t, imagetest.Tar(t, imagetest.File("only", "a file\n"))))
	src, err := source.File(t.Context(), imagetest.Layout(t, img), source.Select{Platform: source.Host()}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.runner.Images.Import(t.Context(), src, image.ImportOptions{})
	err = errors.Join(err, src.Close(), os.Rename(writeLock(t, t.TempDir(), "registry.example/app", img, nil), s.lockFile()))
	if err != nil {
		t.Fatal(err)
	}
}

// startEgress starts the egress service with a Valkey, for the runner that looks at itself.
func startEgress(t *testing.T, s *localSandbox) {
	t.Helper()
	server := queuetest.Start(t, "--aclfile", shippedUsers(t))
	tokens := func(user string) token.Store {
		where := server.Settings()
		where.Username, where.Password = user, user
		c, err := conn.Open(where)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return token.Store{Client: c}
	}
	p, err1 := policy.New([]string{"registry.example"}, nil)
	l, err2 := net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	service := &egress.Service{Proxy: proxy.New(proxy.Config{Operator: p}), Tokens: tokens("egress"), Log: s.Log}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	addr := l.Addr().String()
	s.runner.Door = egress.Remote{Addr: addr, Tokens: tokens("sandbox"), Log: s.Log}
	s.LookupEnv = func(name string) (string, bool) {
		value, ok := map[string]string{envEgressProxy: addr}[name]
		return value, ok
	}
}
