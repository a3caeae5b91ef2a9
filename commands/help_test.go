package commands

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quavon/quavon/commands/iostreams"
)

// A word in backquotes is the name of a flag's value in its help, so a command in
// backquotes would stand there.
func TestFlagsNameTheirValue(t *testing.T) {
	t.Parallel()
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); strings.Contains(name, " ") {
				t.Errorf("%s --%s: its value is called %q", cmd.CommandPath(), f.Name, name)
			}
		})
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(newRoot(&program{
		IO: &iostreams.Streams{}, LookupEnv: func(string) (string, bool) { return "", false }, Log: slog.New(slog.DiscardHandler),
	}))
}
