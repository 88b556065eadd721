//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
)

const (
	sharedNamespace = "e2e-shared"
	sharedName      = "orders"
)

// shared returns a healthy cluster of three instances that many tests use one after the other: each leaves it as it found
// it. One that a failed test left broken is replaced.
func shared(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{namespace: sharedNamespace, name: sharedName}
	diagnoseFailure(t, sharedNamespace)
	object, err := c.read(t.Context())
	switch {
	case err == nil:
		if sharedUsable(t, c, object) {
			return c
		}
		t.Logf("the shared cluster is not healthy; it is made anew")
	case !apierrors.IsNotFound(err):
		t.Fatal(err)
	}
	if _, err := kubernetes.DeleteNamespace(t.Context(), sharedNamespace); err != nil {
		t.Fatal(err)
	}
	if err := kubernetes.CreateNamespace(t.Context(), sharedNamespace); err != nil {
		t.Fatal(err)
	}
	c = create(t, manifest(sharedNamespace, sharedName, 3))
	c.waitReady(t, creation)
	c.waitSettled(t, recovery)
	return c
}

// sharedUsable waits a little, since the test before may have ended while something was still coming back.
func sharedUsable(t *testing.T, c *cluster, object *porpoisev1.MySQLCluster) bool {
	t.Helper()
	if object.Spec.Replicas != 3 || object.Spec.Image != "" || len(object.Spec.ConfigFrom) > 0 {
		return false
	}
	return kubernetes.WaitReady(t.Context(), c.namespace, c.name, 2*time.Minute) == nil
}

func removeShared(ctx context.Context) error {
	if keep() {
		return nil
	}
	_, err := kubernetes.DeleteNamespace(ctx, sharedNamespace)
	return err
}
