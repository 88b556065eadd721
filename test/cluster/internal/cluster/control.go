package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/cgroup"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/kubeapi"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/process"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/progress"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/render"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/toolchain"
)

const pollInterval = 100 * time.Millisecond

// controlPlane lists the control plane's processes. The first two make the API; the others need it.
func controlPlane() []string {
	return []string{render.Etcd, render.APIServer, render.ControllerManager, render.Scheduler, render.Provisioner}
}

func (s state) pidFile(name string) string { return s.Path("pids", name+".json") }
func (s state) logFile(name string) string { return s.Path("logs", name+".log") }

func (s state) api() (*kubeapi.Client, error) {
	return kubeapi.New(s.APIServerURL(), s.pki(), render.CA, render.Admin)
}

func (s state) isRunning(name string) bool {
	record, err := process.Load(s.pidFile(name))
	return err == nil && record.Alive()
}

// ensureProcess starts a process of the control plane unless it runs.
func (s state) ensureProcess(name string) error {
	if s.isRunning(name) {
		return nil
	}
	if err := cgroup.Create(s.ControlCgroup()); err != nil {
		return err
	}
	running, err := process.Start(process.Spec{
		Args:    render.ControlPlane(s.Cluster, name, toolchain.Binaries{Dir: s.BinaryDir}.BinDir()),
		LogFile: s.logFile(name), PIDFile: s.pidFile(name), Cgroup: s.ControlCgroup(),
	})
	if err != nil {
		return err
	}
	return running.Go.Close()
}

// ensureAPI starts etcd and the API server and waits until the latter serves.
func (s state) ensureAPI(ctx context.Context, report *progress.Reporter) error {
	for _, name := range []string{render.Etcd, render.APIServer} {
		if err := s.ensureProcess(name); err != nil {
			return err
		}
	}
	api, err := s.api()
	if err != nil {
		return err
	}
	err = s.waitFor(ctx, "the API server", time.Minute, api.Ready, render.Etcd, render.APIServer)
	if err == nil {
		report.Printf("API server is ready at %s", s.APIServerURL())
	}
	return err
}

// ensureControllers starts what needs nothing but the API.
func (s state) ensureControllers() error {
	for _, name := range []string{render.ControllerManager, render.Scheduler} {
		if err := s.ensureProcess(name); err != nil {
			return err
		}
	}
	return nil
}

// applySystem writes the objects of the cluster itself. They are ours, so reading the API's whole schema to validate them is skipped.
func (s state) applySystem(ctx context.Context) error {
	kubectl := exec.CommandContext(ctx, toolchain.Binaries{Dir: s.BinaryDir}.Program("kubectl"), "--kubeconfig", s.Kubeconfig(),
		"apply", "--server-side", "--force-conflicts", "--validate=false", "--field-manager=porpoise-cluster", "-f", s.Path("config", "system.yaml"))
	kubectl.Env = append(os.Environ(), "HOME="+s.Path("config")) // its cache of the API goes away with the cluster
	if output, err := kubectl.CombinedOutput(); err != nil {
		return fmt.Errorf("apply system objects: %w\n%s", err, output)
	}
	return nil
}

// waitFor polls until check succeeds. When it does not, or when one of the processes it needs ends, the error carries what check said
// last and the tails of the processes' logs.
func (s state) waitFor(ctx context.Context, what string, limit time.Duration, check func(context.Context) error, needs ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		for _, name := range needs {
			if !s.isRunning(name) {
				return fmt.Errorf("%s ended while waiting for %s; end of its log %s:\n%s", name, what, s.logFile(name), toolchain.Tail(s.logFile(name), 15))
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			text := fmt.Sprintf("%s is not ready after %s: %v", what, limit, err)
			for _, name := range needs {
				text += fmt.Sprintf("\nend of %s:\n%s", s.logFile(name), toolchain.Tail(s.logFile(name), 10))
			}
			return fmt.Errorf("%s: %w", text, ctx.Err())
		}
	}
}
