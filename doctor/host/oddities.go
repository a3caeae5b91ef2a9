package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quavon/quavon/runner/fault"
)

// oddities are what is surprising about a .env file, and what to do about it.
type oddities struct {
	found, fixes []string
	// delete are addresses of lines, as sed takes them.
	delete []string
}

func (o *oddities) add(what, fix string) {
	o.found = append(o.found, what)
	if !slices.Contains(o.fixes, fix) {
		o.fixes = append(o.fixes, fix)
	}
}

// without is an oddity that is gone when a setting's lines are.
func (o *oddities) without(what string, settings ...envSetting) {
	o.found = append(o.found, what)
	for _, s := range settings {
		lines := fmt.Sprint(s.line)
		if n := strings.Count(strings.TrimSuffix(s.raw, "\n"), "\n"); n > 0 {
			lines += fmt.Sprintf(",%d", s.line+n)
		}
		o.delete = append(o.delete, lines+"d")
	}
}

// twice is a name that is set more often than once: compose takes the last.
func (o *oddities) twice(key string, all []envSetting) {
	if len(all) < 2 {
		return
	}
	var lines []string
	for _, s := range all {
		lines = append(lines, fmt.Sprint(s.line))
	}
	o.without(fmt.Sprintf("%s is on lines %s: only the last counts", key, strings.Join(lines, ", ")), all[:len(all)-1]...)
}

// fix deletes lines first, all at once: by their numbers.
func (o *oddities) fix(file string) string {
	fixes := o.fixes
	if len(o.delete) > 0 {
		fixes = slices.Insert(slices.Clone(fixes), 0, "run "+fault.Command("sed", "-i", strings.Join(o.delete, ";"), file))
	}
	return strings.Join(fixes, "; ")
}

// surprises adds the ways in which the setting isn't what it looks like.
func (s *envSetting) surprises(o *oddities) {
	text, quote := s.spelling()
	say := func(when bool, what, fix string) {
		if when {
			o.add(fmt.Sprintf("line %d, %s: %s", s.line, s.key, what), fix)
		}
	}
	if s.key == "" {
		o.without(fmt.Sprintf("line %d: a name alone at the very end, which compose takes for the value of nothing", s.line), *s)
		return
	}
	quoted := fmt.Sprintf("write %s='value'", s.key)
	inFile := fmt.Sprintf("take %s out, and put the secret into a file of mode 0600: %[1]s_FILE=/PATH", s.key)
	say(strings.Contains(s.raw, s.key+"://"), "an address is taken for a setting and its value", "write a name before it: NAME='value'")
	rest := ""
	if quote != 0 {
		rest = afterQuote(text, quote)
	}
	// Quotes would make a secret one that others read otherwise.
	if s.isSecret() && (quote != 0 || strings.ContainsRune(text, '$') || strings.Contains(text, " #")) {
		quoted = inFile
	}
	for _, name := range s.unset {
		say(true, "$"+name+" isn't set, and is cut out: 'single quotes' keep a $", quoted)
	}
	say(rest != "" && rest[0] != '#', "what follows the closing quote is dropped", quoted)
	say(quote == 0 && s.isSecret() && strings.Contains(text, " #"), "what follows # is a comment, not a part of the secret", quoted)
	say(quote == '\'' && strings.Contains(s.value, "$$"), "both of $$ are kept in 'single quotes'", "write one $ in 'single quotes'")
	say(strings.ContainsRune(s.value, '\r'), "there is a carriage return in it: lines must end in a line feed",
		"take the carriage return out of "+s.key)
	say(s.value != strings.TrimSpace(s.value), "the value begins or ends with white space",
		"take the white space at the ends of "+s.key+" away")
	say(s.isSecret() && (quote != 0 || strings.ContainsRune(text, '$')), "a secret that `docker --env-file` and a shell read otherwise "+
		"than compose: keep it in a file", inFile)
}
