package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

const (
	// eventPage is how many Events one request asks for, maxEventPages how many requests are made: a namespace full of
	// other people's Events must not make the tool wait for ever.
	eventPage     = 500
	maxEventPages = 20
)

// Gatherer reads everything about a cluster with the caller's rights.
type Gatherer struct {
	Client client.Client
	// Agents asks the agents; nil: they are not asked.
	Agents AgentAsker
	// Now is the clock.
	Now func() time.Time
	// MaxEvents is how many Events are kept, the newest.
	MaxEvents int
}

// AgentAsker asks a cluster's agents for their status. Notes say why some or all could not be asked.
type AgentAsker interface {
	Ask(ctx context.Context, cluster, namespace string, pods []corev1.Pod) (answers map[string]AgentAnswer, notes []string)
}

// Gather reads the MySQLCluster, which must be readable, and as much else as the caller may see.
func (g Gatherer) Gather(ctx context.Context, key client.ObjectKey) (Sources, error) {
	s := Sources{ObservedAt: g.Now(), Cluster: &porpoisev1.MySQLCluster{}}
	if err := g.Client.Get(ctx, key, s.Cluster); err != nil {
		return s, fmt.Errorf("get mysqlcluster %s: %w", key, err)
	}
	if err := g.topology(ctx, key, &s); err != nil {
		return s, err
	}
	podsKnown, err := g.pods(ctx, key, &s)
	if err != nil {
		return s, err
	}
	if err := g.events(ctx, key.Namespace, &s); err != nil {
		return s, err
	}
	if g.Agents != nil && podsKnown {
		var notes []string
		s.Agents, notes = g.Agents.Ask(ctx, key.Name, key.Namespace, s.Pods)
		s.Notes = append(s.Notes, notes...)
	}
	return s, nil
}

func (g Gatherer) topology(ctx context.Context, key client.ObjectKey, s *Sources) error {
	topology := &porpoisev1.MySQLTopology{}
	err := g.Client.Get(ctx, key, topology)
	switch {
	case err == nil:
		s.Topology = topology
	case apierrors.IsNotFound(err):
		s.Notes = append(s.Notes, "no record yet: MySQLTopology "+key.Name+" does not exist")
	default:
		return s.tolerate(err, "the record", "get", "mysqltopologies.porpoise.dev", key.Namespace)
	}
	return nil
}

func (g Gatherer) pods(ctx context.Context, key client.ObjectKey, s *Sources) (bool, error) {
	list := &corev1.PodList{}
	err := g.Client.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingLabels(naming.ClusterSelector(key.Name)))
	if err != nil {
		return false, s.tolerate(err, "pods, lag and GTID sets", "list", "pods", key.Namespace)
	}
	s.Pods = list.Items
	return true, nil
}

// events keeps the newest Events about the cluster's objects.
func (g Gatherer) events(ctx context.Context, namespace string, s *Sources) error {
	about := aboutCluster(s)
	list := &corev1.EventList{}
	for range maxEventPages {
		token := list.Continue
		list = &corev1.EventList{}
		err := g.Client.List(ctx, list, client.InNamespace(namespace), client.Limit(eventPage), client.Continue(token))
		if apierrors.IsResourceExpired(err) {
			// The pages already read are good enough for people.
			break
		}
		if err != nil {
			return s.tolerate(err, "events", "list", "events", namespace)
		}
		for _, e := range list.Items {
			if about(e.InvolvedObject) {
				s.Events = append(s.Events, e)
			}
		}
		if list.Continue == "" {
			break
		}
	}
	s.Events = newest(s.Events, g.MaxEvents)
	return nil
}

// newest keeps the n newest Events, oldest first. Kubelet's own are many: where there are enough, half of the places are
// for what the operator says.
func newest(events []corev1.Event, n int) []corev1.Event {
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		left, _ := lastSeen(a)
		right, _ := lastSeen(b)
		return left.Compare(right)
	})
	isOurs := func(e corev1.Event) bool {
		return strings.HasPrefix(e.InvolvedObject.APIVersion, porpoisev1.GroupVersion.Group+"/")
	}
	ours := 0
	for _, e := range events {
		if isOurs(e) {
			ours++
		}
	}
	ofOthers := len(events) - ours
	keepOurs := min(ours, max(n-n/2, n-ofOthers))
	keepOthers := min(ofOthers, n-keepOurs)
	var out []corev1.Event
	for _, e := range events {
		left, keep := &ofOthers, keepOthers
		if isOurs(e) {
			left, keep = &ours, keepOurs
		}
		if *left <= keep {
			out = append(out, e)
		}
		*left--
	}
	return out
}

// aboutCluster tells whether an Event's object is one of the cluster's, deleted instances included.
func aboutCluster(s *Sources) func(corev1.ObjectReference) bool {
	cluster := s.Cluster.Name
	pods := map[string]bool{}
	for _, p := range s.Pods {
		pods[p.Name] = true
	}
	isInstance := func(name string) bool {
		_, err := naming.Ordinal(cluster, name)
		return err == nil
	}
	return func(ref corev1.ObjectReference) bool {
		switch ref.Kind {
		case "MySQLCluster", "MySQLTopology":
			return ref.Name == cluster && strings.HasPrefix(ref.APIVersion, porpoisev1.GroupVersion.Group+"/")
		case "StatefulSet", "PersistentVolumeClaim":
			return isInstance(ref.Name)
		case "Pod":
			instance, isFirst := strings.CutSuffix(ref.Name, "-0")
			return pods[ref.Name] || isFirst && isInstance(instance)
		}
		return false
	}
}

// tolerate makes a note of what a missing right hides; any other error stays one.
func (s *Sources) tolerate(err error, what, verb, resource, namespace string) error {
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("%s %s in namespace %s: %w", verb, resource, namespace, err)
	}
	s.Notes = append(s.Notes, missingRight(what, verb, resource, namespace))
	return nil
}

// missingRight says which right hides what, and how to ask whether one has it.
func missingRight(what, verb, resource, namespace string) string {
	ask := resource
	if name, subresource, ok := strings.Cut(resource, "/"); ok && name == "pods" {
		ask = name + " --subresource=" + subresource
	}
	return fmt.Sprintf("%s left out: you may not %s %s in namespace %s (see: kubectl auth can-i %s %s -n %s)",
		what, verb, resource, namespace, verb, ask, namespace)
}
