package compat

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
)

// comparison is what became of a project outside and inside.
type comparison struct {
	Outside, Inside *outcome
	// Differ holds the tests that did not end alike and how, Flaky how many of
	// them did in another round.
	Differ map[string]string
	Flaky  int
}

// confirm keeps only the differences that another round shows too.
func (c *comparison) confirm(again *comparison) {
	before := len(c.Differ)
	maps.DeleteFunc(c.Differ, func(test, _ string) bool { return again.Differ[test] == "" })
	c.Flaky += before - len(c.Differ)
}

// unknown are the differences that the project isn't known for.
func (c *comparison) unknown(p *project) map[string]string {
	unknown := maps.Clone(c.Differ)
	maps.DeleteFunc(unknown, func(test, _ string) bool { return p.Known[test] != "" })
	return unknown
}

const (
	hostTitle  = "# Compatibility\n"
	imageTitle = `# Compatibility in images

As [compatibility.md](compatibility.md), but the sandbox shows an image instead of the host's tools: one with the
Go toolchain, one with Node.js, one with Python, made of packages of the same versions as the host's
(` + "`make images-test`" + `, which also takes each of them in from a registry, an OCI layout, a docker-archive and a Docker Engine).
`
)

const reportHead = `
The tests of public projects, as published in their packages, run outside and inside a
sandbox: ` + "`make compat`" + ` fetches them with the ordinary clients (versions and checksums in
[test/compat](../test/compat)), runs them on the host as an unprivileged user without a network and by ` + "`quavon run`" + `,
and compares how every single test ends: passed, failed or skipped. It fails when one ends otherwise
in two rounds and isn't named below. Times are of one run each and include what the tests compile, from an empty cache
on both sides.

| project | its tests use | tests | passed / failed / skipped inside | outside | inside | differ |
| --- | --- | --- | --- | --- | --- | --- |
`

// row is one project's line of the report.
func row(p *project, c *comparison) string {
	n := c.Inside.Tests.count()
	uses := p.Uses
	if p.Without != "" {
		uses += " (without " + p.Without + ")"
	}
	outside, inside := c.Outside.Took.Seconds(), c.Inside.Took.Seconds()
	return fmt.Sprintf("%s %s (%s) | %s | %d | %d / %d / %d | %.0f s | %.0f s (%.1f×) | %d |\n",
		rowStart(p), p.Version, p.Kind, uses, c.Inside.Tests.total(),
		n["pass"]+n["xpass"], n["fail"], n["skip"]+n["xskip"], outside, inside, inside/outside, len(c.Differ))
}

func rowStart(p *project) string { return "| " + p.Package }

// updateReport replaces the rows of the projects that ran, in the table's order,
// and keeps those of the others.
func updateReport(path, title string, parts map[string]*comparison) error {
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	report := title + reportHead
	lines := strings.SplitAfter(string(old), "\n")
	for i := range projects {
		p := &projects[i]
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, rowStart(p)+" ") })
		switch c := parts[p.Name]; {
		case c != nil:
			report += row(p, c)
		case at >= 0:
			report += lines[at]
		}
	}
	return renameio.WriteFile(path, []byte(report+known()), 0o644)
}

// known is the list of what is known to end otherwise.
func known() string {
	var list strings.Builder
	list.WriteString("\n## What gVisor does otherwise\n\nThese tests pass on Linux and fail in a sandbox:\n\n")
	for i := range projects {
		p := &projects[i]
		for _, test := range slices.Sorted(maps.Keys(p.Known)) {
			fmt.Fprintf(&list, "- `%s`: %s.\n", test, p.Known[test])
		}
	}
	return list.String()
}
