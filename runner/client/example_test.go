package client_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/quavon/quavon/runner/client"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/service/servicetest"
)

// out is where the example prints; its test looks there.
var out io.Writer = os.Stdout

// A job on the runners of a queue, with what it prints and how it ends.
func Example() {
	if err := submit(context.Background(), os.Getenv("VALKEY_URL"), os.Getenv("QUAVON_SANDBOX_SIGNING_KEY_FILE")); err != nil {
		fmt.Fprintln(out, err)
	}
}

func submit(ctx context.Context, url, keyFile string) error {
	valkey, err := conn.ParseURL(url)
	if err != nil {
		return err
	}
	keys, err := client.ReadKeys(keyFile)
	if err != nil {
		return err
	}
	c, err := client.Open(ctx, client.Options{Valkey: valkey, Keys: keys})
	if err != nil {
		return err
	}
	defer c.Close()
	res, err := c.Run(ctx, client.Job{
		Steps: []client.Step{{Run: client.Command{"/bin/sh", "-c", "echo hello from a sandbox; exit 3"}}},
	}, client.Log{Stdout: out})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "exit %d, %s\n", res.Exit, res.Sandbox.Backend)
	return nil
}

// TestExample runs the example against a real runner.
func TestExample(t *testing.T) {
	q := servicetest.NewQueue(t)
	servicetest.StartHealthy(t, servicetest.Options(t, q.Open(t)))
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString(q.Key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VALKEY_URL", "unix://"+q.Server.Socket)
	t.Setenv("QUAVON_SANDBOX_SIGNING_KEY_FILE", key)
	var got bytes.Buffer
	out = &got
	defer func() { out = os.Stdout }()
	Example()
	if want := "hello from a sandbox\nexit 3, runsc\n"; got.String() != want {
		t.Errorf("printed %q, want %q", got.String(), want)
	}
}
