package bounded_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/bounded"
)

func TestReadFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := bounded.ReadFile(path, 5); err != nil || string(data) != "12345" {
		t.Errorf("within the limit: %q, %v", data, err)
	}
	data, err := bounded.ReadFile(path, 4)
	if err == nil || len(data) != 0 || !strings.Contains(err.Error(), path) {
		t.Errorf("over the limit: %q, %v", data, err)
	}
}
