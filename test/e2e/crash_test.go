//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/env"
)

// killScript kills mysqld, whose process id it prints. kill is bash's own: the image has no procps.
const killScript = `for d in /proc/[0-9]*; do
  read -r comm < "$d/comm" || continue
  if [[ $comm == mysqld ]]; then kill -9 "${d#/proc/}" && echo "${d#/proc/}"; fi
done`

// killMySQL kills the mysqld of an instance; its agent lives on.
func (c *cluster) killMySQL(t *testing.T, instance string) {
	t.Helper()
	out, err := kubernetes.Exec(t.Context(), env.ExecOptions{
		Namespace: c.namespace, Pod: naming.Pod(instance), Container: "mysqld", Command: []string{"bash", "-c", killScript},
	})
	if err != nil {
		t.Fatal(err)
	}
	if pids := strings.Fields(out); len(pids) != 1 {
		t.Fatalf("killed %d processes called mysqld in the pod of %s, want 1", len(pids), instance)
	}
}

// TestPrimaryMySQLKilledUnderLoad: the primary comes back writable with every acknowledged row, none of them twice.
func TestPrimaryMySQLKilledUnderLoad(t *testing.T) {
	c := shared(t)
	w := c.startWriters(t, "crashed_primary", 4)
	lives := c.lives(t)
	for range 2 {
		c.killMySQL(t, c.primary(t))
		w.waitAcked(t, 100)
	}
	c.waitReady(t, recovery)
	w.verify(t)
	// The agent starts mysqld again itself: no container ended.
	for name, life := range c.lives(t) {
		if life != lives[name] {
			t.Errorf("the pod of %s is another one: was %s, is %s", name, lives[name], life)
		}
	}
}

// TestReplicaMySQLKilledUnderLoad: a replica's crash stops no write, and it rejoins.
func TestReplicaMySQLKilledUnderLoad(t *testing.T) {
	c := shared(t)
	w := c.startWriters(t, "crashed_replica", 4)
	for _, replica := range c.replicas(t) {
		c.killMySQL(t, replica)
		w.waitAcked(t, 50)
		c.waitReady(t, recovery)
	}
	w.verify(t)
}

// TestNodeOfReplicaStopped switches off the node of a replica. Writes go on; the replica rejoins when its node is back.
func TestNodeOfReplicaStopped(t *testing.T) {
	needLocal(t)
	c := shared(t)
	w := c.startWriters(t, "lost_node", 2)
	pods := c.pods(t)
	replica := ""
	for _, name := range c.replicas(t) {
		if pods[name].Spec.NodeName != pods[c.primary(t)].Spec.NodeName {
			replica = name
		}
	}
	if replica == "" {
		t.Fatalf("every replica is on the primary's node %s", pods[c.primary(t)].Spec.NodeName)
	}
	start := stopNode(t, c.node(t, replica))
	w.waitAcked(t, 100)
	eventually(t, "the status tells of the lost replica", recovery, func(ctx context.Context) (bool, string, error) {
		object, err := c.read(ctx)
		if err != nil {
			return false, "", err
		}
		return object.Status.ReadyReplicas == 2, env.Describe(object), nil
	})
	w.waitAcked(t, 100)
	start()
	c.waitReady(t, recovery)
	w.verify(t)
}

// TestInstancesAreSpread: three nodes have one instance each.
func TestInstancesAreSpread(t *testing.T) {
	c := shared(t)
	nodes := map[string]string{}
	for name, pod := range c.pods(t) {
		if other, taken := nodes[pod.Spec.NodeName]; taken {
			t.Errorf("%s and %s are both on %s", name, other, pod.Spec.NodeName)
		}
		nodes[pod.Spec.NodeName] = name
	}
	if len(nodes) != 3 {
		t.Errorf("instances are on %d nodes, want 3 (the tests need a cluster of three nodes): %s", len(nodes), fmt.Sprint(nodes))
	}
}
