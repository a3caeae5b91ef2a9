package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quavon/quavon/runner/fault"
)

type manOptions struct {
	*program
	Root *cobra.Command
	Dir  string
}

func newMan(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a directory",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeManPages(&manOptions{program: p, Root: cmd.Root(), Dir: args[0]})
		},
	}
}

// writeManPages writes one page per command. It is written here rather than taken
// from cobra/doc because that would make every start of quavon slower.
func writeManPages(o *manOptions) error {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return fault.Wrap(err, "can't write the manual pages", "name a directory that you can write")
	}
	for _, cmd := range commandsBelow(o.Root) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		if err := os.WriteFile(filepath.Join(o.Dir, name), []byte(manPage(cmd)), 0o644); err != nil {
			return fault.Wrap(err, "can't write a manual page", "name a directory that you can write")
		}
	}
	return nil
}

// commandsBelow lists cmd and every command below it that can be run.
func commandsBelow(cmd *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			list = append(list, commandsBelow(c)...)
		}
	}
	return list
}

func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	section := func(name string) { fmt.Fprintf(&b, ".SH %s\n", name) }
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"Quavon\"\n", strings.ToUpper(name), "quavon "+ownVersion())
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", troff(name), troff(cmd.Short))
	section("SYNOPSIS")
	fmt.Fprintf(&b, ".B %s\n", troff(cmd.UseLine()))
	if cmd.Long != "" {
		section("DESCRIPTION")
		b.WriteString(strings.ReplaceAll(troff(cmd.Long), "\n\n", "\n.PP\n") + "\n")
	}
	if cmd.HasAvailableFlags() {
		section("OPTIONS")
		cmd.Flags().VisitAll(func(f *pflag.Flag) { manFlag(&b, f) })
	}
	if cmd.Example != "" {
		section("EXAMPLES")
		fmt.Fprintf(&b, ".nf\n%s\n.fi\n", troff(cmd.Example))
	}
	if cmd.Name() == "run" {
		section("EXIT STATUS")
		fmt.Fprintf(&b, ".nf\n%s.fi\n", troff(exitCodesHelp))
	}
	return b.String()
}

func manFlag(b *strings.Builder, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	kind, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if kind != "" {
		name += " " + kind
	}
	if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" && f.DefValue != "0" {
		usage += " (default " + f.DefValue + ")"
	}
	fmt.Fprintf(b, ".TP\n.B %s\n%s\n", troff(name), troff(usage))
}

// troff escapes what the formatter would take for its own.
func troff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "–", `\(en`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
