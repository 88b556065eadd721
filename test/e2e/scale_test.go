//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// TestScaleOutAndIn adds a fourth instance under write load, which is cloned, and removes it again: it leaves the quorum
// before its StatefulSet goes. The number of acknowledgements follows.
func TestScaleOutAndIn(t *testing.T) {
	c := shared(t)
	w := c.startWriters(t, "scaling", 2)
	before := c.lives(t)
	fourth := naming.Instance(c.name, 3)
	h := watchInstance(t, c, fourth)

	c.change(t, func(object *porpoisev1.MySQLCluster) { object.Spec.Replicas = 4 })
	c.waitReady(t, creation)
	c.waitAcks(t, 2, 3)
	waitValue(t, c.instance(fourth), "SELECT COUNT(*) > 0 FROM scaling", "1")
	if !h.sawState(porpoisev1.InstanceCloning) {
		t.Errorf("%s was never seen %s: states %v", fourth, porpoisev1.InstanceCloning, h.seen())
	}
	w.waitAcked(t, 20)

	c.change(t, func(object *porpoisev1.MySQLCluster) { object.Spec.Replicas = 3 })
	eventually(t, "the fourth instance is gone", recovery, func(ctx context.Context) (bool, string, error) {
		pods, err := c.readPods(ctx)
		_, exists := pods[fourth]
		return !exists && h.deletedAt() > 0, fmt.Sprintf("%d pods", len(pods)), err
	})
	c.waitAcks(t, 1, 2)
	c.waitSettled(t, recovery)
	if left, deleted := h.leftQuorumAt(), h.deletedAt(); left == 0 || left > deleted {
		t.Errorf("%s left the quorum at revision %d, its StatefulSet was deleted at %d: it must leave first", fourth, left, deleted)
	}
	w.verify(t)
	after := c.lives(t)
	for name, life := range before {
		if after[name] != life {
			t.Errorf("the pod of %s was restarted by scaling", name)
		}
	}
	if _, kept := c.claims(t)[naming.DataClaim(fourth)]; !kept {
		t.Errorf("the claim of %s is gone; reclaim policy Retain keeps it", fourth)
	}
	removeKept(t, c, fourth)
}

// removeKept removes the kept claim, so that a later test finds the cluster as it was.
func removeKept(t *testing.T, c *cluster, instance string) {
	t.Helper()
	claim := c.claims(t)[naming.DataClaim(instance)]
	if err := client.IgnoreNotFound(kubernetes.Client.Delete(t.Context(), &claim)); err != nil {
		t.Fatalf("delete claim %s: %v", claim.Name, err)
	}
}

// waitAcks waits until commits wait for so many members of so many, in the record and in the primary's mysqld.
func (c *cluster) waitAcks(t *testing.T, acks int32, members int) {
	t.Helper()
	eventually(t, fmt.Sprintf("commits wait for %d of %d members", acks, members), recovery, func(ctx context.Context) (bool, string, error) {
		topology, err := c.readTopology(ctx)
		if err != nil || topology.Status.Quorum == nil {
			return false, "no quorum", err
		}
		q := topology.Status.Quorum
		return q.RequiredAcks == acks && len(q.Members) == members, fmt.Sprintf("%d of %d", q.RequiredAcks, len(q.Members)), nil
	})
	waitValue(t, c.readWrite(), "SELECT @@rpl_semi_sync_source_wait_for_replica_count", strconv.Itoa(int(acks)))
}

// history is what watches saw of one instance. Revisions are those of the API server: of all objects in one order.
type history struct {
	mu      sync.Mutex
	states  []porpoisev1.InstanceState
	member  bool
	left    uint64
	deleted uint64
}

// watchInstance begins to watch the record and the StatefulSet of an instance.
func watchInstance(t *testing.T, c *cluster, instance string) *history {
	t.Helper()
	watcher, err := client.NewWithWatch(kubernetes.Config, client.Options{Scheme: kubernetes.Client.Scheme()})
	if err != nil {
		t.Fatalf("make a client that watches: %v", err)
	}
	h := &history{}
	h.follow(t, watcher, c, &porpoisev1.MySQLTopologyList{}, func(e watch.Event) { h.onTopology(e, c.name, instance) })
	h.follow(t, watcher, c, &appsv1.StatefulSetList{}, func(e watch.Event) { h.onStatefulSet(e, instance) })
	return h
}

func (h *history) follow(t *testing.T, watcher client.WithWatch, c *cluster, list client.ObjectList, on func(watch.Event)) {
	t.Helper()
	stream, err := watcher.Watch(t.Context(), list, client.InNamespace(c.namespace))
	if err != nil {
		t.Fatalf("watch %T: %v", list, err)
	}
	t.Cleanup(stream.Stop)
	go func() {
		for event := range stream.ResultChan() {
			on(event)
		}
	}()
}

func revision(object metav1.Object) uint64 {
	n, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (h *history) onTopology(event watch.Event, cluster, instance string) {
	topology, ok := event.Object.(*porpoisev1.MySQLTopology)
	if !ok || topology.Name != cluster {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	member := topology.Status.Quorum != nil && slices.ContainsFunc(topology.Status.Quorum.Members, func(m porpoisev1.QuorumMember) bool {
		return m.Name == instance
	})
	if h.member && !member {
		h.left = revision(topology)
	}
	h.member = member
	for _, i := range topology.Status.Instances {
		if i.Name == instance && (len(h.states) == 0 || h.states[len(h.states)-1] != i.State) {
			h.states = append(h.states, i.State)
		}
	}
}

func (h *history) onStatefulSet(event watch.Event, instance string) {
	set, ok := event.Object.(*appsv1.StatefulSet)
	if !ok || set.Name != instance || event.Type != watch.Deleted && set.DeletionTimestamp.IsZero() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.deleted == 0 {
		h.deleted = revision(set)
	}
}

func (h *history) seen() []porpoisev1.InstanceState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.states)
}

func (h *history) sawState(state porpoisev1.InstanceState) bool {
	return slices.Contains(h.seen(), state)
}

func (h *history) leftQuorumAt() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.left
}

func (h *history) deletedAt() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deleted
}
