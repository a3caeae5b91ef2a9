// Package cache is where tests and the scripts that serve them keep what is made once: as
// for make, QUAVON_CACHE, else quavon in the user's cache.
package cache

import (
	"os"
	"path/filepath"
)

// Dir is the cache's directory, which need not be there.
func Dir() (string, error) {
	if dir := os.Getenv("QUAVON_CACHE"); dir != "" {
		return dir, nil
	}
	base, err := os.UserCacheDir()
	return filepath.Join(base, "quavon"), err
}
