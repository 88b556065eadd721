package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/env"
)

// Names of what is measured in a real Kubernetes.
const (
	benchNamespace = "porpoise-bench"
	benchCluster   = "bench"
)

// downTimeout bounds taking everything away, also after an interrupt.
const downTimeout = 3 * time.Minute

// kubernetes is a real one, with the operator and an empty namespace.
type kubernetes struct {
	*bench
	env   *env.Env
	watch client.WithWatch
}

// onKubernetes brings everything up, measures, and takes it down again.
func (b *bench) onKubernetes(ctx context.Context, do func(context.Context, *kubernetes) error) (err error) {
	if !b.keep && !b.env.External() && b.env.Kubeconfig == "" {
		// Also what did not come up whole goes down.
		defer func() {
			local, localErr := env.NewLocal(b.env)
			if localErr == nil {
				down, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
				defer cancel()
				localErr = local.Down(down)
			}
			err = errors.Join(err, localErr)
		}()
	}
	e, err := env.Up(ctx, b.env)
	if err != nil {
		return err
	}
	k := &kubernetes{bench: b, env: e}
	if k.watch, err = client.NewWithWatch(e.Config, client.Options{Scheme: e.Client.Scheme()}); err != nil {
		return fmt.Errorf("make a client that watches: %w", err)
	}
	if err := k.freshNamespace(ctx); err != nil {
		return err
	}
	if err := do(ctx, k); err != nil {
		if ctx.Err() != nil {
			return err
		}
		dir, dumpErr := e.DumpDiagnostics(ctx, err.Error(), benchNamespace)
		return errors.Join(fmt.Errorf("%w\n  objects, events and logs: %s", err, dir), dumpErr)
	}
	if b.env.External() {
		_, err = e.DeleteNamespace(ctx, benchNamespace)
	}
	return err
}

func (k *kubernetes) freshNamespace(ctx context.Context) error {
	if _, err := k.env.DeleteNamespace(ctx, benchNamespace); err != nil {
		return err
	}
	return k.env.CreateNamespace(ctx, benchNamespace)
}

// clusterOf is the MySQLCluster that is measured: as in the README, with small resources.
func clusterOf(namespace, name string, instances int) *porpoisev1.MySQLCluster {
	return &porpoisev1.MySQLCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: porpoisev1.MySQLClusterSpec{
			Version: "9.7", Replicas: int32(instances),
			Storage: porpoisev1.StorageSpec{Size: resource.MustParse("1Gi"), ReclaimPolicy: porpoisev1.ReclaimDelete},
			Resources: porpoisev1.ResourcesSpec{
				Requests: porpoisev1.ComputeResources{CPU: new(resource.MustParse("100m")), Memory: new(resource.MustParse("512Mi"))},
				Limits:   porpoisev1.ComputeResources{Memory: new(resource.MustParse("1Gi"))},
			},
		},
	}
}

// remove deletes the cluster and waits until nothing of it is left: pods, claims, volumes, record.
func (k *kubernetes) remove(ctx context.Context) error {
	if err := client.IgnoreNotFound(k.env.Client.Delete(ctx, clusterOf(benchNamespace, benchCluster, 1))); err != nil {
		return fmt.Errorf("delete MySQLCluster %s: %w", benchCluster, err)
	}
	return k.env.WaitFor(ctx, "MySQLCluster "+benchCluster+": wait until it is gone with its volumes", 3*time.Minute, func(ctx context.Context) (bool, string, error) {
		left, err := k.left(ctx)
		return left == "", left, err
	})
}

// left says what is left of the cluster; empty: nothing.
func (k *kubernetes) left(ctx context.Context) (string, error) {
	in := []client.ListOption{client.InNamespace(benchNamespace), client.MatchingLabels{naming.LabelCluster: benchCluster}}
	for _, l := range []struct {
		what string
		list client.ObjectList
		opts []client.ListOption
	}{
		{"pods", &corev1.PodList{}, in},
		{"claims", &corev1.PersistentVolumeClaimList{}, in},
		{"records", &porpoisev1.MySQLTopologyList{}, []client.ListOption{client.InNamespace(benchNamespace)}},
		{"clusters", &porpoisev1.MySQLClusterList{}, []client.ListOption{client.InNamespace(benchNamespace)}},
	} {
		if err := k.env.Client.List(ctx, l.list, l.opts...); err != nil {
			return "", fmt.Errorf("list %s: %w", l.what, err)
		}
		if n := lengthOf(l.list); n > 0 {
			return fmt.Sprintf("%d %s", n, l.what), nil
		}
	}
	volumes := &corev1.PersistentVolumeList{}
	if err := k.env.Client.List(ctx, volumes); err != nil {
		return "", fmt.Errorf("list volumes: %w", err)
	}
	for _, v := range volumes.Items {
		if ref := v.Spec.ClaimRef; ref != nil && ref.Namespace == benchNamespace {
			return "volume " + v.Name, nil
		}
	}
	return "", nil
}

func lengthOf(list client.ObjectList) int {
	switch l := list.(type) {
	case *corev1.PodList:
		return len(l.Items)
	case *corev1.PersistentVolumeClaimList:
		return len(l.Items)
	case *porpoisev1.MySQLTopologyList:
		return len(l.Items)
	case *porpoisev1.MySQLClusterList:
		return len(l.Items)
	}
	return 0
}
