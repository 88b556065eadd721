//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/env"
)

// cluster is a MySQLCluster under test.
type cluster struct {
	namespace, name string
}

// newNamespace makes an empty namespace for a test and removes it at its end. What the last run left there goes first.
func newNamespace(t *testing.T, name string) string {
	t.Helper()
	if _, err := kubernetes.DeleteNamespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := kubernetes.CreateNamespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if keep() {
			return
		}
		// Until all of it is gone, the operator has something to do for it, and the next test may want a quiet one.
		if _, err := kubernetes.DeleteNamespace(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	diagnoseFailure(t, name)
	return name
}

// diagnoseFailure writes everything about a namespace to a folder if the test fails.
func diagnoseFailure(t *testing.T, namespace string) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		dir, err := kubernetes.DumpDiagnostics(context.Background(), t.Name(), namespace)
		if err != nil {
			t.Errorf("write diagnostics: %v", err)
			return
		}
		t.Logf("diagnostics: %s", dir)
	})
}

// manifest is a small MySQLCluster.
func manifest(namespace, name string, replicas int32, changes ...func(*porpoisev1.MySQLCluster)) *porpoisev1.MySQLCluster {
	c := &porpoisev1.MySQLCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: porpoisev1.MySQLClusterSpec{
			Version: "9.7", Replicas: replicas,
			Storage: porpoisev1.StorageSpec{Size: resource.MustParse("1Gi")},
			// Tests take primaries away more often than anything that is worth a failover would.
			Failover: porpoisev1.FailoverSpec{MaxFailovers: 1000},
		},
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

// create makes a MySQLCluster.
func create(t *testing.T, object *porpoisev1.MySQLCluster) *cluster {
	t.Helper()
	if err := kubernetes.Client.Create(t.Context(), object); err != nil {
		t.Fatalf("create MySQLCluster %s/%s: %v", object.Namespace, object.Name, err)
	}
	return &cluster{namespace: object.Namespace, name: object.Name}
}

// eventually polls a condition; its state is printed while it lasts and in the failure.
func eventually(t *testing.T, what string, within time.Duration, check env.Check) {
	t.Helper()
	if err := kubernetes.WaitFor(t.Context(), t.Name()+": "+what, within, check); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) waitReady(t *testing.T, within time.Duration) {
	t.Helper()
	if err := kubernetes.WaitReady(t.Context(), c.namespace, c.name, within); err != nil {
		t.Fatal(err)
	}
}

// waitSettled waits until it is Ready and every instance runs what is asked for now.
func (c *cluster) waitSettled(t *testing.T, within time.Duration) {
	t.Helper()
	eventually(t, "MySQLCluster "+c.name+" settles", within, func(ctx context.Context) (bool, string, error) {
		object, err := c.read(ctx)
		if err != nil {
			return false, "", err
		}
		progressing := meta.FindStatusCondition(object.Status.Conditions, porpoisev1.ConditionProgressing)
		settled := env.AllReady(object) && object.Status.Phase == porpoisev1.PhaseRunning &&
			object.Status.Revisions.Stable == object.Status.Revisions.Target &&
			progressing != nil && progressing.Status == metav1.ConditionFalse &&
			meta.IsStatusConditionFalse(object.Status.Conditions, porpoisev1.ConditionStalled)
		state := env.Describe(object)
		if progressing != nil {
			state += "; " + progressing.Message
		}
		return settled, state, nil
	})
}

func (c *cluster) key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: c.name}
}

func (c *cluster) read(ctx context.Context) (*porpoisev1.MySQLCluster, error) {
	object := &porpoisev1.MySQLCluster{}
	if err := kubernetes.Client.Get(ctx, c.key(), object); err != nil {
		return nil, fmt.Errorf("get MySQLCluster %s: %w", c.key(), err)
	}
	return object, nil
}

