package desired

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		mutate func(*v1.MySQLCluster)
		old    Previous
		want   []string // parts of the error: field, value, what is allowed
	}{
		"good":            {mutate: func(*v1.MySQLCluster) {}},
		"long name":       {mutate: func(c *v1.MySQLCluster) { c.Name = strings.Repeat("a", 60) }, want: []string{"metadata.name", "60 characters", "at most 40"}},
		"dotted name":     {mutate: func(c *v1.MySQLCluster) { c.Name = "a.b" }, want: []string{"metadata.name", `"a.b"`, "dashes are allowed"}},
		"digit first":     {mutate: func(c *v1.MySQLCluster) { c.Name = "1a" }, want: []string{"metadata.name", `"1a"`, "lower-case letter"}},
		"version":         {mutate: func(c *v1.MySQLCluster) { c.Spec.Version = "latest" }, want: []string{"spec.version", `"latest"`, "9.7"}},
		"older series":    {mutate: func(c *v1.MySQLCluster) { c.Spec.Version = "8.4" }, old: Previous{Version: "9.7"}, want: []string{"spec.version", `"8.4"`, "older series than 9.7"}},
		"older patch":     {mutate: func(c *v1.MySQLCluster) { c.Spec.Version = "9.7.3" }, old: Previous{Version: "9.7.4"}},
		"newer by number": {mutate: func(c *v1.MySQLCluster) { c.Spec.Version = "9.10" }, old: Previous{Version: "9.7"}},
		"no replicas":     {mutate: func(c *v1.MySQLCluster) { c.Spec.Replicas = 0 }, want: []string{"spec.replicas", "0", "1 to 10"}},
		"many replicas":   {mutate: func(c *v1.MySQLCluster) { c.Spec.Replicas = 11 }, want: []string{"spec.replicas", "11", "1 to 10"}},
		"acks too high":   {mutate: func(c *v1.MySQLCluster) { c.Spec.Replication.Acks = ptr.To[int32](3) }, want: []string{"spec.replication.acks", "3", "less than spec.replicas 3"}},
		"acks 0":          {mutate: func(c *v1.MySQLCluster) { c.Spec.Replication.Acks = ptr.To[int32](0) }, want: []string{"spec.replication.acks", "0", "1 to 2"}},
		"failover mode":   {mutate: func(c *v1.MySQLCluster) { c.Spec.Failover.Mode = "Auto" }, want: []string{"spec.failover.mode", `"Auto"`, `"Automatic", "Manual"`}},
		"many failovers":  {mutate: func(c *v1.MySQLCluster) { c.Spec.Failover.MaxFailovers = 1001 }, want: []string{"spec.failover.maxFailovers", "1001", "1 to 1000"}},
		"errant":          {mutate: func(c *v1.MySQLCluster) { c.Spec.Failover.ErrantTransactions = "Keep" }, want: []string{"spec.failover.errantTransactions", `"Keep"`, `"Rebuild", "Hold"`}},
		"small volume":    {mutate: func(c *v1.MySQLCluster) { c.Spec.Storage.Size = resource.MustParse("1Mi") }, want: []string{"spec.storage.size", `"1Mi"`, "at least 1Gi"}},
		"shrinking":       {mutate: func(*v1.MySQLCluster) {}, old: Previous{Size: ptr.To(resource.MustParse("20Gi"))}, want: []string{"spec.storage.size", `"10Gi"`, "less than 20Gi"}},
		"class changed":   {mutate: func(c *v1.MySQLCluster) { c.Spec.Storage.StorageClassName = ptr.To("b") }, old: Previous{HasVolumes: true, StorageClassName: ptr.To("a")}, want: []string{"spec.storage.storageClassName", `"b"`, "changed from a"}},
		"reclaim policy":  {mutate: func(c *v1.MySQLCluster) { c.Spec.Storage.ReclaimPolicy = "Recycle" }, want: []string{"spec.storage.reclaimPolicy", `"Recycle"`, `"Retain"`}},
		"option name":     {mutate: func(c *v1.MySQLCluster) { c.Spec.Config = map[string]v1.ConfigValue{"[x]": "1"} }, want: []string{"spec.config", `"[x]"`, "option name"}},
		"two lines":       {mutate: func(c *v1.MySQLCluster) { c.Spec.Config = map[string]v1.ConfigValue{"a": "1\nb=2"} }, want: []string{"spec.config[a]", "one line"}},
		"request over limit": {mutate: func(c *v1.MySQLCluster) {
			c.Spec.Resources.Requests.Memory, c.Spec.Resources.Limits.Memory = ptr.To(resource.MustParse("3Gi")), ptr.To(resource.MustParse("2Gi"))
		}, want: []string{"spec.resources.requests.memory", `"3Gi"`, "at most 2Gi", "spec.resources.limits.memory"}},
		"operator's label": {mutate: func(c *v1.MySQLCluster) { c.Spec.Pod.Labels = map[string]v1.LabelValue{"porpoise.dev/role": "x"} }, want: []string{"spec.pod.labels[porpoise.dev/role]", "belongs to the operator"}},
		"operator's annot.": {mutate: func(c *v1.MySQLCluster) {
			c.Spec.Pod.Annotations = map[string]v1.AnnotationValue{"porpoise.dev/x": "x"}
		}, want: []string{"spec.pod.annotations[porpoise.dev/x]", "belongs to the operator"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := plainInput().Cluster
			tc.mutate(cluster)
			errs := Validate(cluster, tc.old)
			if len(tc.want) == 0 {
				if len(errs) > 0 {
					t.Fatalf("good input is refused: %v", errs)
				}
				return
			}
			if len(errs) != 1 {
				t.Fatalf("%d errors, want 1: %v", len(errs), errs)
			}
			for _, part := range tc.want {
				if !strings.Contains(errs[0].Error(), part) {
					t.Errorf("%q does not say %q", errs[0].Error(), part)
				}
			}
		})
	}
}

func TestNewerVersion(t *testing.T) {
	for _, tc := range []struct{ a, b, want string }{
		{"", "9.7.4", "9.7.4"},
		{"9.7.4", "", "9.7.4"},
		{"9.7.4", "9.7.10", "9.7.10"},
		{"10.0.0", "9.7.10", "10.0.0"},
		{"9.7.4", "garbage", "9.7.4"},
		{"9.7", "8.4.1", "8.4.1"},
		{"", "", ""},
	} {
		if got := NewerVersion(tc.a, tc.b); got != tc.want {
			t.Errorf("of %q and %q: got %q, want %q", tc.a, tc.b, got, tc.want)
		}
	}
}
