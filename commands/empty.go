package commands

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quavon/quavon/runner/fault"
)

// refuseEmpty refuses flags and arguments that are empty. A shell makes one of a variable
// that isn't set, as in --workspace "$DIR", and it would mean what nobody typed: the
// current directory, this host's tools in place of an image, no file at all. A job's own
// command may have empty arguments.
func refuseEmpty(cmd *cobra.Command, args []string) error {
	if own := cmd.Name() == "run" || cmd.Name() == "submit"; !own && slices.Contains(args, "") {
		return &usageError{cmd, fault.New("an argument is empty", "write its value, or leave it out")}
	}
	var empty []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if isEmpty(f.Value) {
			empty = append(empty, f.Name)
		}
	})
	if len(empty) == 0 {
		return nil
	}
	return &usageError{cmd, fault.New("--"+empty[0]+" is empty", "write a value behind it, or leave the flag out")}
}

func isEmpty(v pflag.Value) bool {
	list, ok := v.(pflag.SliceValue)
	if !ok {
		return v.String() == ""
	}
	return len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
}
