package commands

import "github.com/spf13/cobra"

const buildLong = `Make what sandboxes run: images from a declaration, root file systems from images, and one
file with all of it for a host without a network.`

func newBuild(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Make images, root file systems and offline bundles",
		Long:  buildLong,
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBuildImages(p), newBuildRootfs(p), newBuildBundle(p))
	return cmd
}
