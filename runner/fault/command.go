package fault

import "strings"

// Command is what an operator types, whole, in the quotes that a hint has commands in.
func Command(words ...string) string { return "`" + Words(words...) + "`" }

// Words are a command as a shell takes it.
func Words(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Word(w)
	}
	return strings.Join(quoted, " ")
}

// Word puts what a shell would not read as one plain word in quotes.
func Word(s string) string {
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,=-"
