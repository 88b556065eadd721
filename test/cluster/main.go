// Command cluster runs a real Kubernetes on a bare Debian machine. See README.md.
package main

import (
	"os"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/cli"
)

func main() { os.Exit(cli.Main()) }
