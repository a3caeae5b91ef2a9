package base

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/quavon/quavon/imagebuild/tarlayer"
)

// image wraps the layer: no wall clock, no host in it.
func (r *Recipe) image(arch string, l *tarlayer.Layer) (v1.Image, error) {
	at := v1.Time{Time: r.Time.UTC()}
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer: l, MediaType: types.OCIUncompressedLayer,
		History: v1.History{Created: at, CreatedBy: "mmdebstrap " + r.Suite + " " + arch},
	})
	if err != nil {
		return nil, err
	}
	c, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created = "linux", arch, at
	c.Config = v1.Config{
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Cmd: []string{"/bin/bash"},
	}
	img, err = mutate.ConfigFile(img, c)
	return mutate.ConfigMediaType(img, types.OCIConfigJSON), err
}

// normalize rewrites mmdebstrap's tar to a file in dir, in a form that is the same
// whatever tar program made it, without the host's name and resolver. It also
// returns the packages that are installed.
func normalize(in io.Reader, dir string) (l *tarlayer.Layer, packages []string, err error) {
	f, err := os.CreateTemp(dir, "layer-*.tar")
	if err != nil {
		return nil, nil, err
	}
	l = &tarlayer.Layer{Path: f.Name()}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash, buf := sha256.New(), bufio.NewWriterSize(f, 1<<20)
	w := tar.NewWriter(io.MultiWriter(buf, hash))
	if packages, err = rewrite(tar.NewReader(bufio.NewReaderSize(in, 1<<20)), w); err != nil {
		return l, nil, fmt.Errorf("read what mmdebstrap made: %w", err)
	}
	if err := errors.Join(w.Close(), buf.Flush(), f.Sync()); err != nil {
		return l, nil, err
	}
	l.Bytes, err = f.Seek(0, io.SeekCurrent)
	l.Hash = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(hash.Sum(nil))}
	return l, packages, err
}

const maxStatus = 64 << 20

func rewrite(r *tar.Reader, w *tar.Writer) (packages []string, err error) {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, err
		}
		h.Name = strings.TrimPrefix(strings.TrimPrefix(h.Name, "."), "/")
		var body io.Reader = r
		switch h.Name {
		case "", "etc/hostname", "etc/resolv.conf":
			continue // the host's
		case "var/cache/apt/archives/partial/", "var/lib/apt/lists/partial/":
			continue // apt makes them, for a user that depends on who can enter $TMPDIR
		case "var/lib/dpkg/status":
			status, err := io.ReadAll(io.LimitReader(r, maxStatus))
			if err != nil {
				return nil, err
			}
			packages, body = installed(status), bytes.NewReader(status)
		}
		if h.Typeflag == tar.TypeLink {
			h.Linkname = strings.TrimPrefix(h.Linkname, "./")
		}
		if err := w.WriteHeader(plain(h)); err != nil {
			return nil, err
		}
		if _, err := io.Copy(w, body); err != nil {
			return nil, err
		}
	}
}

// plain keeps of a header what the file is, and drops how it was written.
func plain(h *tar.Header) *tar.Header {
	out := &tar.Header{
		Format: tar.FormatPAX, Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname, Size: h.Size,
		Mode: h.Mode, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime.Truncate(time.Second), Devmajor: h.Devmajor, Devminor: h.Devminor,
	}
	for _, k := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		if strings.HasPrefix(k, "SCHILY.xattr.") {
			if out.PAXRecords == nil {
				out.PAXRecords = map[string]string{}
			}
			out.PAXRecords[k] = h.PAXRecords[k]
		}
	}
	return out
}

// installed lists the packages of dpkg's status file.
func installed(status []byte) []string {
	var out []string
	for entry := range strings.SplitSeq(string(status), "\n\n") {
		fields := map[string]string{}
		for line := range strings.SplitSeq(entry, "\n") {
			if k, v, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, " ") {
				fields[k] = v
			}
		}
		if fields["Status"] == "install ok installed" {
			out = append(out, fields["Package"]+"="+fields["Version"])
		}
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(name(a), name(b)) })
	return out
}
