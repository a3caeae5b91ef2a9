// Package regular reads files of an operator's directory, in which anything may stand
// under the name of a file: a pipe would be waited for, and a large one fill the memory.
package regular

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

// ReadFile reads a file, or what a link leads to, of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fault.New(fmt.Sprintf("%s is no file (%s)", path, info.Mode().Type()), "move it away, and put a file there")
	}
	data, err := bounded.ReadAll(f, limit)
	if err != nil {
		return nil, fault.Wrap(err, path+" can't be read", "make it readable, and smaller than that")
	}
	return data, nil
}
