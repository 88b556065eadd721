//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/test/env"
)

// kubernetes is what all tests run on.
var kubernetes *env.Env

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options := env.FromEnvironment()
	options.CreatedBy = createdBy
	options.Out = os.Stdout
	var err error
	if kubernetes, err = env.Attach(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	code := m.Run()
	if err := removeShared(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: remove what the tests shared:", err)
		return max(code, 1)
	}
	return code
}

const (
	// createdBy marks the namespaces that are ours to delete.
	createdBy = "porpoise-e2e"
	// creation bounds making a cluster of three instances, which takes about 20 s on an idle machine of two cores.
	creation = 5 * time.Minute
	// recovery bounds what takes seconds: an instance that comes back, a change that rolls through.
	recovery = 4 * time.Minute
	// notice bounds how long the operator may take to tell what is wrong. It takes seconds; the rest is for a busy machine.
	notice = time.Minute
)

// keep says whether what the tests made stays for a person to look at.
func keep() bool { return os.Getenv("KEEP") != "" }
