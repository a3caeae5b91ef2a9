package smoke

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quavon/quavon/runner/guest/probe"
)

const (
	start  = `{"kind":"start","nonce":"n","count":1}` + "\n"
	result = `{"kind":"result","nonce":"n","probe":"A","sub":"s","errno":"EPERM"}` + "\n"
	end    = `{"kind":"end","nonce":"n","count":1}` + "\n"
)

// Whatever isn't a whole run of this test is none at all.
func TestStream(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		{"whole", start + result + end, ""},
		{"nothing", "", "nothing came"},
		{"no end", start + result, "did not come to their end"},
		{"half an end", start + result + strings.TrimSuffix(end, "\n"), "did not come to their end"},
		{"no start", result + end, "there is no start"},
		{"two starts", start + start + result + end, "the start is another run's"},
		{"start of another", strings.Replace(start, `1}`, `2}`, 1) + result + end, "the start is another run's"},
		{"another nonce", start + strings.Replace(result, `"n"`, `"m"`, 1) + end, "isn't of this run"},
		{"wrong count", start + result + strings.Replace(end, `1}`, `2}`, 1), "the end counts 2"},
		{"more after the end", start + result + end + result, "after the end"},
		{"nobody asked", start + strings.Replace(result, `"A"`, `"B"`, 1) + end, "out of bounds"},
		{"no sub", start + strings.Replace(result, `"s"`, `""`, 1) + end, "out of bounds"},
		{"twice", start + result + strings.Replace(result, "EPERM", "", 1) + end, "twice"},
		{"no JSON", start + "panic: help\n" + end, "is no result"},
		{"unknown field", start + strings.Replace(result, `"kind"`, `"more":1,"kind"`, 1) + end, "is no result"},
		{"unknown kind", start + strings.Replace(result, `"result"`, `"verdict"`, 1) + end, "unknown kind"},
		{"not UTF-8", start + strings.Replace(result, "EPERM", "\xff", 1) + end, "isn't of this run"},
		{"two values", start + strings.TrimSuffix(result, "\n") + result + end, "is no result"},
		{"half a value more", start + strings.TrimSuffix(result, "\n") + "}\n" + end, "is no result"},
		{"long answer", start + strings.Replace(result, `"errno":"EPERM"`, `"answer":"`+strings.Repeat("x", probe.MaxAnswer+1)+`"`, 1) + end, "out of bounds"},
		{"long line", start + strings.Repeat("x", 2*probe.MaxLine), "too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 7, len(tt.in) + 1} {
				lines, err := feed(tt.in, size)
				if tt.want == "" && (err != nil || len(lines) != 1) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("in pieces of %d: %v, %v; want %q", size, lines, err, tt.want)
				}
			}
		})
	}
}

// A run may be cut anywhere; what came before a line that isn't as it must be counts for
// as little as that line.
func TestStreamCut(t *testing.T) {
	t.Parallel()
	second := strings.Replace(result, `"s"`, `"t"`, 1)
	for _, tt := range []struct {
		name, in string
		results  int
		whole    bool
		want     string
	}{
		{"nothing", "", 0, false, ""},
		{"whole", start + result + end, 1, true, ""},
		{"no end", start + result + second, 2, false, ""},
		{"half an end", start + result + strings.TrimSuffix(end, "\n"), 1, false, ""},
		{"half a result", start + result + second[:20], 1, false, ""},
		{"half a start", start[:10], 0, false, ""},
		{"half a line more", start + result + end + second[:20], 1, false, ""},
		{"a line of another's", start + result + "panic: help\n" + second, 0, false, "is no result"},
		{"long line", start + result + strings.Repeat("x", 2*probe.MaxLine), 0, false, "too long"},
	} {
		for _, size := range []int{1, 7, len(tt.in) + 1} {
			results, whole, err := fed(tt.in, size).Cut()
			if len(results) != tt.results || whole != tt.whole || (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s in pieces of %d: %v, whole %t, %v", tt.name, size, results, whole, err)
			}
		}
	}
}

func TestStreamBound(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(start)
	for i := range probe.MaxResults + 10 {
		b.WriteString(strings.Replace(result, `"s"`, fmt.Sprintf(`"s%d"`, i), 1))
	}
	if _, err := feed(b.String(), 1<<20); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("any number of results is taken: %v", err)
	}
}

// fed has read a text that came in pieces.
func fed(text string, size int) *Reader {
	r := NewReader("n", []string{"A"})
	for len(text) > 0 {
		n := min(size, len(text))
		_, _ = r.Write([]byte(text[:n])) // never fails
		text = text[n:]
	}
	return r
}

func feed(text string, size int) ([]probe.Line, error) { return fed(text, size).Whole() }

// FuzzStream shows that no output grows without bound, that what is taken is in bounds
// however it comes in pieces, and that a whole run reads the same as one that may be cut.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{start + result + end, start + result + result[:9], start, result, end, "", "{}\n", start + "\x00\n"} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = max(1, size%512)
		lines, err := feed(text, size)
		again, err2 := feed(text, len(text)+1)
		if (err == nil) != (err2 == nil) || len(lines) != len(again) {
			t.Fatalf("in pieces %d lines, %v; whole %d, %v", len(lines), err, len(again), err2)
		}
		results, whole, err3 := fed(text, size).Cut()
		if whole != (err == nil) || whole && len(results) != len(lines) || err3 != nil && len(results) > 0 || len(results) > probe.MaxResults {
			t.Fatalf("cut: %d lines, whole %t, %v; whole: %d, %v", len(results), whole, err3, len(lines), err)
		}
		for _, l := range results {
			if l.Kind != probe.KindResult || l.Probe != "A" || l.Nonce != "n" || len(l.Answer) > probe.MaxAnswer {
				t.Errorf("taken: %+v", l)
			}
			if _, err := json.Marshal(l); err != nil {
				t.Error(err)
			}
		}
	})
}
