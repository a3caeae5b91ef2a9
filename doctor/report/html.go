package report

import (
	_ "embed"
	"html/template"
	"io"
	"sort"
	"strings"

	"github.com/quavon/quavon/doctor"
)

//go:embed page.html
var pageHTML string

// writeHTML writes one file that needs nothing else: no script, font or image, and
// a policy that lets a browser load none.
func writeHTML(w io.Writer, r *doctor.Report, o Options) error {
	// The template escapes what is markup; what turns or hides text is for oneLine.
	hide := oneLine
	if o.Mask != nil {
		hide = func(s string) string { return oneLine(o.Mask(s)) }
	}
	t, err := template.New("page").Funcs(template.FuncMap{"mask": hide}).Parse(pageHTML)
	if err != nil {
		return err
	}
	d := documentOf(r, o)
	var sections []section
	for _, e := range d.Checks {
		if len(sections) == 0 || sections[len(sections)-1].Name != e.Group {
			sections = append(sections, section{Name: e.Group})
		}
		last := &sections[len(sections)-1]
		last.Checks = append(last.Checks, e)
	}
	return t.Execute(w, map[string]any{"Doc": d, "Sections": sections, "Summary": summary(r), "Verdict": verdict(r)})
}

type section struct {
	Name   string
	Checks []entry
}

// shortest is the least length of a secret to hide by its value: a shorter one would
// hide half of the report.
const shortest = 4

// Masker hides secrets by their values, and the path of a home.
func Masker(secrets []string, home string) func(string) string {
	var pairs []string
	known := append([]string(nil), secrets...)
	// A secret that begins another must not leave the other's rest behind.
	sort.SliceStable(known, func(i, j int) bool { return len(known[i]) > len(known[j]) })
	for _, s := range known {
		if len(s) >= shortest {
			pairs = append(pairs, s, "[secret]")
		}
	}
	if home != "" && home != "/" {
		pairs = append(pairs, home, "~")
	}
	return strings.NewReplacer(pairs...).Replace
}
