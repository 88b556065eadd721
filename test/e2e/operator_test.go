//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/env"
)

// managerLabels select the operator's pods.
var managerLabels = client.MatchingLabels{"app.kubernetes.io/component": "manager"}

func managerPods(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := kubernetes.Client.List(ctx, list, client.InNamespace(env.OperatorNamespace), managerLabels); err != nil {
		return nil, fmt.Errorf("list the operator's pods: %w", err)
	}
	return list.Items, nil
}

// killOperator kills every manager at once, without giving it time to let go of its leases.
func killOperator(t *testing.T) {
	t.Helper()
	pods, err := managerPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(pods) == 0 {
		t.Fatal("the operator has no pods to kill")
	}
	for i := range pods {
		err := kubernetes.Client.Delete(t.Context(), &pods[i], client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil {
			t.Fatalf("kill pod %s: %v", pods[i].Name, err)
		}
	}
}

func operatorDeployment(ctx context.Context) (*appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	if err := kubernetes.Client.List(ctx, list, client.InNamespace(env.OperatorNamespace), managerLabels); err != nil {
		return nil, fmt.Errorf("list the operator's Deployment: %w", err)
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("want one Deployment of the operator, found %d", len(list.Items))
	}
	return &list.Items[0], nil
}

// stopOperator scales the operator to nothing and returns what starts it again. The end of the test does too.
func stopOperator(t *testing.T) (start func()) {
	t.Helper()
	deployment, err := operatorDeployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	replicas := *deployment.Spec.Replicas
	if err := scaleOperator(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scaleOperator(context.Background(), replicas); err != nil {
			t.Errorf("start the operator again: %v", err)
		}
	})
	eventually(t, "the operator is stopped", recovery, func(ctx context.Context) (bool, string, error) {
		pods, err := managerPods(ctx)
		return len(pods) == 0, fmt.Sprintf("%d pods left", len(pods)), err
	})
	return func() {
		if err := scaleOperator(t.Context(), replicas); err != nil {
			t.Fatal(err)
		}
	}
}

func scaleOperator(ctx context.Context, replicas int32) error {
	deployment, err := operatorDeployment(ctx)
	if err != nil {
		return err
	}
	old := deployment.DeepCopy()
	deployment.Spec.Replicas = &replicas
	if err := kubernetes.Client.Patch(ctx, deployment, client.MergeFrom(old)); err != nil {
		return fmt.Errorf("scale the operator to %d: %w", replicas, err)
	}
	return nil
}

// stage is a point in the making of a cluster.
type stage struct {
	name    string
	reached func(ctx context.Context, c *cluster) (bool, error)
}

// stages in the order in which they come. A manager that is killed at any of them is resumed by the next (INV-6).
var stages = []stage{
	{"the object was just made", func(context.Context, *cluster) (bool, error) { return true, nil }},
	{"StatefulSets are there", func(ctx context.Context, c *cluster) (bool, error) {
		list := &appsv1.StatefulSetList{}
		err := kubernetes.Client.List(ctx, list, client.InNamespace(c.namespace), client.MatchingLabels{naming.LabelCluster: c.name})
		return len(list.Items) > 0, err
	}},
	{"the first primary is chosen", func(ctx context.Context, c *cluster) (bool, error) {
		topology, err := c.readTopology(ctx)
		return err == nil && topology.Status.Epoch > 0, client.IgnoreNotFound(err)
	}},
	{"the quorum is being made", func(ctx context.Context, c *cluster) (bool, error) {
		topology, err := c.readTopology(ctx)
		return err == nil && topology.Status.Quorum != nil && len(topology.Status.Quorum.Members) > 0, client.IgnoreNotFound(err)
	}},
}

// TestOperatorKilledDuringCreation kills both managers at several stages of creation. The next ones go on from there.
func TestOperatorKilledDuringCreation(t *testing.T) {
	c := create(t, manifest(newNamespace(t, "e2e-killed-operator"), "stubborn", 3))
	for _, stage := range stages {
		eventually(t, "stage: "+stage.name, creation, func(ctx context.Context) (bool, string, error) {
			reached, err := stage.reached(ctx, c)
			return reached, fmt.Sprintf("reached: %t", reached), err
		})
		killOperator(t)
	}
	c.waitReady(t, creation)
	c.waitWritable(t)
	for _, replica := range c.replicas(t) {
		waitValue(t, c.instance(replica), "SELECT COUNT(*) > 0 FROM probe", "1")
	}
	topology := c.topology(t)
	for _, record := range topology.Status.History {
		if record.Instance != topology.Status.Primary {
			t.Errorf("epoch %d had primary %s, and now it is %s: no instance failed", record.Epoch, record.Instance, topology.Status.Primary)
		}
	}
}

// TestPrimaryPodDeletedWhileOperatorIsStopped: a pod that Kubernetes makes again has its role from its template, so that the
// Service finds it once the role is confirmed.
func TestPrimaryPodDeletedWhileOperatorIsStopped(t *testing.T) {
	c := shared(t)
	w := c.startWriters(t, "stopped_operator", 2)
	primary := c.primary(t)
	w.stop()

	start := stopOperator(t)
	c.deletePod(t, primary)
	eventually(t, "the new pod runs and has its role", recovery, func(ctx context.Context) (bool, string, error) {
		pods, err := c.readPods(ctx)
		pod := pods[primary]
		role := pod.Labels[naming.LabelRole]
		return pod.Status.Phase == corev1.PodRunning && role == naming.RolePrimary, fmt.Sprintf("%s, role %q", pod.Status.Phase, role), err
	})
	start()
	eventually(t, "the Service leads to the primary", recovery, func(ctx context.Context) (bool, string, error) {
		pods, err := kubernetes.ReadyPods(ctx, c.namespace, c.hostReadWrite())
		return len(pods) == 1 && pods[0] == naming.Pod(c.primary(t)), fmt.Sprint(pods), err
	})
	c.waitWritable(t)
	c.waitReady(t, recovery)
	w.verify(t)
	if phase := c.get(t).Status.Phase; phase == porpoisev1.PhaseBlocked {
		t.Errorf("the cluster is %s though it takes writes", phase)
	}
}
