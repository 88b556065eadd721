package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/porpoise-dev/porpoise/internal/release/image"
)

func operatorCommand(s *settings) *cobra.Command {
	spec := image.OperatorSpec{}
	tag := ""
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Build the operator image from binaries (make build)",
		Long: `Builds the operator image from the static binaries manager, agent and kubectl-porpoise.

The same binaries give the same digest on every machine. With the tag "dev" the image gets a second
tag that carries its digest, and that one is deployed, so that a new build is rolled out.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			p := progress()
			img, err := image.Operator(spec)
			if err != nil {
				return err
			}
			built, err := image.SaveOperator(s.out, img, tag, spec.Version)
			if err != nil {
				return err
			}
			p.Printf("operator image: %s (%s)", built.Ref, built.Archive())
			return s.remember(built)
		},
	}
	cmd.Flags().StringVar(&spec.BinDir, "bin", "bin", "folder with the binaries")
	cmd.Flags().StringVar(&spec.Arch, "arch", runtime.GOARCH, "architecture of the binaries: amd64 or arm64")
	cmd.Flags().StringVar(&spec.Version, "version", "dev", "version of the product, for the image's labels")
	cmd.Flags().StringVar(&spec.Revision, "revision", "unknown", "git commit, for the image's labels")
	cmd.Flags().StringVar(&tag, "tag", "dev", "tag of the image")
	return cmd
}

func mysqlCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "mysql",
		Short: "Build the MySQL image for tests from Debian's packages (about a minute, then cached)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cache, err := image.CacheDir()
			if err != nil {
				return err
			}
			p := progress()
			built, err := image.MySQL(cmd.Context(), image.DefaultMySQL(), cache, p)
			if err != nil {
				return err
			}
			p.Printf("MySQL image: %s (%s)", built.Ref, built.Archive())
			return s.remember(built)
		},
	}
}

func mysqlHostCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mysql-host",
		Short: "Unpack MySQL for tests that start mysqld on this machine; prints the folder of its programs",
		Long: `Unpacks the root file system of the MySQL image and prints the folder that holds mysqld, mysql,
mysqladmin, mysqlbinlog and mysqldump, ready to run on this machine whatever its C library. Tests of the
tier "mysql" take the folder from $PORPOISE_MYSQL_BIN.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cache, err := image.CacheDir()
			if err != nil {
				return err
			}
			dir, err := image.HostMySQL(cmd.Context(), image.DefaultMySQL(), cache, progress())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
			return err
		},
	}
}
