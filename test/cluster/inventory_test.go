//go:build cluster

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// inventory lists everything on the machine that a cluster makes: what is new after `down` was left behind.
func inventory(t *testing.T) map[string][]string {
	t.Helper()
	output := func(args ...string) []string {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return strings.Split(string(out), "\n")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{}
	for line := range strings.Lines(string(mounts)) {
		targets = append(targets, strings.Fields(line)[4])
	}
	return map[string][]string{
		"mounts":    targets,
		"links":     fields(output("ip", "-o", "link"), 1),
		"routes":    output("ip", "route", "show", "table", "all", "type", "unicast"),
		"filter":    output("iptables", "-S"),
		"nat":       output("iptables", "-t", "nat", "-S"),
		"processes": clusterProcesses(t),
		"files":     files(t),
	}
}

// files lists directories that containerd, kubelet, CNI plugins and this package write to.
func files(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{
		"/run/*", "/run/netns/*", "/run/containerd/*", "/run/containerd/s/*", "/var/lib/*", "/var/lib/kubelet/*", "/var/lib/cni/*",
		"/var/lib/containerd/*", "/var/lib/porpoise-cluster/*", "/var/log/*", "/var/log/pods/*", "/var/log/containers/*", "/etc/cni/*", "/opt/*",
		"/sys/fs/cgroup/*", "/sys/fs/cgroup/*/*", "/sys/fs/cgroup/*/porpoise-cluster/*", "/sys/fs/cgroup/porpoise-cluster/*",
	} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, matches...)
	}
	return found
}

// clusterProcesses lists processes of a cluster, wherever they are.
func clusterProcesses(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(data), "/porpoise-cluster/"+clusterName+"/") {
			found = append(found, file)
		}
	}
	return found
}

func fields(lines []string, index int) []string {
	var found []string
	for _, line := range lines {
		if f := strings.Fields(line); len(f) > index {
			found = append(found, f[index])
		}
	}
	return found
}

// assertSame reports what is there now and was not before. Other clusters may come and go meanwhile; theirs is not ours.
func assertSame(t *testing.T, before, now map[string][]string) {
	t.Helper()
	for kind, items := range now {
		for _, item := range items {
			if !slices.Contains(before[kind], item) {
				t.Errorf("left behind: %s: %s", kind, item)
			}
		}
	}
}
