package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
)

func main() {
	agenttest.RunChild() // failover-agents starts agents as processes of their own.
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := rootCommand().ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\nbench: interrupted")
	default:
		fmt.Fprintln(os.Stderr, "\nbench:", err)
	}
	return 1
}
