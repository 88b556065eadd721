package env

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
)

// WaitReady waits until a MySQLCluster is Ready with all of its instances.
func (e *Env) WaitReady(ctx context.Context, namespace, name string, within time.Duration) error {
	what := fmt.Sprintf("MySQLCluster %s: wait until it is Ready", name)
	return e.WaitFor(ctx, what, within, func(ctx context.Context) (bool, string, error) {
		cluster := &porpoisev1.MySQLCluster{}
		if err := e.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cluster); err != nil {
			return false, "", err
		}
		return AllReady(cluster), Describe(cluster), nil
	})
}

// AllReady says whether a MySQLCluster is Ready for its present spec, with all instances serving and no change under way.
func AllReady(c *porpoisev1.MySQLCluster) bool {
	return c.Status.ObservedGeneration == c.Generation &&
		c.Status.ReadyReplicas == c.Spec.Replicas &&
		meta.IsStatusConditionTrue(c.Status.Conditions, porpoisev1.ConditionReady)
}

// Describe says in a line how a MySQLCluster is.
func Describe(c *porpoisev1.MySQLCluster) string {
	phase := string(c.Status.Phase)
	if phase == "" {
		phase = "not seen by the operator yet"
	}
	out := fmt.Sprintf("%s, %d of %d instances ready", phase, c.Status.ReadyReplicas, c.Spec.Replicas)
	var states []string
	for _, i := range c.Status.Instances {
		if i.State != porpoisev1.InstanceRunning {
			states = append(states, strings.TrimSpace(i.Name+" "+string(i.State)+" "+i.Message))
		}
	}
	if len(states) > 0 {
		out += "; " + strings.Join(states, ", ")
	}
	if ready := meta.FindStatusCondition(c.Status.Conditions, porpoisev1.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		out += "; " + ready.Reason + ": " + ready.Message
	}
	return out
}

// CreateNamespace makes a namespace marked as made by Options.CreatedBy.
func (e *Env) CreateNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if e.options.CreatedBy != "" {
		ns.Labels = map[string]string{LabelCreatedBy: e.options.CreatedBy}
	}
	if err := e.Client.Create(ctx, ns); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

// DeleteNamespace deletes a namespace with everything in it and waits until it is gone. One that was not made by
// Options.CreatedBy is refused. A namespace that does not exist is fine; the result says whether there was one.
func (e *Env) DeleteNamespace(ctx context.Context, name string) (existed bool, err error) {
	ns := &corev1.Namespace{}
	err = e.Client.Get(ctx, client.ObjectKey{Name: name}, ns)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get namespace %s: %w", name, err)
	}
	if by := ns.Labels[LabelCreatedBy]; by != e.options.CreatedBy {
		return true, fmt.Errorf("namespace %s exists and is not ours (label %s is %q, want %q): it stays untouched; choose another namespace",
			name, LabelCreatedBy, by, e.options.CreatedBy)
	}
	if err := e.emptyNamespace(ctx, name); err != nil {
		return true, err
	}
	if err := client.IgnoreNotFound(e.Client.Delete(ctx, ns)); err != nil {
		return true, fmt.Errorf("delete namespace %s: %w", name, err)
	}
	return true, e.WaitFor(ctx, "Namespace "+name+": wait until it is gone", 3*time.Minute, func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		if apierrors.IsNotFound(err) {
			return true, "gone with all volumes", nil
		}
		pods := &corev1.PodList{}
		_ = e.Client.List(ctx, pods, client.InNamespace(name))
		return false, fmt.Sprintf("%s, %d pods left", ns.Status.Phase, len(pods.Items)), err
	})
}

// emptyNamespace deletes the MySQLClusters and pods of a namespace and waits until no pod is left. Kubernetes would wait
// half of the pods' time to end, a minute, before it looks at a namespace with pods again.
func (e *Env) emptyNamespace(ctx context.Context, name string) error {
	in := client.InNamespace(name)
	err := e.Client.DeleteAllOf(ctx, &porpoisev1.MySQLCluster{}, in)
	// A client that has seen the definition keeps asking for the kind after the definition is gone, and gets Not Found.
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the mysqlclusters of namespace %s: %w", name, err)
	}
	if err := e.Client.DeleteAllOf(ctx, &corev1.Pod{}, in, client.MatchingLabels{LabelCreatedBy: fieldOwner}); err != nil {
		return fmt.Errorf("delete the client pods of namespace %s: %w", name, err)
	}
	return e.WaitFor(ctx, "Namespace "+name+": wait until its pods are gone", 3*time.Minute, func(ctx context.Context) (bool, string, error) {
		pods := &corev1.PodList{}
		if err := e.Client.List(ctx, pods, in); err != nil {
			return false, "", err
		}
		return len(pods.Items) == 0, fmt.Sprintf("%d pods left", len(pods.Items)), nil
	})
}
