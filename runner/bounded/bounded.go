// Package bounded reads whole files and streams that must not be larger than
// their reader allows: what is longer is an error, not cut.
package bounded

import (
	"fmt"
	"io"
	"os"
)

// ReadAll reads r to its end, which must come within limit bytes.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}
	return data, err
}

// ReadFile reads the file at path, which must have at most limit bytes. It may be a
// pipe, as a shell's <(command) is.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := ReadAll(f, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}
