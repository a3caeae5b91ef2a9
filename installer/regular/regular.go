// Package regular reads files of an operator's directory, in which anything may stand
// under the name of a file: a pipe would be waited for, and a large one fill the memory.
package regular

import (
	"errors"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

// ReadFile reads a file, or what a link leads to, of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := bounded.Open(path)
	if errors.Is(err, bounded.ErrNotRegular) {
		return nil, fault.Wrap(errors.Unwrap(err), path, "move it away, and put a file there")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := bounded.ReadAll(f, limit)
	if err != nil {
		return nil, fault.Wrap(err, path+" can't be read", "make it readable, and smaller than that")
	}
	return data, nil
}
