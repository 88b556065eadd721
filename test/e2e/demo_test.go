//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/env"
)

// TestDemoStory is a cluster's life: it is made, used through its Services, loses a replica, is deleted with its volumes
// kept, comes back from them, and goes for good.
func TestDemoStory(t *testing.T) {
	c := create(t, manifest(newNamespace(t, "e2e-demo"), "demo", 3))
	c.waitReady(t, creation)
	app := c.clientPod(t)
	writeThroughService(t, c, app)
	readThroughService(t, c, app, 3)

	lost := c.replicas(t)[0]
	c.deletePod(t, lost)
	sqlAt(t, app, c.hostReadWrite(), "INSERT INTO fruit VALUES (4, 'written meanwhile')")
	c.waitReady(t, recovery)
	waitValue(t, c.instance(lost), "SELECT COUNT(*) FROM fruit", "4")
	waitValue(t, c.instance(lost), "SELECT @@super_read_only", "1")

	removeClient(t, app, c)
	id := c.topology(t).Spec.ClusterID
	c.delete(t)
	if claims := c.claims(t); len(claims) != 3 {
		t.Fatalf("volumes are kept by default, but %d claims are left", len(claims))
	}
	adoptVolumes(t, c, id)
	deleteWithVolumes(t, c)
}

func sqlAt(t *testing.T, app *env.ClientPod, host, statements string) string {
	t.Helper()
	out, err := app.SQL(t.Context(), host, statements)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func writeThroughService(t *testing.T, c *cluster, app *env.ClientPod) {
	t.Helper()
	sqlAt(t, app, c.hostReadWrite(), "CREATE TABLE fruit (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL)")
	sqlAt(t, app, c.hostReadWrite(), "INSERT INTO fruit VALUES (1, 'apple'), (2, 'pear'), (3, 'plum')")
	// The read-write Service leads to the primary and to nothing else.
	if host, want := sqlAt(t, app, c.hostReadWrite(), "SELECT @@hostname"), naming.Pod(c.primary(t)); host != want {
		t.Errorf("%s leads to %s, want the primary %s", c.hostReadWrite(), host, want)
	}
	if cipher := sqlAt(t, app, c.hostReadWrite(), "SHOW STATUS LIKE 'Ssl_cipher'"); !strings.Contains(cipher, "TLS_") {
		t.Errorf("the connection is not encrypted: %q", cipher)
	}
}

// readThroughService waits until the rows are seen through the read-only Service, and that it leads to replicas only.
func readThroughService(t *testing.T, c *cluster, app *env.ClientPod, rows int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d rows are read through %s", rows, c.hostReadOnly()), recovery, func(ctx context.Context) (bool, string, error) {
		out, err := app.SQL(ctx, c.hostReadOnly(), "SELECT COUNT(*) FROM fruit")
		return out == fmt.Sprint(rows), out, err
	})
	primary := naming.Pod(c.primary(t))
	for range 8 {
		if host := sqlAt(t, app, c.hostReadOnly(), "SELECT @@hostname"); host == primary {
			t.Errorf("%s leads to the primary %s, though there are replicas", c.hostReadOnly(), host)
		}
	}
	// A replica refuses writes.
	if out, err := app.SQL(t.Context(), c.hostReadOnly(), "INSERT INTO fruit VALUES (9, 'stray')"); err == nil {
		t.Errorf("a write through %s was taken: %q", c.hostReadOnly(), out)
	} else if !strings.Contains(err.Error(), "ERROR 1290") {
		t.Errorf("a write through %s failed for another reason than being read-only: %v", c.hostReadOnly(), err)
	}
}

func removeClient(t *testing.T, app *env.ClientPod, c *cluster) {
	t.Helper()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = c.namespace, app.Name
	if err := kubernetes.Client.Delete(t.Context(), pod); err != nil {
		t.Fatalf("delete pod %s: %v", app.Name, err)
	}
}

// adoptVolumes makes the cluster again over its kept volumes: they are not taken silently, only when told.
func adoptVolumes(t *testing.T, c *cluster, id string) {
	t.Helper()
	create(t, manifest(c.namespace, c.name, 3))
	c.waitStalled(t, "VolumesOfAnotherCluster", naming.AnnotationAdopt, id)
	if pods := c.pods(t); len(pods) > 0 {
		t.Errorf("%d pods run on volumes of another cluster", len(pods))
	}
	c.change(t, func(object *porpoisev1.MySQLCluster) {
		object.Annotations = map[string]string{naming.AnnotationAdopt: id}
	})
	c.waitReady(t, creation)
	for _, instance := range c.topology(t).Spec.Instances {
		waitValue(t, c.instance(instance), "SELECT COUNT(*) FROM fruit", "4")
	}
	c.waitWritable(t)
}

// deleteWithVolumes deletes the cluster with reclaim policy Delete.
func deleteWithVolumes(t *testing.T, c *cluster) {
	t.Helper()
	c.change(t, func(object *porpoisev1.MySQLCluster) { object.Spec.Storage.ReclaimPolicy = porpoisev1.ReclaimDelete })
	eventually(t, "the cluster owns its claims", recovery, func(ctx context.Context) (bool, string, error) {
		claims, err := c.readClaims(ctx)
		if err != nil {
			return false, "", err
		}
		owned := 0
		for _, claim := range claims {
			owned += len(claim.OwnerReferences)
		}
		return owned == 3, fmt.Sprintf("%d of %d", owned, len(claims)), nil
	})
	c.delete(t)
	eventually(t, "the claims are gone", recovery, func(ctx context.Context) (bool, string, error) {
		claims, err := c.readClaims(ctx)
		return len(claims) == 0, fmt.Sprintf("%d claims left", len(claims)), err
	})
}
