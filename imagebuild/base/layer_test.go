package base

import (
	"archive/tar"
	"bytes"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quavon/quavon/imagebuild/tarlayer"
)

const status = "Package: bash\nStatus: install ok installed\nVersion: 5.2-1\nDescription: shell\n more: text\n\n" +
	"Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n" +
	"Package: apt\nStatus: install ok installed\nVersion: 3.0\n"

// TestNormalize writes the same tree as two tar programs might: one layer.
func TestNormalize(t *testing.T) {
	t.Parallel()
	entry := func(name string, typ byte, body string) tar.Header {
		return tar.Header{Name: name, Typeflag: typ, Size: int64(len(body)), Mode: 0o755, ModTime: time.Unix(1e9, 5)}
	}
	write := func(format tar.Format, change func(*tar.Header)) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, f := range []struct {
			typ              byte
			name, body, link string
		}{
			{tar.TypeDir, "./", "", ""},
			{tar.TypeDir, "./etc/", "", ""},
			{tar.TypeReg, "./etc/hostname", "build-host\n", ""},
			{tar.TypeReg, "./etc/resolv.conf", "nameserver 192.0.2.1\n", ""},
			{tar.TypeDir, "./var/lib/apt/lists/partial/", "", ""},
			{tar.TypeReg, "./usr/bin/a", "a", ""},
			{tar.TypeLink, "./usr/bin/b", "", "./usr/bin/a"},
			{tar.TypeSymlink, "./bin", "", "usr/bin"},
			{tar.TypeReg, "./var/lib/dpkg/status", status, ""},
		} {
			h := entry(f.name, f.typ, f.body)
			h.Linkname, h.Format = f.link, format
			change(&h)
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(w, f.body)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	gnu := write(tar.FormatGNU, func(h *tar.Header) { h.Uname, h.Gname = "root", "root" })
	pax := write(tar.FormatPAX, func(h *tar.Header) { h.PAXRecords = map[string]string{"comment": "x"} })
	one, packages, err := normalize(bytes.NewReader(gnu), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := normalize(bytes.NewReader(pax), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if one.Hash != two.Hash || one.Bytes != two.Bytes {
		t.Errorf("two layers of one tree: %v, %v", one, two)
	}
	if got := strings.Join(packages, " "); got != "apt=3.0 bash=5.2-1" {
		t.Errorf("packages: %s", got)
	}
	names := namesOf(t, one)
	if want := []string{"etc/", "usr/bin/a", "usr/bin/b > usr/bin/a", "bin > usr/bin", "var/lib/dpkg/status"}; !slices.Equal(names, want) {
		t.Errorf("names: %q", names)
	}
	changed := write(tar.FormatPAX, func(h *tar.Header) { h.PAXRecords = map[string]string{"SCHILY.xattr.user.a": "b"} })
	if three, _, err := normalize(bytes.NewReader(changed), t.TempDir()); err != nil || three.Hash == one.Hash {
		t.Errorf("extended attributes were lost: %v", err)
	}
	for _, cut := range []int{100, len(gnu) / 2} {
		if l, _, err := normalize(bytes.NewReader(gnu[:cut]), t.TempDir()); err == nil {
			t.Errorf("a tar that ends after %d bytes made %v", cut, l)
		}
	}
}

func namesOf(t *testing.T, l *tarlayer.Layer) (names []string) {
	t.Helper()
	f, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err != nil {
			return names
		}
		name := h.Name
		if h.Linkname != "" {
			name += " > " + h.Linkname
		}
		names = append(names, name)
	}
}

// silent is a mirror that accepts a connection, calls met, and says nothing.
func silent(t *testing.T, met func()) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			met()
		}
	}()
	return l.Addr().String()
}

// FuzzInstalled reads status files as a base could bring them.
func FuzzInstalled(f *testing.F) {
	f.Add([]byte(status))
	f.Fuzz(func(t *testing.T, status []byte) {
		packages := installed(status)
		if !slices.IsSortedFunc(packages, func(a, b string) int { return strings.Compare(name(a), name(b)) }) {
			t.Errorf("not sorted: %q", packages)
		}
	})
}
