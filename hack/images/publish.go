package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/porpoise-dev/porpoise/internal/release/image"
)

func listCommand(s *settings) *cobra.Command {
	format := ""
	only := ""
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the images that were built",
		Long: `Lists the images that were built. Formats: table, json, ref (the references to deploy), archive (the
paths of the archives to load into a node), version (of the software in them).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manifest, err := image.ReadManifest(s.manifestPath())
			if err != nil {
				return err
			}
			if only != "" {
				built, err := manifest.Find(only)
				if err != nil {
					return err
				}
				manifest.Images = []image.Built{built}
			}
			return printImages(cmd, manifest, format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table, json, ref, archive or version")
	cmd.Flags().StringVar(&only, "only", "", "list one image: operator or mysql")
	return cmd
}

func printImages(cmd *cobra.Command, manifest image.Manifest, format string) error {
	out := cmd.OutOrStdout()
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(manifest)
	case "ref", "archive", "version":
		for _, b := range manifest.Images {
			line := map[string]string{"ref": b.DeployRef(), "archive": b.Archive(), "version": b.Version}[format]
			if _, err := fmt.Fprintln(out, line); err != nil {
				return err
			}
		}
		return nil
	case "table":
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "NAME\tVERSION\tREFERENCE\tDIGEST")
		for _, b := range manifest.Images {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", b.Name, b.Version, b.DeployRef(), b.Digest)
		}
		return w.Flush()
	}
	return fmt.Errorf("flag --output: %q: want table, json, ref, archive or version", format)
}

func pushCommand(s *settings) *cobra.Command {
	var opts image.PushOptions
	cmd := &cobra.Command{
		Use:   "push --registry HOST[:PORT][/PATH]",
		Short: "Push the images that were built to a registry",
		Long: `Pushes the images that were built to a registry, with the credentials of your docker configuration,
and notes the references by digest in the list of images: deploy uses them from then on.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manifest, err := image.ReadManifest(s.manifestPath())
			if err != nil {
				return err
			}
			if len(manifest.Images) == 0 {
				return image.ErrNotBuilt
			}
			p := progress()
			for _, built := range manifest.Images {
				p.Printf("pushing %s to %s", built.Ref, opts.Registry)
				built.Pushed, err = image.Push(cmd.Context(), built, opts)
				if err != nil {
					return err
				}
				if err := s.remember(built); err != nil {
					return err
				}
				_, _ = fmt.Fprintln(cmd.OutOrStdout(), built.Pushed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&opts.Registry, "registry", "", "registry and path to push to")
	cmd.Flags().BoolVar(&opts.Insecure, "insecure", false, "allow plain HTTP (never needed for localhost)")
	_ = cmd.MarkFlagRequired("registry")
	return cmd
}
