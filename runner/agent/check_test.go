package agent_test

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/quavon/quavon/runner/agent"
	"github.com/quavon/quavon/runner/agent/agentpb"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

func TestCheckGuest(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile(testBinary(t, "guest"))
	must(t, err)
	foreign := append([]byte(nil), good...)
	binary.LittleEndian.PutUint16(foreign[18:], uint16(elf.EM_RISCV))
	dir := t.TempDir()
	file := func(name string, content []byte, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, content, mode))
		return path
	}
	for name, c := range map[string]struct{ path, why string }{
		"good":           {testBinary(t, "guest"), ""},
		"missing":        {filepath.Join(dir, "nothing"), "no such file"},
		"a directory":    {dir, "not an executable file"},
		"not executable": {file("data", good, 0o644), "not an executable file"},
		"a script":       {file("script", []byte("#!/bin/sh\n"), 0o755), "not an ELF binary"},
		"cut short":      {file("short", good[:100], 0o755), "not an ELF binary"},
		"foreign":        {file("foreign", foreign, 0o755), "EM_RISCV"},
		"dynamic":        {"/bin/ls", "linked dynamically"},
	} {
		err := agent.CheckGuest(c.path)
		if c.why == "" && err == nil {
			continue
		}
		if c.why == "" || err == nil || !strings.Contains(err.Error(), c.why) || fault.Hint(err) == "" {
			t.Errorf("%s: %v (hint %q)", name, err, fault.Hint(err))
		}
		if fault.Code(err) != string(job.ReasonSandboxUnavailable) {
			t.Errorf("%s: code %q", name, fault.Code(err))
		}
	}
}

// frames encodes frames as they are on the wire.
func frames(t testing.TB, list ...*agentpb.Frame) []byte {
	t.Helper()
	var b []byte
	for _, f := range list {
		body, err := proto.Marshal(f)
		must(t, err)
		b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
		b = append(b, body...)
	}
	return b
}

func hello(version uint32) *agentpb.Frame {
	return &agentpb.Frame{Body: &agentpb.Frame_Hello{Hello: &agentpb.Hello{Version: version, Build: "v9\x1b[31m"}}}
}

func TestDialFaults(t *testing.T) {
	t.Parallel()
	late := errors.New("no patience")
	for name, c := range map[string]struct {
		says       []byte
		stay       bool
		what, hint string
		cause      error
	}{
		"another version": {
			says: frames(t, hello(agent.ProtocolVersion+1)), stay: true,
			what: fmt.Sprintf("protocol version %d here, %d there", agent.ProtocolVersion, agent.ProtocolVersion+1), hint: `v9\x1b[31m): run make`,
		},
		"not an agent": {says: []byte("bash: no job control in this shell\n"), stay: true, what: "protocol violation", hint: "isn't quavon-guest"},
		"ends at once": {what: "closed the connection", hint: "why the sandbox ended"},
		"silence":      {stay: true, cause: late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			go func() {
				_, _ = theirs.Write(c.says)
				if !c.stay {
					_ = theirs.Close()
				}
			}()
			patience := time.Minute
			if c.cause != nil {
				patience = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), patience, late)
			defer cancel()
			_, err := agent.Dial(ctx, ours)
			if err == nil || !strings.Contains(err.Error(), c.what) || !strings.Contains(fault.Hint(err), c.hint) {
				t.Errorf("%v (hint: %s)", err, fault.Hint(err))
			}
			if c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("%v, want %v", err, c.cause)
			}
			if fault.Hint(err) == "" || fault.Code(err) != string(job.ReasonSandboxUnavailable) {
				t.Errorf("hint %q, code %q", fault.Hint(err), fault.Code(err))
			}
			_ = theirs.Close()
		})
	}
}

func TestCommandBounds(t *testing.T) {
	t.Parallel()
	c := hostile(t, 1, nil)
	many := make([]string, 9000)
	for i := range many {
		many[i] = "x"
	}
	long := strings.Repeat("x", 300_000)
	for name, change := range map[string]func(*agent.Command){
		"nothing to run": func(c *agent.Command) { c.Argv = nil },
		"empty name":     func(c *agent.Command) { c.Argv = []string{""} },
		"many arguments": func(c *agent.Command) { c.Argv = many },
		"long argument":  func(c *agent.Command) { c.Argv = append(c.Argv, long) },
		"large env":      func(c *agent.Command) { c.Env = append(c.Env, "A="+long) },
		"many variables": func(c *agent.Command) { c.Env = many },
		"relative dir":   func(c *agent.Command) { c.Dir = "tmp" },
		"long dir":       func(c *agent.Command) { c.Dir = "/" + long[:5000] },
		"zero byte":      func(c *agent.Command) { c.Argv = append(c.Argv, "a\x00b") },
	} {
		_, err := c.Exec(t.Context(), with(command("true"), change), agent.Stdio{})
		if err == nil || fault.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What is allowed fits in a frame.
	large := with(command("true"), func(c *agent.Command) {
		c.Argv = append(c.Argv, long[:262_000])
		c.Env = append(c.Env, "A="+long[:131_000])
	})
	ctx, cancel := context.WithCancel(t.Context())
	p, err := c.Exec(ctx, large, agent.Stdio{})
	must(t, err)
	cancel()
	_, _ = p.Wait()
}
