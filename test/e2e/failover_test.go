//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/env"
)

// signalScript sends a signal to mysqld; %s is its name. kill is bash's own: the image has no procps.
const signalScript = `for d in /proc/[0-9]*; do
  read -r comm < "$d/comm" || continue
  if [[ $comm == mysqld ]]; then kill -%s "${d#/proc/}"; fi
done`

// signalMySQL sends a signal to an instance's mysqld.
func (c *cluster) signalMySQL(t *testing.T, instance, signal string) {
	t.Helper()
	_, err := kubernetes.Exec(t.Context(), env.ExecOptions{
		Namespace: c.namespace, Pod: naming.Pod(instance), Container: "mysqld", Command: []string{"bash", "-c", fmt.Sprintf(signalScript, signal)},
	})
	if err != nil {
		t.Fatalf("send %s to mysqld of %s: %v", signal, instance, err)
	}
}

// waitOtherPrimary waits until another instance than the given one is primary and takes writes.
func (c *cluster) waitOtherPrimary(t *testing.T, former string) {
	t.Helper()
	eventually(t, "another instance than "+former+" is primary", recovery, func(ctx context.Context) (bool, string, error) {
		topology, err := c.readTopology(ctx)
		if err != nil {
			return false, "", err
		}
		s := topology.Status
		return s.Primary != former && s.Phase == "Stable", fmt.Sprintf("%s/%s: %s", s.Phase, s.Reason, s.Message), nil
	})
}

// node returns the number of the node that an instance is on.
func (c *cluster) node(t *testing.T, instance string) int {
	t.Helper()
	name := c.pods(t)[instance].Spec.NodeName
	number, err := strconv.Atoi(strings.TrimPrefix(name, "node-"))
	if err != nil {
		t.Fatalf("read the number of node %q: %v", name, err)
	}
	return number
}

// needLocal skips a test that switches nodes off where that cannot be done, and says so.
func needLocal(t *testing.T) {
	t.Helper()
	if kubernetes.Local == nil {
		t.Skip("NOT RUN: nodes of the cluster of KUBECONFIG cannot be switched off from here; unset KUBECONFIG to use the local cluster")
	}
}

// stopNode switches a node off and returns what switches it on again. The end of the test does too.
func stopNode(t *testing.T, number int) (start func()) {
	t.Helper()
	if err := kubernetes.Local.StopNode(t.Context(), number); err != nil {
		t.Fatal(err)
	}
	started := false
	t.Cleanup(func() {
		if !started {
			if err := kubernetes.Local.StartNode(context.Background(), number); err != nil {
				t.Errorf("start node %d again: %v", number, err)
			}
		}
	})
	return func() {
		t.Helper()
		if err := kubernetes.Local.StartNode(t.Context(), number); err != nil {
			t.Fatal(err)
		}
		started = true
	}
}

// TestPrimaryPodDeletedUnderLoad: another instance takes over while the pod ends, and the former primary rejoins.
func TestPrimaryPodDeletedUnderLoad(t *testing.T) {
	c := shared(t)
	w := c.startWriters(t, "deleted_primary", 4)
	former := c.primary(t)
	c.deletePod(t, former)
	c.waitOtherPrimary(t, former)
	w.waitAcked(t, 100)
	c.waitReady(t, recovery)
	c.waitSettled(t, recovery)
	w.verify(t)
}

// TestOperatorKilledMidFailover: the managers die right after the primary did; whoever comes next ends what was begun.
func TestOperatorKilledMidFailover(t *testing.T) {
	c := shared(t)
	w := c.startWriters(t, "killed_midway", 4)
	c.killMySQL(t, c.primary(t))
	killOperator(t)
	w.waitAcked(t, 100)
	c.waitReady(t, recovery)
	c.waitSettled(t, recovery)
	w.verify(t)
}

// TestNodeOfPrimaryStopped: the node falls silent, and nothing tells that mysqld on it has ended but the silence of its
// agent and its replicas' lost connections.
func TestNodeOfPrimaryStopped(t *testing.T) {
	needLocal(t)
	c := shared(t)
	w := c.startWriters(t, "lost_primary_node", 4)
	former := c.primary(t)
	start := stopNode(t, c.node(t, former))
	c.waitOtherPrimary(t, former)
	w.waitAcked(t, 100)
	start()
	c.waitReady(t, recovery)
	c.waitSettled(t, recovery)
	w.verify(t)
}

// TestPrimaryHangsUnderLoad: mysqld is frozen, and when it wakes up it is primary no longer.
func TestPrimaryHangsUnderLoad(t *testing.T) {
	c := shared(t)
	w := c.startWriters(t, "frozen_primary", 4)
	former := c.primary(t)
	c.signalMySQL(t, former, "STOP")
	c.waitOtherPrimary(t, former)
	w.waitAcked(t, 100)
	c.signalMySQL(t, former, "CONT")
	c.waitReady(t, recovery)
	c.waitSettled(t, recovery)
	w.verify(t)
}

// TestStarvedPrimaryIsTerminated: no commit is acknowledged any more, and then the primary's pod is deleted. A clean shutdown
// would tell waiting clients OK for what no replica has.
func TestStarvedPrimaryIsTerminated(t *testing.T) {
	c := shared(t)
	w := c.startWriters(t, "starved_primary", 4)
	former := c.primary(t)
	replicas := c.replicas(t)
	for _, name := range replicas {
		c.signalMySQL(t, name, "STOP")
	}
	t.Cleanup(func() {
		for _, name := range replicas {
			_, _ = kubernetes.Exec(context.Background(), env.ExecOptions{
				Namespace: c.namespace, Pod: naming.Pod(name), Container: "mysqld", Command: []string{"bash", "-c", fmt.Sprintf(signalScript, "CONT")},
			})
		}
	})
	eventually(t, "no commit is acknowledged any more", recovery, func(context.Context) (bool, string, error) {
		return w.quietFor() > 2e9, fmt.Sprintf("the last was %s ago", w.quietFor()), nil
	})
	c.deletePod(t, former)
	for _, name := range replicas {
		c.signalMySQL(t, name, "CONT")
	}
	w.waitAcked(t, 100)
	c.waitReady(t, recovery)
	c.waitSettled(t, recovery)
	w.verify(t)
}

// TestPowerLoss: every node goes at once, and comes back.
func TestPowerLoss(t *testing.T) {
	needLocal(t)
	c := shared(t)
	w := c.startWriters(t, "power_loss", 4)
	var starts []func()
	nodes := map[int]bool{}
	for name := range c.pods(t) {
		nodes[c.node(t, name)] = true
	}
	for number := range nodes {
		starts = append(starts, stopNode(t, number))
	}
	for _, start := range starts {
		start()
	}
	w.waitAcked(t, 100)
	c.waitReady(t, recovery)
	c.waitSettled(t, recovery)
	w.verify(t)
}
