package commands

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quavon/quavon/docs"
	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/host"
)

// TestDoctorDocs keeps the registry and docs/doctor.md in step, both ways.
func TestDoctorDocs(t *testing.T) {
	t.Parallel()
	o := &doctorOptions{}
	all := slices.Concat(host.Checks(host.Config{}), o.valkeyChecks(), (&localSandbox{doctorOptions: o}).checks())
	if err := doctor.Validate(all); err != nil {
		t.Fatal(err)
	}
	var codes, headings []string
	for _, c := range all {
		codes = append(codes, c.Code)
		if text := section(docs.Doctor, c.Code); !strings.Contains(text, "**Fix.**") || len(text) < 40 {
			t.Errorf("%s: the section %q has no fix", c.Code, text)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^#+ (QD\d+)$`).FindAllStringSubmatch(docs.Doctor, -1) {
		headings = append(headings, m[1])
	}
	if !slices.Equal(codes, headings) {
		t.Errorf("codes %v\nheadings %v", codes, headings)
	}
}

// goldens are the files that have checks' words for what doesn't hold.
const goldens = "../doctor/host/testdata/golden/CODE.txtar ../doctor/valkey/testdata/CODE-*.golden ../doctor/fleet/testdata/CODE-*.golden testdata/doctor/fails/CODE-*.txt"

// TestEveryCodeFailsSomewhere keeps a check from having no golden file in which it fails,
// with message and fix. A warning counts for those that do no more.
func TestEveryCodeFailsSomewhere(t *testing.T) {
	t.Parallel()
	o := &doctorOptions{}
	for _, c := range slices.Concat(host.Checks(host.Config{}), o.valkeyChecks(), (&localSandbox{doctorOptions: o}).checks()) {
		var files []string
		for pattern := range strings.FieldsSeq(goldens) {
			found, err := filepath.Glob(strings.ReplaceAll(pattern, "CODE", c.Code))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, found...)
		}
		shown := slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && regexp.MustCompile(`(?m)^ *(fail|warn)(:| +`+c.Code+`) .*\S`).Match(text) && regexp.MustCompile(`(?m)^ *fix: \S`).Match(text)
		})
		if !shown {
			t.Errorf("no golden file shows %s (%s) failing: %v", c.Code, c.Name, files)
		}
	}
}
