package compat

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

const reportHead = `# Compatibility

The tests of public projects, as published in their packages, run outside and inside a
sandbox: ` + "`make compat`" + ` fetches them with the ordinary clients (versions and checksums in
[test/compat](../test/compat)), runs them on the host as an unprivileged user and by ` + "`quavon run`" + `,
and fails unless every single test ends alike: passed, failed or skipped. Times include what the
tests compile, from an empty cache on both sides.

| project | its tests use | tests | passed / failed / skipped | outside | inside | differ |
| --- | --- | --- | --- | --- | --- | --- |
`

// row is one project's line of the report.
func row(p *project, outside, inside *outcome, differ int) string {
	n := inside.Tests.count()
	uses := p.Uses
	if p.Without != "" {
		uses += " (without " + p.Without + ")"
	}
	return fmt.Sprintf("| %s %s (%s) | %s | %d | %d / %d / %d | %.0f s | %.0f s (%.1f×) | %d |\n",
		p.Package, p.Version, p.Kind, uses, inside.Tests.total(),
		n["pass"]+n["xpass"], n["fail"], n["skip"]+n["xskip"],
		outside.Took.Seconds(), inside.Took.Seconds(), ratio(inside.Took, outside.Took), differ)
}

func ratio(a, b time.Duration) float64 { return a.Seconds() / b.Seconds() }

// updateReport replaces the rows of the projects that ran, in the table's order,
// and keeps those of the others.
func updateReport(path string, rows map[string]string) error {
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	report := reportHead
	lines := strings.SplitAfter(string(old), "\n")
	for i := range projects {
		p := &projects[i]
		start := "| " + p.Package + " "
		switch at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, start) }); {
		case rows[p.Name] != "":
			report += rows[p.Name]
		case at >= 0:
			report += lines[at]
		}
	}
	return renameio.WriteFile(path, []byte(report), 0o644)
}