func (c *cluster) get(t *testing.T) *porpoisev1.MySQLCluster {
	t.Helper()
	object, err := c.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func (c *cluster) readTopology(ctx context.Context) (*porpoisev1.MySQLTopology, error) {
	object := &porpoisev1.MySQLTopology{}
	if err := kubernetes.Client.Get(ctx, c.key(), object); err != nil {
		return nil, fmt.Errorf("get MySQLTopology %s: %w", c.key(), err)
	}
	return object, nil
}

func (c *cluster) topology(t *testing.T) *porpoisev1.MySQLTopology {
	t.Helper()
	object, err := c.readTopology(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// primary names the primary instance of the record.
func (c *cluster) primary(t *testing.T) string {
	t.Helper()
	name := c.topology(t).Status.Primary
	if name == "" {
		t.Fatalf("MySQLTopology %s names no primary", c.key())
	}
	return name
}

// replicas names the instances that are not primary, by ordinal.
func (c *cluster) replicas(t *testing.T) []string {
	t.Helper()
	topology := c.topology(t)
	return slices.DeleteFunc(slices.Clone(topology.Spec.Instances), func(name string) bool { return name == topology.Status.Primary })
}

// change patches the specification.
func (c *cluster) change(t *testing.T, change func(*porpoisev1.MySQLCluster)) {
	t.Helper()
	object := c.get(t)
	old := object.DeepCopy()
	change(object)
	if err := kubernetes.Client.Patch(t.Context(), object, client.MergeFrom(old)); err != nil {
		t.Fatalf("patch MySQLCluster %s: %v", c.key(), err)
	}
}

// delete deletes the MySQLCluster and waits until its pods are gone.
func (c *cluster) delete(t *testing.T) {
	t.Helper()
	if err := kubernetes.Client.Delete(t.Context(), c.get(t)); err != nil {
		t.Fatalf("delete MySQLCluster %s: %v", c.key(), err)
	}
	eventually(t, "MySQLCluster "+c.name+" and its pods go", recovery, func(ctx context.Context) (bool, string, error) {
		if _, err := c.read(ctx); !apierrors.IsNotFound(err) {
			return false, "MySQLCluster exists", err
		}
		pods, err := c.readPods(ctx)
		return len(pods) == 0, fmt.Sprintf("%d pods left", len(pods)), err
	})
}

// readPods returns the pods of instances by instance.
func (c *cluster) readPods(ctx context.Context) (map[string]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := kubernetes.Client.List(ctx, list, client.InNamespace(c.namespace), client.MatchingLabels(naming.ClusterSelector(c.name)))
	if err != nil {
		return nil, fmt.Errorf("list pods of MySQLCluster %s: %w", c.key(), err)
	}
	pods := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		pods[pod.Labels[naming.LabelInstance]] = pod
	}
	return pods, nil
}

func (c *cluster) pods(t *testing.T) map[string]corev1.Pod {
	t.Helper()
	pods, err := c.readPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

// lives says which lives of pods there are: a pod that is made again, or whose container is started again, is another.
func (c *cluster) lives(t *testing.T) map[string]string {
	t.Helper()
	lives := map[string]string{}
	for name, pod := range c.pods(t) {
		restarts := int32(0)
		for _, status := range pod.Status.ContainerStatuses {
			restarts += status.RestartCount
		}
		lives[name] = fmt.Sprintf("%s, %d restarts", pod.UID, restarts)
	}
	return lives
}

// deletePod deletes an instance's pod and returns once another one has its name. grace 0 kills it.
func (c *cluster) deletePod(t *testing.T, instance string, options ...client.DeleteOption) {
	t.Helper()
	pod, ok := c.pods(t)[instance]
	if !ok {
		t.Fatalf("instance %s has no pod", instance)
	}
	if err := kubernetes.Client.Delete(t.Context(), &pod, options...); err != nil {
		t.Fatalf("delete pod %s: %v", pod.Name, err)
	}
	eventually(t, "pod of "+instance+" is replaced", recovery, func(ctx context.Context) (bool, string, error) {
		pods, err := c.readPods(ctx)
		if err != nil {
			return false, "", err
		}
		fresh, ok := pods[instance]
		return ok && fresh.UID != pod.UID, string(fresh.Status.Phase), nil
	})
}

// claims returns the volume claims by name.
func (c *cluster) claims(t *testing.T) map[string]corev1.PersistentVolumeClaim {
	t.Helper()
	claims, err := c.readClaims(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func (c *cluster) readClaims(ctx context.Context) (map[string]corev1.PersistentVolumeClaim, error) {
	list := &corev1.PersistentVolumeClaimList{}
	err := kubernetes.Client.List(ctx, list, client.InNamespace(c.namespace), client.MatchingLabels{naming.LabelCluster: c.name})
	if err != nil {
		return nil, fmt.Errorf("list claims of MySQLCluster %s: %w", c.key(), err)
	}
	claims := map[string]corev1.PersistentVolumeClaim{}
	for _, claim := range list.Items {
		claims[claim.Name] = claim
	}
	return claims, nil
}

// waitStalled waits until the cluster says that a person is needed, for a reason, in words that name what is wrong, and
// that there is an Event which says so too.
func (c *cluster) waitStalled(t *testing.T, reason string, words ...string) {
	t.Helper()
	c.waitStalledFor(t, []string{reason}, words...)
}

// waitStalledFor is waitStalled where more than one reason is right.
func (c *cluster) waitStalledFor(t *testing.T, reasons []string, words ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("MySQLCluster %s stalls, %s", c.name, reasons), notice, func(ctx context.Context) (bool, string, error) {
		object, err := c.read(ctx)
		if err != nil {
			return false, "", err
		}
		stalled := meta.FindStatusCondition(object.Status.Conditions, porpoisev1.ConditionStalled)
		if stalled == nil {
			return false, "no condition Stalled yet", nil
		}
		state := fmt.Sprintf("Stalled is %s, %s: %s", stalled.Status, stalled.Reason, stalled.Message)
		return stalled.Status == metav1.ConditionTrue && slices.Contains(reasons, stalled.Reason) && lacking(stalled.Message, words) == "", state, nil
	})
	c.waitEvent(t, words...)
}

// waitHealed waits until no person is needed any more.
func (c *cluster) waitHealed(t *testing.T) {
	t.Helper()
	eventually(t, "MySQLCluster "+c.name+" stalls no longer", notice, func(ctx context.Context) (bool, string, error) {
		object, err := c.read(ctx)
		if err != nil {
			return false, "", err
		}
		stalled := meta.FindStatusCondition(object.Status.Conditions, porpoisev1.ConditionStalled)
		if stalled == nil {
			return false, "no condition Stalled", nil
		}
		healed := stalled.Status == metav1.ConditionFalse && object.Status.ObservedGeneration == object.Generation
		return healed, fmt.Sprintf("%s: %s", stalled.Reason, stalled.Message), nil
	})
}

// waitEvent waits for an Event of the MySQLCluster whose reason and message hold all words.
func (c *cluster) waitEvent(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("an Event says %q", words), notice, func(ctx context.Context) (bool, string, error) {
		list := &corev1.EventList{}
		if err := kubernetes.Client.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
			return false, "", err
		}
		last := "no Event of it"
		for _, event := range list.Items {
			if event.InvolvedObject.Kind != "MySQLCluster" || event.InvolvedObject.Name != c.name {
				continue
			}
			last = event.Reason + ": " + event.Message
			if lacking(last, words) == "" {
				return true, last, nil
			}
		}
		return false, last, nil
	})
}

// lacking returns the first word that a text does not hold.
func lacking(text string, words []string) string {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return word
		}
	}
	return ""
}
