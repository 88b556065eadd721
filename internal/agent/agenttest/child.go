package agenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/go-logr/logr/funcr"

	"github.com/porpoise-dev/porpoise/internal/agent"
)

// RunChild turns the test binary into an agent when it was started as one, and does not return then. TestMain calls it
// first.
func RunChild() {
	text := os.Getenv(childConfig)
	if text == "" {
		return
	}
	var cfg agent.Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, "agenttest: configuration:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	log := funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }, funcr.Options{LogTimestamp: true})
	err := agent.New(cfg, log.WithName(cfg.Instance)).Run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "agenttest: agent:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// startLocked starts a command on a thread that lives as long as it, since Pdeathsig follows the thread; done gets its end.
func startLocked(cmd *exec.Cmd, done chan<- error) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	return <-started
}
