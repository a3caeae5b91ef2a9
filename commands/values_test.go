package commands

import "testing"

func TestByteSize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{
		"0": 0, "512": 512, "512b": 512, "1k": 1024, "1K": 1024, "1KB": 1024, "1KiB": 1024, "1.5M": 3 << 19, "4GiB": 4 << 30, "2 g": 2 << 30, "1t": 1 << 40,
	} {
		var b byteSize
		if err := b.Set(in); err != nil || int64(b) != want {
			t.Errorf("%q: got %d, %v; want %d", in, b, err, want)
		}
	}
	for _, in := range []string{"", "x", "-1", "1x", "1kx", "1bb", "k", "NaN", "Inf", "1e30g", "9999999t", "1 1"} {
		var b byteSize
		if err := b.Set(in); err == nil {
			t.Errorf("%q: accepted as %d", in, b)
		}
	}
	for n, want := range map[int64]string{0: "0", 100: "100", 1024: "1KiB", 4 << 30: "4GiB", 1<<30 + 1024: "1048577KiB"} {
		if got := formatSize(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
