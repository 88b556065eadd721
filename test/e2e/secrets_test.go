//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// TestDeletedSecretsComeBack deletes every kind of Secret of a running cluster, one after the other. Each is made again and
// told of, nothing is restarted, and the cluster goes on taking writes.
func TestDeletedSecretsComeBack(t *testing.T) {
	c := shared(t)
	before := c.lives(t)
	w := c.startWriters(t, "deleted_secrets", 1)
	for _, name := range []string{
		naming.SecretInstanceTLS(c.replicas(t)[0]),
		naming.SecretManagerTLS(c.name),
		naming.SecretViewerTLS(c.name),
		naming.SecretCA(c.name),
	} {
		t.Run(name, func(t *testing.T) {
			deleteSecret(t, c, name)
			w.waitAcked(t, 20)
			c.waitReady(t, recovery)
			if object := c.get(t); !meta.IsStatusConditionTrue(object.Status.Conditions, porpoisev1.ConditionCertificatesValid) {
				t.Errorf("certificates are not valid: %+v", meta.FindStatusCondition(object.Status.Conditions, porpoisev1.ConditionCertificatesValid))
			}
		})
	}
	w.verify(t)
	t.Run(naming.SecretApp(c.name), func(t *testing.T) {
		deleteSecret(t, c, naming.SecretApp(c.name))
		// The kubelet brings the new password to the primary's agent, which sets it.
		c.waitWritable(t)
	})
	// The new authority is what clients verify by now, and replicas still follow.
	app := c.clientPod(t)
	t.Cleanup(func() { removeClientOf(t, c, app.Name) })
	eventually(t, "an application verifies the server and logs in", recovery, func(ctx context.Context) (bool, string, error) {
		out, err := app.SQL(ctx, c.hostReadWrite(), "SELECT COUNT(*) > 0 FROM probe")
		return out == "1", out, err
	})
	if after := c.lives(t); !maps.Equal(before, after) {
		t.Errorf("pods were restarted: before %v, after %v", before, after)
	}
}

func removeClientOf(t *testing.T, c *cluster, name string) {
	t.Helper()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = c.namespace, name
	if err := client.IgnoreNotFound(kubernetes.Client.Delete(context.Background(), pod)); err != nil {
		t.Errorf("delete pod %s: %v", name, err)
	}
}

// deleteSecret deletes a Secret and waits for the new one and for the Event.
func deleteSecret(t *testing.T, c *cluster, name string) {
	t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: c.namespace, Name: name}
	if err := kubernetes.Client.Get(t.Context(), key, secret); err != nil {
		t.Fatalf("get Secret %s: %v", name, err)
	}
	old := secret.UID
	if err := kubernetes.Client.Delete(t.Context(), secret); err != nil {
		t.Fatalf("delete Secret %s: %v", name, err)
	}
	eventually(t, "Secret "+name+" is made again", notice, func(ctx context.Context) (bool, string, error) {
		err := kubernetes.Client.Get(ctx, key, secret)
		if apierrors.IsNotFound(err) {
			return false, "gone", nil
		}
		return secret.UID != old, fmt.Sprintf("keys %d", len(secret.Data)), err
	})
	c.waitEvent(t, name)
}
