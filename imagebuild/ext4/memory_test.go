package ext4

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// TestMemory builds an image of many files in a process of its own, whose peak
// must stay below 64 MiB and 300 bytes for each entry.
func TestMemory(t *testing.T) {
	const child = "QUAVON_EXT4_MEMORY"
	n := 300_000
	if os.Getenv(child) != "" {
		build(t, Options{}, manyEntries(n))
		status, err := os.ReadFile("/proc/self/status")
		must(t, err)
		t.Logf("%s", status)
		return
	}
	t.Parallel()
	cmd := exec.Command(withoutRace(t), "-test.run=^TestMemory$", "-test.v")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	must(t, err)
	// Not the child's rusage: that starts with its parent's peak.
	_, status, _ := strings.Cut(string(out), "VmHWM:")
	var peak int64
	_, err = fmt.Sscanf(status, "%d kB", &peak)
	must(t, err)
	peak <<= 10
	limit := int64(64<<20 + 300*n)
	t.Logf("%d MiB for %d entries, %d bytes each beyond 16 MiB", peak>>20, n, (peak-16<<20)/int64(n))
	if peak > limit {
		t.Errorf("peak of %d bytes, want at most %d", peak, limit)
	}
}

// withoutRace is this test's program, built anew if it has the race detector,
// which needs memory of its own.
func withoutRace(t *testing.T) string {
	info, ok := debug.ReadBuildInfo()
	if !ok || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return os.Args[0]
	}
	program := filepath.Join(t.TempDir(), "test")
	out, err := exec.Command("go", "test", "-c", "-o", program, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// manyEntries is a tar of n small files in directories of a thousand.
func manyEntries(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		var err error
		for k := 0; k < n && err == nil; k++ {
			err = tw.WriteHeader(&tar.Header{Name: fmt.Sprintf("directory%d/some-file-name%d", k/1000, k), Size: 1, Mode: 0o600})
			if err == nil {
				_, err = tw.Write([]byte("x"))
			}
		}
		_ = w.CloseWithError(cmpErr(err, tw.Close))
	}()
	return r
}
