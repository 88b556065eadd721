//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
)

// TestConfigRollsThrough changes an option under write load: replicas first, then the primary, which hands over before.
func TestConfigRollsThrough(t *testing.T) {
	c := shared(t)
	w := c.startWriters(t, "rolling_change", 2)
	primary, before := c.primary(t), c.lives(t)
	c.change(t, func(object *porpoisev1.MySQLCluster) {
		object.Spec.Config = map[string]porpoisev1.ConfigValue{"max_connections": "123"}
	})
	c.waitSettled(t, 2*recovery)
	pods := c.pods(t)
	for name, pod := range pods {
		waitValue(t, c.instance(name), "SELECT @@max_connections", "123")
		if c.lives(t)[name] == before[name] {
			t.Errorf("the pod of %s was not replaced", name)
		}
		if pod.CreationTimestamp.After(pods[primary].CreationTimestamp.Time) {
			t.Errorf("%s was restarted at %s, after the primary %s at %s", name, pod.CreationTimestamp, primary, pods[primary].CreationTimestamp)
		}
	}
	if now := c.primary(t); now == primary {
		t.Errorf("%s is primary still: it hands over before its pod is replaced", primary)
	}
	w.verify(t)
	// The option stays: rolling it back would tell nothing new, and other tests do not mind it.
}

// badChange is a change of a running cluster that must touch nothing.
type badChange struct {
	name   string
	change func(*porpoisev1.MySQLCluster)
	reason string
	words  []string
}

var badChanges = []badChange{
	{
		"an option that mysqld does not know",
		func(c *porpoisev1.MySQLCluster) {
			c.Spec.Config = map[string]porpoisev1.ConfigValue{"no_such_option": "1"}
		},
		"ConfigRejected", []string{"no_such_option"},
	},
	{
		"a value that mysqld refuses",
		func(c *porpoisev1.MySQLCluster) {
			c.Spec.Config = map[string]porpoisev1.ConfigValue{"character_set_server": "klingon"}
		},
		"ConfigRejected", []string{"klingon"},
	},
	{
		"an option that belongs to the operator",
		func(c *porpoisev1.MySQLCluster) {
			c.Spec.Config = map[string]porpoisev1.ConfigValue{"super_read_only": "OFF"}
		},
		"ConfigRejected", []string{"super_read_only"},
	},
	{
		"a version that no image is known for",
		func(c *porpoisev1.MySQLCluster) { c.Spec.Version = "9.7.99" },
		"UnknownVersion", []string{"9.7.99"},
	},
	{
		"a ConfigMap that does not exist",
		func(c *porpoisev1.MySQLCluster) {
			c.Spec.ConfigFrom = []porpoisev1.ConfigSource{{ConfigMapKeyRef: porpoisev1.ConfigMapKeyRef{Name: "absent", Key: "my.cnf"}}}
		},
		"ConfigMapNotFound", []string{"absent"},
	},
	{
		"an image that does not exist",
		func(c *porpoisev1.MySQLCluster) {
			c.Spec.Image, c.Spec.ImagePullPolicy = "porpoise.dev/absent:1", "Never"
		},
		"ImagePullFailed", []string{"porpoise.dev/absent:1"},
	},
}

// TestBadChangeTouchesNothing: what is wrong with a running cluster's specification is told by a condition and an Event; no
// pod is restarted, writes go on, and all is well when it is corrected.
func TestBadChangeTouchesNothing(t *testing.T) {
	c := shared(t)
	w := c.startWriters(t, "bad_change", 1)
	for _, bad := range badChanges {
		t.Run(bad.name, func(t *testing.T) {
			before, good := c.lives(t), c.get(t).Spec
			// A failed case must not be in the way of the next.
			t.Cleanup(func() { restore(t, c, good) })
			c.change(t, bad.change)
			c.waitStalled(t, bad.reason, bad.words...)
			w.waitAcked(t, 10)
			object := c.get(t)
			if !meta.IsStatusConditionTrue(object.Status.Conditions, porpoisev1.ConditionReady) {
				t.Errorf("the cluster is Ready no longer: %+v", meta.FindStatusCondition(object.Status.Conditions, porpoisev1.ConditionReady))
			}
			restore(t, c, good)
			c.waitHealed(t)
			c.waitSettled(t, recovery)
			if after := c.lives(t); !maps.Equal(before, after) {
				t.Errorf("pods were restarted: before %v, after %v", before, after)
			}
		})
	}
	w.verify(t)
}

// restore gives a cluster a specification that it had before.
func restore(t *testing.T, c *cluster, spec porpoisev1.MySQLClusterSpec) {
	t.Helper()
	object, err := c.read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	object.Spec = spec
	if err := kubernetes.Client.Update(context.Background(), object); err != nil {
		t.Fatalf("restore the specification of MySQLCluster %s: %v", c.key(), err)
	}
}

// TestVolumeGrows: claims are patched and grow under the running instances.
func TestVolumeGrows(t *testing.T) {
	c := shared(t)
	before := c.lives(t)
	size := c.get(t).Spec.Storage.Size.DeepCopy()
	size.Add(resource.MustParse("1Gi"))
	c.change(t, func(object *porpoisev1.MySQLCluster) { object.Spec.Storage.Size = size })
	eventually(t, "every volume has "+size.String(), recovery, func(ctx context.Context) (bool, string, error) {
		claims, err := c.readClaims(ctx)
		if err != nil {
			return false, "", err
		}
		grown, state := 0, ""
		for name, claim := range claims {
			capacity := claim.Status.Capacity.Storage()
			state += fmt.Sprintf("%s %s ", name, capacity)
			if capacity.Cmp(size) >= 0 {
				grown++
			}
		}
		return grown >= 3, state, nil
	})
	c.waitSettled(t, time.Minute)
	if after := c.lives(t); !maps.Equal(before, after) {
		t.Errorf("pods were restarted: before %v, after %v", before, after)
	}
}
