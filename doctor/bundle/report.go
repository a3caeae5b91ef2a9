package bundle

import (
	"bytes"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/doctor/report"
)

// AddReport keeps a report as a page, as text and for programs. Its texts are masked
// before they are written, so that no form's own quoting hides a secret from the mask.
func (b *Bundle) AddReport(r *doctor.Report, version string) error {
	masked := *r
	masked.Results = nil
	for _, x := range r.Results {
		x.Finding = b.hideIn(x.Finding)
		masked.Results = append(masked.Results, x)
	}
	for _, form := range []struct{ format, name, about string }{
		{"text", "report.txt", "what the doctor found"},
		{"json", "report.json", "the same, for programs"},
		{"html", "report.html", "the same, as a page"},
	} {
		var out bytes.Buffer
		if err := report.Write(&out, form.format, &masked, report.Options{Version: version}); err != nil {
			return err
		}
		b.Add(form.name, form.about, out.String())
	}
	return nil
}

func (b *Bundle) hideIn(f doctor.Finding) doctor.Finding {
	f.Message, f.Fix, f.Details = b.mask.Hide(f.Message), b.mask.Hide(f.Fix), b.hideAll(f.Details)
	var parts []doctor.Part
	for _, p := range f.Parts {
		p.Subject, p.Finding = b.mask.Hide(p.Subject), b.hideIn(p.Finding)
		parts = append(parts, p)
	}
	f.Parts = parts
	return f
}

func (b *Bundle) hideAll(texts []string) []string {
	var out []string
	for _, s := range texts {
		out = append(out, b.mask.Hide(s))
	}
	return out
}
