package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/porpoise-dev/porpoise/internal/agent"
)

// terminationLog is where Kubernetes reads a container's termination message.
const terminationLog = "/dev/termination-log"

func validateCommand() *cobra.Command {
	var output, mysqld string
	cmd := &cobra.Command{
		Use: "validate-config", Short: "Ask mysqld whether it takes the configuration", Args: cobra.NoArgs,
		Long: `validate-config renders the option file as for an instance and has this image's mysqld check it, without starting a
server. The environment is that of run, and PORPOISE_EXPECT_VERSION, the series (9.7) or release (9.7.4) that mysqld
must have.

It writes one JSON document, {"ok", "reason", "message", "version"}, to the termination log, and exits with 0 also when
the configuration is refused; another exit code means that it could not check.
Reasons: ConfigRejected, ImageWithoutMysqld, VersionMismatch.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := agent.ConfigFromEnv(os.Getenv)
			if err != nil {
				return err
			}
			cfg.Mysqld = mysqld
			outcome, err := agent.Validate(cmd.Context(), cfg, os.Getenv(agent.EnvExpectVersion))
			if err != nil {
				return err
			}
			text, err := json.Marshal(outcome)
			if err != nil {
				return fmt.Errorf("encode the outcome: %w", err)
			}
			if output == "-" {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), string(text))
				return err
			}
			if err := os.WriteFile(output, text, 0o644); err != nil {
				return fmt.Errorf("write the outcome: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&output, "output", terminationLog, "file for the outcome; - is stdout")
	cmd.Flags().StringVar(&mysqld, "mysqld", agent.DefaultConfig().Mysqld, "server binary, looked up in PATH")
	return cmd
}
