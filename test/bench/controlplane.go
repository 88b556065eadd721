package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/test/env"
)

// controlPlane is an API server with its etcd, and nothing else.
type controlPlane struct {
	config     *rest.Config
	client     client.Client
	scheme     *runtime.Scheme
	kubeconfig string
	stop       func() error
}

func startControlPlane(ctx context.Context, timeline *env.Timeline) (*controlPlane, error) {
	step := timeline.Begin("API server: start, without nodes")
	ctrl.SetLogger(logr.Discard())
	binaries := os.Getenv("KUBEBUILDER_ASSETS")
	if binaries == "" {
		cmd := exec.CommandContext(ctx, "go", "-C", "test/cluster", "run", ".", "binaries")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, step.Fail(fmt.Errorf("provide kube-apiserver and etcd: go -C test/cluster run . binaries: %w", err))
		}
		binaries = strings.TrimSpace(string(out))
	}
	server := &envtest.Environment{
		BinaryAssetsDirectory: binaries, CRDDirectoryPaths: []string{filepath.Join("config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
	}
	// envtest's own range has 254 addresses, which are used up by the two Services of 127 clusters.
	server.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16")
	config, err := server.Start()
	if err != nil {
		return nil, step.Fail(fmt.Errorf("start the API server: %w", errors.Join(err, server.Stop())))
	}
	dir, err := os.MkdirTemp("", "bench-kubeconfig")
	if err != nil {
		return nil, step.Fail(errors.Join(fmt.Errorf("make a folder: %w", err), server.Stop()))
	}
	p := &controlPlane{
		config: config, scheme: runtime.NewScheme(), kubeconfig: filepath.Join(dir, "kubeconfig"),
		stop: func() error { return errors.Join(server.Stop(), os.RemoveAll(dir)) },
	}
	if err := p.connect(ctx, server.KubeConfig); err != nil {
		return nil, step.Fail(errors.Join(err, p.stop()))
	}
	step.Done("%s", config.Host)
	return p, nil
}

func (p *controlPlane) connect(ctx context.Context, kubeconfig []byte) error {
	if err := os.WriteFile(p.kubeconfig, kubeconfig, 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, porpoisev1.AddToScheme} {
		if err := add(p.scheme); err != nil {
			return fmt.Errorf("register kinds: %w", err)
		}
	}
	// What is measured is the manager, not how long the measurement waits for itself.
	p.config.QPS = -1
	var err error
	if p.client, err = client.New(p.config, client.Options{Scheme: p.scheme}); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	for _, name := range []string{env.OperatorNamespace, fleetNamespace} {
		if err := p.client.Create(ctx, namespaceOf(name)); err != nil {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return nil
}

// managerProcess is cmd/manager on this machine.
type managerProcess struct {
	// metrics is the address of /metrics, log the path of its log.
	metrics, log string
	cmd          *exec.Cmd
	ended        chan struct{}
	end          error
}

// managerStop bounds the manager's end.
const managerStop = 20 * time.Second

func startManager(ctx context.Context, dir string, api *controlPlane, timeline *env.Timeline) (*managerProcess, error) {
	step := timeline.Begin("Manager: build and start")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, step.Fail(fmt.Errorf("make the folder of figures: %w", err))
	}
	binary := filepath.Join(dir, "manager")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./cmd/manager")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, step.Fail(fmt.Errorf("build the manager: %w: %s", err, lastLines(string(out))))
	}
	metrics, err := freeAddress()
	if err != nil {
		return nil, step.Fail(err)
	}
	images := filepath.Join(filepath.Dir(api.kubeconfig), "images.yaml")
	if err := os.WriteFile(images, []byte("images:\n  \"9.7\": porpoise.dev/mysql:9.7.4\n"), 0o600); err != nil {
		return nil, step.Fail(fmt.Errorf("write the image map: %w", err))
	}
	m := &managerProcess{metrics: metrics, log: filepath.Join(dir, "manager.log"), ended: make(chan struct{})}
	file, err := os.Create(m.log)
	if err != nil {
		return nil, step.Fail(fmt.Errorf("make the manager's log: %w", err))
	}
	defer func() { _ = file.Close() }()                                                                          // The process has its own.
	m.cmd = exec.Command(binary, "--operator-image=porpoise.dev/porpoise-operator:bench", "--image-map="+images, //nolint:noctx // stop ends it.
		"--metrics-bind-address="+metrics, "--metrics-secure=false", "--health-probe-bind-address=0")
	m.cmd.Env = append(os.Environ(), "KUBECONFIG="+api.kubeconfig, "POD_NAMESPACE="+env.OperatorNamespace, "GOMEMLIMIT=512MiB")
	m.cmd.Stdout, m.cmd.Stderr = file, file
	// A group of its own: an interrupt at the terminal is ours to pass on, in order.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := m.cmd.Start(); err != nil {
		return nil, step.Fail(fmt.Errorf("start the manager: %w", err))
	}
	go func() {
		m.end = m.cmd.Wait()
		close(m.ended)
	}()
	step.Done("log %s", m.log)
	return m, nil
}

// lastError is the last error that the manager logged.
func (m *managerProcess) lastError() error {
	text, err := os.ReadFile(m.log)
	if err != nil {
		return fmt.Errorf("read the manager's log: %w", err)
	}
	last := "none logged"
	for line := range bytes.Lines(text) {
		var entry struct{ Level, Msg, Error string }
		if json.Unmarshal(line, &entry) == nil && entry.Level == "error" {
			last = entry.Msg + ": " + entry.Error
		}
	}
	return fmt.Errorf("the manager's last error: %s", last)
}

// alive is an error once the process has ended, which waiting cannot mend.
func (m *managerProcess) alive() error {
	select {
	case <-m.ended:
		return fmt.Errorf("%w: the manager ended: %w", env.ErrGiveUp, errors.Join(m.end, errors.New("see its log")))
	default:
		return nil
	}
}

func (m *managerProcess) stop() error {
	if m.alive() != nil {
		return nil // Whoever waited for something of it has said so.
	}
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("end the manager: %w", err)
	}
	select {
	case <-m.ended:
		return nil
	case <-time.After(managerStop):
		_ = m.cmd.Process.Kill()
		<-m.ended
		return fmt.Errorf("the manager did not end within %s of SIGTERM and was killed", managerStop)
	}
}

// freeAddress is one of this machine that nobody listens at.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
