//go:build e2e

package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/porpoise-dev/porpoise/test/env"
)

// clusterName is not that of the other end-to-end tests: both may stand at the same time.
const clusterName = "porpoise-registry"

// world is what the tests share: a cluster that has no images, and a registry.
var world struct {
	registry *server
	// kubeconfig is a copy: the local cluster's own file is no foreign cluster to the Makefile.
	kubeconfig string
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	down, err := begin(ctx)
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, down()); err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		return max(code, 1)
	}
	return code
}

// begin makes cluster and registry; down, to be called even after an error, removes both.
func begin(ctx context.Context) (down func() error, err error) {
	dir, err := os.MkdirTemp("", "porpoise-registry-")
	if err != nil {
		return func() error { return nil }, fmt.Errorf("make a folder: %w", err)
	}
	down = func() error { return os.RemoveAll(dir) }
	// Before the cluster: its nodes inherit it.
	if err := os.Setenv("NO_PROXY", "172.30.0.0/16,"+os.Getenv("NO_PROXY")); err != nil {
		return down, fmt.Errorf("keep proxies out: %w", err)
	}
	local, err := env.NewLocal(env.Options{LocalName: clusterName, Out: os.Stdout})
	if err != nil {
		return down, err
	}
	// Images that an interrupted run has left in the node would prove nothing.
	if err := local.Down(ctx); err != nil {
		return down, err
	}
	down = func() error { return errors.Join(stop(local), os.RemoveAll(dir)) }
	own, err := local.Up(ctx, 1)
	if err != nil {
		return down, err
	}
	if err := copyKubeconfig(own, dir); err != nil {
		return down, err
	}
	address, err := apiServerAddress(own)
	if err != nil {
		return down, err
	}
	if world.registry, err = serve(ctx, address, dir); err != nil {
		return down, err
	}
	return down, local.TrustRegistry(ctx, world.registry.host, world.registry.authorityFile)
}

func stop(local *env.Local) error {
	if world.registry != nil {
		world.registry.http.Close()
	}
	if os.Getenv("KEEP") != "" {
		return nil
	}
	// The context of an interrupted test has ended; what it made goes all the same.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return local.Down(ctx)
}

func copyKubeconfig(from, dir string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy the kubeconfig: %w", err)
	}
	world.kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(world.kubeconfig, text, 0o600); err != nil {
		return fmt.Errorf("copy the kubeconfig: %w", err)
	}
	return nil
}

// apiServerAddress is this machine's address on the bridge of the nodes.
func apiServerAddress(kubeconfig string) (string, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return "", fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return "", fmt.Errorf("read the API server's address %q: %w", config.Host, err)
	}
	return server.Hostname(), nil
}

// runMake runs a target of the Makefile as a user does who has a kubeconfig, a login and an authority to trust.
func runMake(t *testing.T, args ...string) {
	t.Helper()
	start := time.Now()
	cmd := exec.CommandContext(t.Context(), "make", args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(userEnvironment(), "KUBECONFIG="+world.kubeconfig,
		"DOCKER_CONFIG="+world.registry.dockerConfig, "SSL_CERT_FILE="+world.registry.authorityFile)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("make %s: %v", strings.Join(args, " "), err)
	}
	t.Logf("make %s: %.1f s", strings.Join(args, " "), time.Since(start).Seconds())
}

// userEnvironment is ours without the settings of the make that runs this test.
func userEnvironment() []string {
	settings := []string{
		"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "CLUSTER", "NODES", "REGISTRY", "PKG", "RUN", "KEEP",
		"KUBECONFIG", "PORPOISE_REGISTRY", "PORPOISE_CLUSTER_NAME", "PORPOISE_IMAGES", "DOCKER_CONFIG", "SSL_CERT_FILE",
	}
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(settings, name)
	})
}

func joinClose(err error, closer io.Closer) error { return errors.Join(err, closer.Close()) }
