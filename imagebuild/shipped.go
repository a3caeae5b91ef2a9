package imagebuild

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quavon/quavon/imagebuild/declare"
	"github.com/quavon/quavon/templates"
)

// Shipped unpacks the declaration of the images that Quavon ships below dir, and
// returns its path. done removes it.
func Shipped(dir string) (path string, done func() error, err error) {
	to, err := os.MkdirTemp(dir, "shipped-*")
	if err != nil {
		return "", nil, err
	}
	done = func() error { return os.RemoveAll(to) }
	images, err := fs.Sub(templates.Images, "images")
	if err == nil {
		err = os.CopyFS(to, images)
	}
	if err != nil {
		return "", nil, errors.Join(err, done())
	}
	return filepath.Join(to, declare.DefaultName), done, nil
}
