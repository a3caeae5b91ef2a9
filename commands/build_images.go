package commands

import (
	"github.com/spf13/cobra"

	"github.com/quavon/quavon/imagebuild/declare"
)

type buildImagesOptions struct {
	*program
	File string
}

func newBuildImages(p *program) *cobra.Command {
	o := &buildImagesOptions{program: p}
	cmd := &cobra.Command{
		Use:   "images [NAME...]",
		Short: "Build the images that images.yaml declares, and lock them",
		RunE: func(*cobra.Command, []string) error {
			_, err := declare.Read(o.File)
			return err
		},
	}
	cmd.Flags().StringVarP(&o.File, "file", "f", declare.DefaultName, "declaration of the images")
	return cmd
}
