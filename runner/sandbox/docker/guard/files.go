package guard

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/quavon/quavon/runner/sandbox/docker/object"
)

// readable are the files that may be read from a helper.
var readable = []string{"/etc/passwd", "/etc/group", object.GuestPath}

// pathStat is the header in which the engine describes a path.
const pathStat = "X-Docker-Container-Path-Stat"

// readFile passes a file of a helper's image or volume.
func (g *Guard) readFile(c *call) error {
	i, err := g.ours(c, object.RoleHelper)
	if err != nil {
		return err
	}
	if !slices.Contains(readable, c.q.Get("path")) {
		return refuse("the path %.100q", c.q.Get("path"))
	}
	q := url.Values{"path": {c.q.Get("path")}}
	resp, err := g.send(c.r.Context(), http.MethodGet, c.version+"/containers/"+i.ID+"/archive", q, nil, "", http.StatusOK)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	c.w.Header().Set(pathStat, resp.Header.Get(pathStat))
	c.w.Header().Set("Content-Type", "application/x-tar")
	c.w.WriteHeader(http.StatusOK)
	_, _ = io.Copy(c.w, io.LimitReader(resp.Body, maxGuest+64<<10)) // the client may have gone
	return nil
}

// statPath says whether a helper's image has a directory, and nothing else of it.
func (g *Guard) statPath(c *call) error {
	i, err := g.ours(c, object.RoleHelper)
	if err != nil {
		return err
	}
	q := url.Values{"path": {object.CoveredDir}}
	resp, err := g.send(c.r.Context(), http.MethodHead, c.version+"/containers/"+i.ID+"/archive", q, nil, "", http.StatusOK)
	if err != nil {
		return err
	}
	resp.Body.Close()
	c.w.Header().Set(pathStat, resp.Header.Get(pathStat))
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// fill passes one file to a helper whose volume is named by the file's sha256.
func (g *Guard) fill(c *call) error {
	i, err := g.ours(c, object.RoleHelper)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(i.Mounts, func(m mounted) bool {
		return m.Type == "volume" && m.Destination == object.GuestDir && m.RW
	})
	if at < 0 || c.q.Get("path") != object.GuestDir {
		return refuse("the path %.100q", c.q.Get("path"))
	}
	binary, err := readGuest(c.r.Body)
	if err != nil {
		return refuse("the archive: %v", err)
	}
	sum := sha256.Sum256(binary)
	if hex.EncodeToString(sum[:]) != object.GuestDigest(i.Mounts[at].Name) {
		return refuse("the file isn't the one that the volume is named after")
	}
	packed, err := packGuest(binary)
	if err != nil {
		return err
	}
	q := url.Values{"path": {object.GuestDir}, "noOverwriteDirNonDir": {"true"}}
	resp, err := g.send(c.r.Context(), http.MethodPut, c.version+"/containers/"+i.ID+"/archive", q, bytes.NewReader(packed),
		"application/x-tar", http.StatusOK)
	if err != nil {
		return err
	}
	resp.Body.Close()
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// readGuest reads an archive of the guest binary and nothing else.
func readGuest(r io.Reader) ([]byte, error) {
	tr := tar.NewReader(r)
	h, err := tr.Next()
	if err != nil {
		return nil, err
	}
	if h.Typeflag != tar.TypeReg || h.Name != object.GuestName || h.Size > maxGuest {
		return nil, errors.New("its entry isn't the guest binary")
	}
	binary, err := io.ReadAll(tr)
	if err != nil {
		return nil, err
	}
	if _, err := tr.Next(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one entry")
	}
	return binary, nil
}

func packGuest(binary []byte) ([]byte, error) {
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	err := tw.WriteHeader(&tar.Header{Name: object.GuestName, Mode: 0o555, Size: int64(len(binary)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = tw.Write(binary)
	}
	err = errors.Join(err, tw.Close())
	return buf.Bytes(), err
}
