// Package dockerdtest has files that people gave dockerd as its daemon.json, among them
// all that were measured with 26.1.5: what it reads, what it refuses, and what only its
// own --validate lets through.
package dockerdtest

import (
	"embed"
	"path"
	"strings"
)

//go:embed daemonjson
var files embed.FS

// Files are the contents by name, without .json.
func Files() (map[string][]byte, error) {
	entries, err := files.ReadDir("daemonjson")
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, e := range entries {
		data, err := files.ReadFile(path.Join("daemonjson", e.Name()))
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(e.Name(), ".json")] = data
	}
	return all, nil
}
