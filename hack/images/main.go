package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/porpoise-dev/porpoise/internal/release/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// settings are the flags which all commands share.
type settings struct {
	out string
}

// manifestPath is the file that lists what was built.
func (s settings) manifestPath() string { return filepath.Join(s.out, "images.json") }

// remember puts an image into the list of those built.
func (s settings) remember(built image.Built) error {
	manifest, err := image.ReadManifest(s.manifestPath())
	if err != nil {
		return err
	}
	manifest.Put(built)
	return manifest.Write(s.manifestPath())
}

func rootCommand() *cobra.Command {
	var s settings
	root := &cobra.Command{
		Use:   "images",
		Short: "Build, list and push the container images, without docker",
		Long: `Builds the container images of the project without docker or any daemon.

Each image is an OCI layout and an archive of it that containerd, kind and docker load. What was
built is listed in OUT/images.json. The MySQL image is kept in the cache folder: $PORPOISE_CACHE, or
porpoise below $XDG_CACHE_HOME or ~/.cache.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&s.out, "out", "bin/images", "folder for the images and their list")
	root.AddCommand(operatorCommand(&s), mysqlCommand(&s), mysqlHostCommand(), listCommand(&s), manifestsCommand(&s), pushCommand(&s))
	return root
}

func progress() *image.Progress { return image.NewProgress(os.Stderr) }
