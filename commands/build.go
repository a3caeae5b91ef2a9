package commands

import "github.com/spf13/cobra"

const buildLong = `Make what sandboxes run: images from a declaration, and root file systems from images.`

func newBuild(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Make images and root file systems",
		Long:  buildLong,
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBuildImages(p), newBuildRootfs(p))
	return cmd
}
