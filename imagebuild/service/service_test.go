package service_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quavon/quavon/imagebuild/service"
	"github.com/quavon/quavon/test/need"
)

// program writes the head of a static program for a machine.
func program(t *testing.T, machine elf.Machine) string {
	t.Helper()
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64, Phentsize: 56, Shentsize: 64}
	copy(h.Ident[:], []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1})
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "quavon")
	if err := os.WriteFile(out, b.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestImage(t *testing.T) {
	t.Parallel()
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			path := program(t, machine)
			first, files := build(t, path)
			// Elsewhere, later, with another owner and mode.
			other := filepath.Join(t.TempDir(), "other")
			raw, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(other, raw, 0o700)
			}
			if err != nil {
				t.Fatal(err)
			}
			if again, _ := build(t, other); again != first {
				t.Errorf("two digests: %s and %s", first, again)
			}
			if d := cmp.Diff([]string{
				"etc/ 0:0 755", "etc/ssl/ 0:0 755", "etc/ssl/certs/ 0:0 755", "etc/ssl/certs/ca-certificates.crt 0:0 644",
				"quavon 0:0 755", "quavon-guest 0:0 755", "run/ 0:0 755", "run/quavon/ 65532:65532 700",
				"var/ 0:0 755", "var/lib/ 0:0 755", "var/lib/quavon/ 65532:65532 700",
			}, files); d != "" {
				t.Error(d)
			}
		})
	}
}

// build returns the image's digest and what is in it.
func build(t *testing.T, path string) (digest string, files []string) {
	t.Helper()
	e, err := service.Open(path, path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	img, done, err := e.Image(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil || config.Architecture != e.Architecture || config.Config.User != service.User || !config.Created.IsZero() {
		t.Errorf("config: %+v, %v", config, err)
	}
	id, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if said, err := e.Config(t.Context()); err != nil || said != id {
		t.Errorf("without making it: %s, %v, want %s", said, err, id)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	plain, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, fmt.Sprintf("%s %d:%d %o", h.Name, h.Uid, h.Gid, h.Mode))
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(h.Name, ".crt") && !x509.NewCertPool().AppendCertsFromPEM(body) || strings.Count(string(body), "BEGIN CERT") < 100 && strings.HasSuffix(h.Name, ".crt") {
			t.Error("there are no certificates")
		}
	}
	if err := done(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return id.String(), files
}

func TestRefused(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("x"), 100), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := service.Open(text, text); err == nil {
		t.Error("a text is no executable")
	}
	_, err := os.Stat("/bin/bash")
	need.That(t, err == nil, "/bin/bash")
	if _, err := service.Open("/bin/bash", text); err == nil || !strings.Contains(err.Error(), "isn't a static executable") {
		t.Errorf("a dynamic program: %v", err)
	}
	if _, err := service.Open(program(t, elf.EM_RISCV), text); err == nil || !strings.Contains(err.Error(), "for the machine EM_RISCV") {
		t.Errorf("another machine: %v", err)
	}
	amd, arm := program(t, elf.EM_X86_64), program(t, elf.EM_AARCH64)
	if _, err := service.Open(amd, arm); err == nil || !strings.Contains(err.Error(), "is for arm64") {
		t.Errorf("two machines: %v", err)
	}
	if _, err := service.Open(amd, text); err == nil {
		t.Error("a text is no agent")
	}
}

// TestInterrupted: an image whose making is interrupted is an error, and leaves nothing.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	e, err := service.Open(program(t, elf.EM_X86_64), program(t, elf.EM_X86_64))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, _, err := e.Image(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}
