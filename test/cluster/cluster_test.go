//go:build cluster

// The whole life of a two-node cluster on this machine. Run as root: go test -tags cluster -timeout 30m .

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/cluster"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/images"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/progress"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/toolchain"
)

const clusterName = "selftest"

// patience bounds every wait: nothing waits for it when all is well, and machines are busy. Kubernetes itself takes 20 s to end
// a pod and to miss a node.
const patience = 3 * time.Minute

// fixture drives one cluster.
type fixture struct {
	t      *testing.T
	report *progress.Reporter
	info   cluster.Info
}

func TestLifeOfACluster(t *testing.T) {
	report := progress.New(os.Stderr)
	if err := toolchain.EnsurePackages(t.Context(), report); err != nil {
		t.Fatal(err) // before the first inventory: installed packages stay
	}
	if err := cluster.Down(clusterName, report); err != nil {
		t.Fatal(err)
	}
	before := inventory(t)
	t.Cleanup(func() {
		if err := cluster.Down(clusterName, report); err != nil {
			t.Error(err)
		}
		assertSame(t, before, inventory(t))
	})
	up := func() {
		t.Helper()
		if err := cluster.Up(t.Context(), cluster.Options{Name: clusterName, Nodes: 2}, report); err != nil {
			t.Fatal(err)
		}
	}
	up()
	info, err := cluster.Find(clusterName)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, report: report, info: info}
	f.versionIsTrue()
	f.loadProbe()
	f.podsRun()
	f.namesAndServicesWork()
	f.volumesWorkForPlainUsers()
	f.claimGrows()
	f.nodeIsCutOffAndHealed()
	f.nodeLosesPowerAndReturns()
	up() // nothing to do
	f.killedPartIsRepaired(up)
}

func (f *fixture) versionIsTrue() {
	f.t.Helper()
	if out := f.kubectl("version"); !strings.Contains(out, "Server Version: "+toolchain.KubernetesVersion) {
		f.t.Errorf("kubectl version: %s", out)
	}
}

func (f *fixture) loadProbe() {
	f.t.Helper()
	dir := f.t.TempDir()
	program := filepath.Join(dir, "probe")
	build := exec.CommandContext(f.t.Context(), "go", "build", "-o", program, "./internal/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		f.t.Fatalf("build probe: %v\n%s", err, out)
	}
	archive := filepath.Join(dir, "probe.tar")
	if err := images.Write(archive, "porpoise.local/probe:test", program); err != nil {
		f.t.Fatal(err)
	}
	if err := cluster.Load(f.t.Context(), clusterName, []string{archive}, f.report); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) podsRun() {
	f.t.Helper()
	f.kubectl("apply", "-f", "testdata/pods.yaml")
	f.kubectl("rollout", "status", "statefulset/probe", "--timeout="+patience.String())
	f.kubectl("wait", "--for=condition=Ready", "pod/plain", "--timeout="+patience.String())
	first, second := f.jsonpath("pod/probe-0", "{.spec.nodeName}"), f.jsonpath("pod/probe-1", "{.spec.nodeName}")
	if first == second {
		f.t.Errorf("both instances are on %s", first)
	}
	if out := f.kubectl("logs", "probe-0"); out != "serving as probe-0" {
		f.t.Errorf("kubectl logs: %q", out)
	}
}

func (f *fixture) namesAndServicesWork() {
	f.t.Helper()
	address := f.jsonpath("service/probe", "{.spec.clusterIP}")
	for _, pod := range []string{"probe-0", "probe-1"} {
		lookup := func(name, suffix string) {
			f.t.Helper()
			// The name server hears of a Service some time after the API server.
			f.eventually(pod+" looks up "+name, func() error {
				out, err := f.try("exec", pod, "--", "/probe", "lookup", name)
				if err == nil && (!strings.HasPrefix(out, "[") || !strings.HasSuffix(out, suffix)) {
					err = fmt.Errorf("got %s, want one that ends in %s", out, suffix)
				}
				return err
			})
		}
		lookup("probe.default.svc.cluster.local", "["+address+"]")
		lookup("kubernetes.default", ".0.1]")
	}
	// Both endpoints are met from a pod, the pod itself among them, and from the machine.
	both := func(get func() (string, error)) func() error {
		seen := map[string]bool{}
		return func() error {
			out, err := get()
			seen[strings.TrimSpace(out)] = true
			if err == nil && !(seen["probe-0"] && seen["probe-1"]) {
				err = fmt.Errorf("met only %v", seen)
			}
			return err
		}
	}
	f.eventually("a pod meets both endpoints", both(func() (string, error) {
		return f.try("exec", "probe-0", "--", "/probe", "get", "http://probe")
	}))
	f.eventually("the machine meets both endpoints", both(func() (string, error) {
		out, err := exec.CommandContext(f.t.Context(), "curl", "-sS", "-m", "5", "http://"+address).CombinedOutput()
		return string(out), err
	}))
}

