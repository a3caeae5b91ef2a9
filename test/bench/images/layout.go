package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// blob is a layer: what is fetched, what it is unpacked, and how it is packed.
type blob struct{ packed, plain, suffix string }

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// layout writes an OCI layout of one image with one layer.
func layout(dir string, l blob) error {
	blobs := filepath.Join(dir, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o700); err != nil {
		return err
	}
	diffID, _, err := sum(l.plain)
	if err != nil {
		return err
	}
	digest, size, err := sum(l.packed)
	if err != nil {
		return err
	}
	if err := os.Link(l.packed, filepath.Join(blobs, digest)); err != nil {
		if err := copyFile(l.packed, filepath.Join(blobs, digest)); err != nil {
			return err
		}
	}
	config, err := put(blobs, "application/vnd.oci.image.config.v1+json", map[string]any{
		"os": "linux", "architecture": runtime.GOARCH, "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + diffID}},
	})
	if err != nil {
		return err
	}
	manifest, err := put(blobs, "application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2, "config": config,
		"layers": []descriptor{{"application/vnd.oci.image.layer.v1.tar" + l.suffix, "sha256:" + digest, size}},
	})
	if err != nil {
		return err
	}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}})
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "index.json"), index, 0o600),
		os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o600))
}

func put(blobs, mediaType string, v any) (descriptor, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	h := sha256.Sum256(raw)
	name := hex.EncodeToString(h[:])
	return descriptor{mediaType, "sha256:" + name, int64(len(raw))}, os.WriteFile(filepath.Join(blobs, name), raw, 0o600)
}

func sum(path string) (digest string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}
