package topology

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentclient"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// containerMySQL is the container that the agent runs in; its builder (internal/desired) belongs to the other lane.
const containerMySQL = "mysqld"

// sampleTimeout bounds asking one agent for a fresh document.
const sampleTimeout = time.Second

// load takes the newest record known: the cache may lag behind what this process wrote, and the first time, or after a
// lost race, the API server itself is asked.
func (s *scope) load(ctx context.Context) (outcome, error) {
	var cached v1.MySQLTopology
	if err := s.client.Get(ctx, s.key, &cached); err != nil {
		if apierrors.IsNotFound(err) {
			s.forget(s.key)
			return done, nil
		}
		return done, err
	}
	s.topo = s.memory.record(s.key)
	if s.topo == nil || s.topo.UID != cached.UID {
		var live v1.MySQLTopology
		if err := s.live.Get(ctx, s.key, &live); err != nil {
			return done, client.IgnoreNotFound(err)
		}
		s.topo = &live
	}
	if newer(&cached, s.topo) {
		s.topo = &cached
	}
	s.memory.keep(s.key, s.topo)
	if !s.topo.DeletionTimestamp.IsZero() {
		s.forget(s.key)
		return done, nil
	}
	return goOn, nil
}

// forget drops all that is kept of a cluster that does not exist.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.pool.Forget(key)
	r.streamCount.forget(key)
	r.memory.forget(key)
	r.executor.forget(key)
	r.credentials.forget(key)
}

// streams makes the agents' streams be what the pods ask for.
func (s *scope) streams(ctx context.Context) (outcome, error) {
	pods, err := s.Reconciler.pods(ctx, s.key)
	if err != nil {
		return done, err
	}
	s.pods = pods
	return goOn, s.keepStreams(ctx, s.key, pods)
}

// pods returns the cluster's pods by instance. While an old pod is ending beside a new one the new one counts.
func (r *Reconciler) pods(ctx context.Context, key types.NamespacedName) (map[string]*corev1.Pod, error) {
	var found corev1.PodList
	err := r.client.List(ctx, &found, client.InNamespace(key.Namespace), client.MatchingLabels(naming.ClusterSelector(key.Name)))
	if err != nil {
		return nil, err
	}
	out := map[string]*corev1.Pod{}
	for i := range found.Items {
		pod := &found.Items[i]
		if name := pod.Labels[naming.LabelInstance]; name != "" && pod.Name == naming.Pod(name) {
			out[name] = pod
		}
	}
	return out, nil
}

func (r *Reconciler) keepStreams(ctx context.Context, key types.NamespacedName, pods map[string]*corev1.Pod) error {
	credentials, err := r.credentials.get(ctx, key)
	if credentials == nil {
		return err // Without a certificate no agent answers; the Secret's arrival triggers.
	}
	if err != nil {
		// What is known goes on serving: a Secret that somebody spoilt must not end all decisions about the cluster.
		log.FromContext(ctx).Error(err, "Read the manager's certificate anew; going on with the former one")
	}
	var targets []agentclient.Target
	for name, pod := range pods {
		if pod.Status.PodIP == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		targets = append(targets, agentclient.Target{
			Instance: name, Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(naming.PortAgent)),
			ServerName: naming.Host(key.Name, key.Namespace, name),
		})
	}
	r.pool.Ensure(key, credentials, targets)
	return nil
}

// sample asks for fresh documents where the last decision waits for some: the primary's first, so that the others are
// compared with something older.
func (s *scope) sample(ctx context.Context) (outcome, error) {
	due := s.memory.due(s.key, s.now())
	if len(due) == 0 {
		return goOn, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	// An agent that does not answer shows as such in the snapshot; there is nothing else to do about it here.
	_ = s.pool.Sample(ctx, s.key, due[0])
	var wg sync.WaitGroup
	for _, name := range due[1:] {
		wg.Go(func() { _ = s.pool.Sample(ctx, s.key, name) })
	}
	wg.Wait()
	return goOn, nil
}

// confirmAbsence asks the API server itself for the pods of members that the cache does not have: a seat is given up on that.
func (s *scope) confirmAbsence(ctx context.Context) error {
	if s.topo.Status.Quorum == nil {
		return nil
	}
	for _, m := range s.topo.Status.Quorum.Members {
		if s.pods[m.Name] != nil || slices.Contains(s.topo.Spec.Instances, m.Name) {
			continue
		}
		var pod corev1.Pod
		err := s.live.Get(ctx, types.NamespacedName{Namespace: s.key.Namespace, Name: naming.Pod(m.Name)}, &pod)
		if err == nil {
			s.pods[m.Name] = &pod
		} else if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// observe puts the snapshot together.
func (s *scope) observe(ctx context.Context) (outcome, error) {
	if err := s.confirmAbsence(ctx); err != nil {
		return done, err
	}
	owner := controllerOf(s.topo)
	s.snapshot = topology.Snapshot{
		Namespace: s.key.Namespace, Cluster: s.key.Name, Generation: s.topo.Generation, Spec: s.topo.Spec,
		Suspect:      s.pool.Suspect(),
		FreshVolumes: owner != nil && string(owner.UID) == s.topo.Spec.ClusterID,
	}
	heard := s.pool.Observe(s.key)
	for _, name := range s.names() {
		obs := heard[name]
		s.snapshot.Instances = append(s.snapshot.Instances, topology.Instance{
			Name: name, Host: naming.Host(s.key.Name, s.key.Namespace, name),
			Wanted: slices.Contains(s.topo.Spec.Instances, name),
			Pod:    describePod(s.pods[name]), Status: obs.Status,
			SilentSince: obs.SilentSince, SampledAfter: obs.SampledAfter, HeldSince: obs.HeldSince, ExecutedSince: obs.ExecutedSince, ProcessSince: obs.ProcessSince,
		})
	}
	return goOn, nil
}

// names lists the wanted instances in order, then those that only the record or a pod knows, sorted.
func (s *scope) names() []string {
	names := slices.Clone(s.topo.Spec.Instances)
	var others []string
	if s.topo.Status.Primary != "" {
		others = append(others, s.topo.Status.Primary)
	}
	if q := s.topo.Status.Quorum; q != nil {
		for _, m := range q.Members {
			others = append(others, m.Name)
		}
	}
	for name := range s.pods {
		others = append(others, name)
	}
	slices.Sort(others)
	for _, name := range slices.Compact(others) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// describePod reduces a pod to what decisions need.
func describePod(pod *corev1.Pod) topology.Pod {
	if pod == nil {
		return topology.Pod{}
	}
	out := topology.Pod{Exists: true, UID: string(pod.UID), Bound: pod.Spec.NodeName != "", Terminating: !pod.DeletionTimestamp.IsZero()}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == containerMySQL {
			out.Running = c.State.Running != nil && pod.Status.PodIP != ""
		}
	}
	if !out.Running {
		out.Message = podMessage(pod)
	}
	return out
}

// podMessage says why a pod does not run, in words that do not change while the cause does not.
func podMessage(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			if w.Reason == "ErrImagePull" {
				return "ImagePullBackOff" // The kubelet alternates between the two.
			}
			return w.Reason
		}
	}
	return ""
}
