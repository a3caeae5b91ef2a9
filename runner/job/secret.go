package job

import (
	"fmt"
	"log/slog"
	"strings"
)

// Secret is a credential that steps with a network use without seeing it: they find
// a placeholder in the environment variable Name, and the egress proxy puts the
// value in its place where the binding says, and nowhere else.
type Secret struct {
	// Name is the environment variable's.
	Name string `json:"name"`
	// URL is SCHEME://HOST[:PORT][/PATH]: the exact scheme, host and port, and what a
	// path begins with, whole segments.
	URL string `json:"url"`
	// Header is the one field that the value is put into.
	Header string `json:"header"`
	// Value is in no JSON form of a Spec; runner/task carries it sealed.
	Value Value `json:"-"`
}

// Value is a text that no log, error or document shows. It is held by a pointer,
// because fmt would print a string in a field that isn't exported.
type Value struct{ text *string }

// NewValue keeps a text.
func NewValue(text string) Value { return Value{&text} }

// Reveal is the text, "" of the zero Value.
func (v Value) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// redacted stands for a value wherever one is shown.
const redacted = "[secret]"

// String implements fmt.Stringer.
func (Value) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (Value) GoString() string { return redacted }

// Format implements fmt.Formatter, for every verb.
func (Value) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(redacted)) }

// MarshalText implements encoding.TextMarshaler, which JSON uses too.
func (Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer.
func (Value) LogValue() slog.Value { return slog.StringValue(redacted) }

// Bounds of a job's secrets. A shorter value couldn't be removed from responses
// without harm to them.
const (
	maxSecrets     = 16
	minSecretValue = 8
	maxSecretValue = 4 << 10
	maxSecretURL   = 4096
	maxSecretField = 128
)

// Characters of names. They are looked for without patterns, which each sandbox's
// agent would compile at its start.
const (
	digits  = "0123456789"
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

func isVariable(name string) bool {
	return name != "" && len(name) <= maxSecretField && strings.Trim(name, letters+digits+"_") == "" && !strings.Contains(digits, name[:1])
}

func isField(name string) bool {
	return name != "" && strings.Trim(name, letters+digits+"!#$%&'*+.^_`|~-") == ""
}

// validateSecrets checks their form; what a URL means is the door's business. No
// error shows a value.
func (s Spec) validateSecrets() error {
	if len(s.Secrets) == 0 {
		return nil
	}
	if len(s.Secrets) > maxSecrets {
		return reject("secrets", fmt.Sprintf("are more than %d", maxSecrets), "leave some out")
	}
	if len(s.Steps) == 0 || s.Steps[0].Network != NetworkRegistries {
		return reject("secrets", "are given without a step that has a network", "open the network of the steps that use them")
	}
	seen := map[string]bool{}
	for i, x := range s.Secrets {
		field := fmt.Sprintf("secrets[%d]", i)
		if why, hint := x.check(); why != "" {
			return reject(field, why, hint)
		}
		if seen[x.Name] {
			return reject(field, "has the name of another", "give each a name of its own")
		}
		seen[x.Name] = true
	}
	return s.validateNoPlainSecret(seen)
}

// validateNoPlainSecret refuses a variable of a step that would take the place of a
// secret's: it most likely is the value itself.
func (s Spec) validateNoPlainSecret(names map[string]bool) error {
	for i, st := range s.Steps {
		for _, e := range st.Env {
			if k, _, _ := strings.Cut(e, "="); names[k] {
				return reject(fmt.Sprintf("steps[%d].env", i), fmt.Sprintf("sets %s, which is a secret's name", k),
					"leave it out: the step finds a placeholder there")
			}
		}
	}
	return nil
}

// check says what is wrong with a secret, and what to do.
func (x Secret) check() (why, hint string) {
	value := x.Value.Reveal()
	switch {
	case !isVariable(x.Name):
		return fmt.Sprintf("has the name %.40q, which no environment variable can have", x.Name), "use letters, digits and _"
	case x.URL == "" || len(x.URL) > maxSecretURL:
		return "has no URL, or one that is too long", "write https://HOST[:PORT][/PATH]"
	case len(x.Header) > maxSecretField || !isField(x.Header):
		return "has no header's name", "write one such as Authorization"
	case len(value) < minSecretValue || len(value) > maxSecretValue:
		return fmt.Sprintf("has a value of %d bytes", len(value)), fmt.Sprintf("a value has %d to %d", minSecretValue, maxSecretValue)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "has a value with a control character or more than one line", "give the value alone"
	}
	return "", ""
}
