package compose

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/installer/phase"
	"github.com/quavon/quavon/runner/fault"
)

// TestShellIsNotAsked: of what the shell has set, compose gets nothing that a ${NAME} of
// the operator's files, or a service's environment, could take.
func TestShellIsNotAsked(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\nexec /usr/bin/env\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for _, name := range []string{"TAG", "COSIGN_PASSWORD", "QUAVON_EGRESS_LISTEN", "COMPOSE_FILE", "DOCKER_CONTEXT", "BUILDKIT_HOST"} {
		t.Setenv(name, "of-the-shell")
	}
	out, err := cli{target: &phase.Target{Dir: dir, Socket: "/s"}}.output(t.Context(), "config")
	if err != nil || strings.Contains(out, "of-the-shell") || !strings.Contains(out, "DOCKER_HOST=unix:///s\n") || !strings.Contains(out, "PATH=") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestStrangeFiles: what stands under the names of the operator's files is looked at before
// compose is, which would wait for a pipe, or leave a link without a file away.
func TestStrangeFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".env", "compose.override.yaml", "compose.override.yml"} {
		for kind, make := range map[string]func(string) error{
			"a pipe":        func(path string) error { return unix.Mkfifo(path, 0o600) },
			"a large file":  func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<30)) },
			"a directory":   func(path string) error { return os.Mkdir(path, 0o700) },
			"a broken link": func(path string) error { return os.Symlink("/nowhere", path) },
		} {
			if name == ".env" && kind == "a broken link" {
				continue // the journal refuses to write there
			}
			dir := t.TempDir()
			if err := make(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_, err := load(t.Context(), cli{target: &phase.Target{Dir: dir}})
			// Nobody ever writes to the pipe.
			if took := time.Since(start); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) || took > time.Minute {
				t.Errorf("%s as %s: %v after %s", name, kind, err, took)
			}
		}
	}
}

// TestInterruptedCompose: of an interruption nothing else is said, least of all that the
// operator's files are wrong.
func TestInterruptedCompose(t *testing.T) {
	dir := t.TempDir()
	begun := filepath.Join(dir, "begun")
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\n: >"+begun+"\nexec /bin/sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	c := cli{target: &phase.Target{Dir: dir, Socket: "/s"}}
	for name, do := range map[string]func(context.Context) error{
		"load":  func(ctx context.Context) error { _, err := load(ctx, c); return err },
		"run":   func(ctx context.Context) error { return c.run(ctx, &quiet{}, "up") },
		"check": func(ctx context.Context) error { return c.check(ctx) },
	} {
		signal := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for os.Remove(begun) != nil && t.Context().Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			cancel(signal)
		}()
		if err := do(ctx); !errors.Is(err, signal) || strings.Contains(err.Error(), "not valid") || strings.Contains(fault.Hint(err), "correct") {
			t.Errorf("%s: %v (%s)", name, err, fault.Hint(err))
		}
	}
}

// TestOutputIsBounded: of what compose prints the beginning is kept.
func TestOutputIsBounded(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\nexec /usr/bin/head -c 4000000 /dev/zero\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	out, err := cli{target: &phase.Target{Dir: dir, Socket: "/s"}}.output(t.Context(), "config")
	if err != nil || len(out) != maxOutput {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}
