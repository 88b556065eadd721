//go:build apiserver

package mysqlcluster_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// world plays, in one namespace, everybody whom an API server alone lacks: the StatefulSet controller, the kubelet, the
// provisioner of volumes and the topology lane.
type world struct {
	namespace string

	mu sync.Mutex
	// check is the termination message of configuration checks.
	check string
	// refuse keeps pods from being made.
	refuse bool
	// primary, empty: the first instance. It hands over before it is restarted or removed, unless hold is true.
	primary string
	hold    bool
	// switchover is what became of the last request; refusal refuses the next one.
	switchover *v1.SwitchoverStatus
	refusal    string
	// deleted lists instances whose pods were deleted by the cluster lane, in order.
	deleted []string
	pods    map[string]string
}

const checkPassed = `{"ok":true,"version":"9.7.4"}`

// startWorld runs until the test ends.
func startWorld(t *testing.T, namespace string) *world {
	t.Helper()
	w := &world{namespace: namespace, check: checkPassed, pods: map[string]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		tick := time.NewTicker(30 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// Conflicts are tried again at the next tick; a real failure shows as what the test waits for.
				_ = w.step(ctx)
			}
		}
	}()
	return w
}

func (w *world) set(change func(*world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

func (w *world) restarted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.deleted)
}

func (w *world) step(ctx context.Context) error {
	for _, part := range []func(context.Context) error{w.runChecks, w.bindClaims, w.runSets, w.runTopologies} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) runChecks(ctx context.Context) error {
	w.mu.Lock()
	message := w.check
	w.mu.Unlock()
	if message == "" {
		return nil
	}
	var pods corev1.PodList
	if err := admin.List(ctx, &pods, client.InNamespace(w.namespace), client.MatchingLabels{naming.LabelComponent: "config-check"}); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:  "check",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message, FinishedAt: metav1.Now()}},
		}}
		if err := admin.Status().Update(ctx, &pod); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) bindClaims(ctx context.Context) error {
	var claims corev1.PersistentVolumeClaimList
	if err := admin.List(ctx, &claims, client.InNamespace(w.namespace)); err != nil {
		return err
	}
	for _, claim := range claims.Items {
		if claim.Status.Phase == corev1.ClaimBound || ptr.Deref(claim.Spec.StorageClassName, "") == "missing" {
			continue
		}
		claim.Status.Phase = corev1.ClaimBound
		if err := admin.Status().Update(ctx, &claim); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) runSets(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var sets appsv1.StatefulSetList
	if err := admin.List(ctx, &sets, client.InNamespace(w.namespace)); err != nil {
		return err
	}
	for _, set := range sets.Items {
		if set.Status.ObservedGeneration != set.Generation {
			set.Status.ObservedGeneration = set.Generation
			if err := admin.Status().Update(ctx, &set); err != nil {
				return err
			}
		}
		if err := w.runPod(ctx, &set); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) runPod(ctx context.Context, set *appsv1.StatefulSet) error {
	pod := &corev1.Pod{}
	err := admin.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: naming.Pod(set.Name)}, pod)
	if !apierrors.IsNotFound(err) {
		return err
	}
	if w.pods[set.Name] != "" {
		w.deleted = append(w.deleted, set.Name)
		delete(w.pods, set.Name)
	}
	if w.refuse {
		return nil
	}
	pod = &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Name, pod.Namespace = naming.Pod(set.Name), set.Namespace
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0) // Nobody would end it.
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	if err := admin.Create(ctx, pod); err != nil {
		return err
	}
	w.pods[set.Name] = string(pod.UID)
	pod.Status.Phase = corev1.PodRunning
	return admin.Status().Update(ctx, pod)
}

// runTopologies makes the first instance primary and every other with a pod a member, but for one being restarted.
func (w *world) runTopologies(ctx context.Context) error {
	var topologies v1.MySQLTopologyList
	if err := admin.List(ctx, &topologies, client.InNamespace(w.namespace)); err != nil {
		return err
	}
	for _, topology := range topologies.Items {
		status := w.topologyStatus(&topology)
		if status == nil {
			continue
		}
		topology.Status = *status
		if err := admin.Status().Update(ctx, &topology); err != nil {
			return err
		}
	}
	return nil
}

// handOver says who is primary now: what was asked for, or another one where the present one is to be restarted or removed.
func (w *world) handOver(t *v1.MySQLTopology) string {
	if w.primary == "" {
		w.primary = t.Spec.Instances[0]
	}
	if ask := t.Spec.Switchover; ask != nil && !w.hold && (w.switchover == nil || w.switchover.ID != ask.ID) {
		w.switchover = &v1.SwitchoverStatus{ID: ask.ID, State: v1.SwitchoverRefused, Message: w.refusal}
		if w.refusal == "" {
			w.switchover.State, w.switchover.Message = v1.SwitchoverDone, ask.To+" is primary"
			w.primary = ask.To
		}
		return w.primary
	}
	if leaves := !slices.Contains(t.Spec.Instances, w.primary); !w.hold && (leaves || t.Spec.Restarting == w.primary) {
		for _, name := range t.Spec.Instances {
			if name != w.primary && w.pods[name] != "" {
				w.primary = name
				break
			}
		}
	}
	return w.primary
}

func (w *world) topologyStatus(t *v1.MySQLTopology) *v1.MySQLTopologyStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	status := v1.MySQLTopologyStatus{
		ObservedGeneration: t.Generation, Phase: v1.TopologyStable, Reason: v1.TopologyHealthy, Message: "all is well",
		Epoch: max(t.Status.Epoch, 1), Primary: w.handOver(t), Routed: true, RestartReady: t.Spec.Restarting,
		Quorum: &v1.Quorum{RequiredAcks: t.Spec.Acks}, Switchover: w.switchover, History: t.Status.History,
	}
	if t.Status.Primary != "" && t.Status.Primary != status.Primary {
		status.Epoch++
		status.History = append(status.History, v1.EpochRecord{Epoch: status.Epoch, Instance: status.Primary, PromotedAt: metav1.Now(), Cause: v1.CauseSwitchover})
	}
	if t.Spec.Restarting == status.Primary && w.hold {
		status.RestartReady = ""
	}
	names := slices.Clone(t.Spec.Instances)
	if !slices.Contains(names, status.Primary) {
		names = append(names, status.Primary)
	}
	for _, name := range names {
		i := v1.TopologyInstance{Name: name, Role: v1.RoleReplica, State: v1.InstancePending, ServerUUID: "uuid-" + name}
		if name == status.Primary {
			i.Role = v1.RolePrimary
		}
		if w.pods[name] != "" {
			i.State, i.Version = v1.InstanceRunning, "9.7.4"
		} else if name == status.Primary && t.Spec.Restarting == "" {
			return nil
		}
		if name != status.Primary && name != t.Spec.Restarting && i.State == v1.InstanceRunning {
			status.Quorum.Members = append(status.Quorum.Members, v1.QuorumMember{Name: name, ServerUUID: i.ServerUUID, Incarnation: "1"})
		}
		status.Instances = append(status.Instances, i)
	}
	if t.Status.Quorum != nil {
		status.Quorum.Generation = t.Status.Quorum.Generation
		if !slices.Equal(t.Status.Quorum.Members, status.Quorum.Members) {
			status.Quorum.Generation++
		}
	}
	if equalStatus(t.Status, status) {
		return nil
	}
	return &status
}
