// Package imagetest makes layers and images for tests, and looks at what they
// became through the kernel.
package imagetest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"
)

// Entry is one entry of a layer's tar. The zero Type is a regular file.
type Entry struct {
	Type   byte
	Name   string
	Link   string
	Body   string
	Mode   int64
	UID    int
	GID    int
	Mtime  time.Time
	Xattrs map[string]string
	// PAX adds records of its own.
	PAX map[string]string
	// Major and Minor of a device.
	Major, Minor int64
}

// Dir is a directory.
func Dir(name string) Entry { return Entry{Type: tar.TypeDir, Name: name, Mode: 0o755} }

// File is a regular file.
func File(name, body string) Entry {
	return Entry{Type: tar.TypeReg, Name: name, Body: body, Mode: 0o644}
}

// Link is a hard link.
func Link(name, target string) Entry { return Entry{Type: tar.TypeLink, Name: name, Link: target} }

// Symlink is a symbolic link.
func Symlink(name, target string) Entry {
	return Entry{Type: tar.TypeSymlink, Name: name, Link: target, Mode: 0o777}
}

// defaultTime is the time of entries that have none, in seconds since 1970.
const defaultTime = 1_000_000_000

// Tar encodes entries.
func Tar(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := e.write(w); err != nil {
			t.Fatalf("tar entry %q: %v", e.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (e *Entry) write(w *tar.Writer) error {
	h := &tar.Header{
		Typeflag: e.Type, Name: e.Name, Linkname: e.Link, Mode: e.Mode, Uid: e.UID, Gid: e.GID,
		Size: int64(len(e.Body)), ModTime: e.Mtime, Devmajor: e.Major, Devminor: e.Minor,
		Format: tar.FormatPAX, PAXRecords: map[string]string{},
	}
	if h.Typeflag == 0 {
		h.Typeflag = tar.TypeReg
	}
	if h.ModTime.IsZero() {
		h.ModTime = time.Unix(defaultTime, 0)
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		*h = tar.Header{Typeflag: h.Typeflag, Name: e.Name, Format: tar.FormatPAX, PAXRecords: map[string]string{}}
	}
	for k, v := range e.Xattrs {
		h.PAXRecords["SCHILY.xattr."+k] = v
	}
	for k, v := range e.PAX {
		h.PAXRecords[k] = v
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.WriteString(w, e.Body); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return nil
}
