package bundle

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"html/template"
	"net/url"
	"regexp"
	"sort"
	"strings"
	"sync"
)

// shortest is the least length of a secret that is hidden by its value: a shorter one
// would hide half of every text.
const shortest = 4

// Mask hides what nobody else may see.
type Mask struct {
	values *strings.Replacer
}

const hidden = "[secret]"

// NewMask hides secrets by their values, however they are spelled, and the paths of
// homes. Of a secret with several lines each line is one too.
func NewMask(secrets, homes []string) *Mask {
	known := map[string]bool{}
	for _, s := range secrets {
		for line := range strings.Lines(s) {
			for _, spelled := range spellings(strings.TrimSpace(line)) {
				known[spelled] = true
			}
		}
	}
	var all []string
	for s := range known {
		if len(s) >= shortest {
			all = append(all, s)
		}
	}
	// A secret that begins another must not leave the other's rest behind.
	sort.Slice(all, func(i, j int) bool { return len(all[i]) > len(all[j]) || len(all[i]) == len(all[j]) && all[i] < all[j] })
	var pairs []string
	for _, s := range all {
		pairs = append(pairs, s, hidden)
	}
	for _, home := range homes {
		if len(home) > 1 {
			pairs = append(pairs, home, "~")
		}
	}
	return &Mask{values: strings.NewReplacer(pairs...)}
}

// spellings are the forms in which a secret appears in logs, addresses, JSON and
// pages. An address has a password in it.
func spellings(s string) []string {
	if s == "" {
		return nil
	}
	asJSON, _ := json.Marshal(s) // strings can be written
	out := []string{
		s, url.QueryEscape(s), url.PathEscape(s), strings.Trim(string(asJSON), `"`), html.EscapeString(s), template.HTMLEscapeString(s),
		strings.ReplaceAll(template.HTMLEscapeString(s), "+", "&#43;"),
		base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)), hex.EncodeToString([]byte(s)),
	}
	if raw, err := base64.StdEncoding.DecodeString(s); err == nil && len(raw) >= 16 {
		out = append(out, hex.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw), strings.TrimRight(s, "="))
	}
	if plain, err := url.PathUnescape(s); err == nil && plain != s {
		out = append(out, plain)
	}
	if _, rest, ok := strings.Cut(s, "://"); ok {
		if i := strings.LastIndexByte(rest, '@'); i >= 0 {
			_, password, _ := strings.Cut(rest[:i], ":")
			out = append(out, spellings(password)...)
		}
	}
	return out
}

// looks are secrets that are known by their form alone. The first group is kept.
var looks = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@"'<>]*(?:/[^\s/@"'<>]*)*@`),
		regexp.MustCompile(`(?i)((?:authorization|cookie|x-api-key)["']?\s*[:=]\s*["']?(?:bearer |basic )?)[^\s"',;]+`),
		regexp.MustCompile(`(?i)((?:[?&;]|\b)(?:access_|refresh_|auth_|id_)?(?:token|password|passwd|pwd|secret|api_?key|signature|sig)` +
			`["']?\s*[=:]\s*["']?)[^\s"'&;,<>]+`),
		regexp.MustCompile(`()AGE-SECRET-KEY-[0-9A-Z-]+`),
		regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`),
		regexp.MustCompile(`()\b(?:gh[pousr]_|github_pat_|glpat-|npm_|sk-|xox[abprs]-|AKIA)[A-Za-z0-9_-]{12,}`),
		regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`),
		regexp.MustCompile(`(/home/)[^/\s"':;,]+`),
	}
})

// Hide is a text without them. Values go first: what is left of an address with a
// known password is caught by its look.
func (m *Mask) Hide(text string) string {
	text = m.values.Replace(text)
	for _, look := range looks() {
		text = look.ReplaceAllStringFunc(text, func(found string) string {
			kept := look.FindStringSubmatch(found)[1]
			switch {
			case kept == "/home/":
				return "/home/[user]"
			case strings.HasSuffix(kept, "://"):
				return kept + hidden + "@"
			}
			return kept + hidden
		})
	}
	return text
}
