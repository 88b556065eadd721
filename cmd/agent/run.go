package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/porpoise-dev/porpoise/internal/agent"
)

func runCommand() *cobra.Command {
	defaults := agent.DefaultConfig()
	flags := defaults
	cmd := &cobra.Command{
		Use: "run", Short: "Supervise mysqld until SIGTERM", Args: cobra.NoArgs,
		Long: `run supervises mysqld until SIGTERM. The pod's environment says who it is:

  POD_NAMESPACE          namespace of the cluster
  PORPOISE_CLUSTER       name of the MySQLCluster
  PORPOISE_INSTANCE      name of the instance, CLUSTER-ORDINAL; server_id is ORDINAL+1
  PORPOISE_MEMORY_LIMIT  memory limit of the container in bytes; absent: none

At SIGTERM a primary is first made read-only. Only when that has succeeded, with no commit waiting for a replica's
acknowledgement, mysqld is shut down cleanly; else it is killed after --fence-bound, since a clean shutdown would tell
clients OK for commits that no replica has. The whole shutdown, with what the agent was doing before, takes --shutdown-bound
at most, which must stay a few seconds below the pod's grace period.

Logs are JSON lines on stderr; mysqld's own log is among them ("logger":"mysqld").`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := agent.ConfigFromEnv(os.Getenv)
			if err != nil {
				return err
			}
			cfg.Mysqld, cfg.APIAddress = flags.Mysqld, flags.APIAddress
			cfg.ShutdownBound = flags.ShutdownBound
			cfg.FenceBound, cfg.StopBound, cfg.ApplyBound, cfg.LoginBound = flags.FenceBound, flags.StopBound, flags.ApplyBound, flags.LoginBound
			return run(cmd, cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.Mysqld, "mysqld", defaults.Mysqld, "server binary, looked up in PATH")
	f.StringVar(&flags.APIAddress, "api-address", defaults.APIAddress, "address of the HTTPS API")
	f.DurationVar(&flags.ShutdownBound, "shutdown-bound", defaults.ShutdownBound, "the longest time from SIGTERM until mysqld has ended")
	f.DurationVar(&flags.FenceBound, "fence-bound", defaults.FenceBound, "how long to try to make a primary read-only before mysqld is killed")
	f.DurationVar(&flags.StopBound, "stop-bound", defaults.StopBound, "how long mysqld may take to shut down before it is killed")
	f.DurationVar(&flags.ApplyBound, "apply-bound", defaults.ApplyBound, "how long Follow and Promote wait for received transactions to be applied before they refuse")
	f.DurationVar(&flags.LoginBound, "login-bound", defaults.LoginBound, "how long logins may hang behind an account statement without acknowledgement before mysqld is killed")
	return cmd
}

func run(cmd *cobra.Command, cfg agent.Config) error {
	log, flush, err := newLogger()
	if err != nil {
		return err
	}
	defer flush()
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return agent.New(cfg, log).Run(ctx)
}

func newLogger() (logr.Logger, func(), error) {
	config := zap.NewProductionConfig()
	config.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	config.DisableCaller, config.DisableStacktrace, config.Sampling = true, true, nil
	logger, err := config.Build()
	if err != nil {
		return logr.Logger{}, nil, err
	}
	return zapr.NewLogger(logger), func() { _ = logger.Sync() }, nil
}
