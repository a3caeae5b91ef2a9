package commands

import (
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
