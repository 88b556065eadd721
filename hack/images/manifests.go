package main

import (
	"github.com/spf13/cobra"

	"github.com/porpoise-dev/porpoise/internal/release/image"
	"github.com/porpoise-dev/porpoise/internal/release/install"
)

func manifestsCommand(s *settings) *cobra.Command {
	root := ""
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print the manifests that install the operator with the images that were built",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manifest, err := image.ReadManifest(s.manifestPath())
			if err != nil {
				return err
			}
			text, err := install.Render(root, manifest)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&root, "root", ".", "folder of the work tree")
	return cmd
}
