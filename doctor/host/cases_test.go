package host

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reported are the cases that were handed in.
var reported = map[string][]string{
	"DJ": {"01", "02", "04", "05", "07", "08", "09", "10", "11", "12", "13", "14", "16", "17", "18", "20", "21"},
	"DK": {"01", "02", "03", "04", "05", "06", "09", "10", "11"},
	"KV": {"01", "03", "04"},
	"CG": {"01", "02", "03", "05"},
	"GV": {"01", "03", "04", "05", "06", "07", "09", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20"},
	"NW": {"01", "02", "03", "04", "05", "06", "07", "08"},
	"RQ": {"01", "02", "04", "05", "06"},
}

// TestCasesAreListed compares docs/doctor-cases.md with the tree, both ways.
func TestCasesAreListed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/doctor-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z]{2}-\d\d) \| .* \| ([^|]*) \|$`).FindAllStringSubmatch(string(page), -1) {
		listed[m[1]] = true
		for where := range strings.SplitSeq(m[2], ", ") {
			if why := missingTest(m[1], strings.Trim(where, "`")); why != "" {
				t.Errorf("%s: %s", m[1], why)
			}
		}
	}
	n := 0
	for _, group := range sortedKeys(reported) {
		n += len(reported[group])
		for _, number := range reported[group] {
			if !listed[group+"-"+number] {
				t.Errorf("%s-%s isn't listed", group, number)
			}
		}
	}
	if len(listed) != n {
		t.Errorf("%d cases are listed, %d were handed in", len(listed), n)
	}
	files, _ := filepath.Glob("testdata/cases/*.txtar")
	for _, file := range files {
		m := regexp.MustCompile(`^([A-Z]{2})-(\d\d)-`).FindStringSubmatch(filepath.Base(file))
		if m != nil && reported[m[1]] != nil && !slices.Contains(reported[m[1]], m[2]) {
			t.Errorf("%s is of no case", file)
		}
	}
}

// missingTest says what isn't there of a test "host", or "path:function".
func missingTest(id, where string) string {
	if where == "host" {
		if files, _ := filepath.Glob("testdata/cases/" + id + "-*.txtar"); len(files) == 0 {
			return "there are no files testdata/cases/" + id + "-*"
		}
		return ""
	}
	file, function, _ := strings.Cut(where, ":")
	data, err := os.ReadFile("../../" + file)
	if err != nil {
		return err.Error()
	}
	if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + regexp.QuoteMeta(function) + `\(`).Match(data) {
		return file + " has no function " + function
	}
	return ""
}