func (f *fixture) volumesWorkForPlainUsers() {
	f.t.Helper()
	if out := f.probe("probe-0", "write", "/data/x", "kept"); out != "uid 65532 gid 2000" {
		f.t.Errorf("with fsGroup: %q", out)
	}
	if out := f.probe("plain", "write", "/data/x", "kept"); out != "uid 65532 gid 65532" {
		f.t.Errorf("without fsGroup: %q", out)
	}
	volume := f.jsonpath("pvc/plain", "{.spec.volumeName}")
	dirs, err := filepath.Glob(filepath.Join(f.info.StateDir, "nodes", "*", "var-lib", "*", volume))
	if err != nil || len(dirs) != 1 {
		f.t.Fatalf("directory of %s: %v, %v", volume, dirs, err)
	}
	f.kubectl("delete", "pod/plain", "pvc/plain", "--wait")
	f.eventually("the directory of a deleted claim is removed", func() error {
		if _, err := os.Stat(dirs[0]); !os.IsNotExist(err) {
			return fmt.Errorf("%s: %v", dirs[0], err)
		}
		return nil
	})
}

func (f *fixture) claimGrows() {
	f.t.Helper()
	f.kubectl("patch", "pvc/data-probe-0", "-p", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	f.eventually("the claim grows", func() error {
		got, err := f.tryJSONPath("pvc/data-probe-0", "{.status.capacity.storage} {.status.conditions[?(@.status==\"True\")].type} {.status.allocatedResourceStatuses}")
		if err != nil {
			return err
		}
		if strings.TrimSpace(got) != "2Gi" {
			return fmt.Errorf("capacity, conditions, statuses: %s", got)
		}
		return nil
	})
}

func (f *fixture) nodeIsCutOffAndHealed() {
	f.t.Helper()
	if err := cluster.SetCable(clusterName, 2, false, f.report); err != nil {
		f.t.Fatal(err)
	}
	f.kubectl("wait", "--for=condition=Ready=Unknown", "node/node-2", "--timeout="+patience.String())
	if err := cluster.SetCable(clusterName, 2, true, f.report); err != nil {
		f.t.Fatal(err)
	}
	f.kubectl("wait", "--for=condition=Ready", "node/node-2", "--timeout="+patience.String())
}

func (f *fixture) nodeLosesPowerAndReturns() {
	f.t.Helper()
	pod := "probe-0"
	if f.jsonpath("pod/probe-1", "{.spec.nodeName}") == "node-2" {
		pod = "probe-1"
	}
	f.probe(pod, "write", "/data/power", "survives")
	if err := cluster.StopNode(clusterName, 2, f.report); err != nil {
		f.t.Fatal(err)
	}
	if err := cluster.StartNode(f.t.Context(), clusterName, 2, f.report); err != nil {
		f.t.Fatal(err)
	}
	f.eventually("the pod on the returned node runs again with its data", func() error {
		out, err := f.try("exec", pod, "--", "/probe", "read", "/data/power")
		if err == nil && out != "survives" {
			err = fmt.Errorf("read %q", out)
		}
		return err
	})
}

func (f *fixture) killedPartIsRepaired(up func()) {
	f.t.Helper()
	if err := cluster.StopNode(clusterName, 1, f.report); err != nil {
		f.t.Fatal(err)
	}
	up()
	f.kubectl("wait", "--for=condition=Ready", "node/node-1", "--timeout="+patience.String())
}

func (f *fixture) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience+30*time.Second) // kubectl's own --timeout ends first
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(f.info.BinDir, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.info.Kubeconfig, "HOME="+f.t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func (f *fixture) kubectl(args ...string) string {
	f.t.Helper()
	out, err := f.try(args...)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// tryJSONPath is jsonpath for what is tried again.
func (f *fixture) tryJSONPath(object, path string) (string, error) {
	return f.try("get", object, "-o", "jsonpath="+path)
}

func (f *fixture) jsonpath(object, path string) string {
	f.t.Helper()
	return f.kubectl("get", object, "-o", "jsonpath="+path)
}

func (f *fixture) probe(pod string, args ...string) string {
	f.t.Helper()
	return f.kubectl(append([]string{"exec", pod, "--", "/probe"}, args...)...)
}

func (f *fixture) eventually(what string, check func() error) {
	f.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
		<-time.After(200 * time.Millisecond)
	}
}
