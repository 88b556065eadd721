package mysqlcluster

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

// TestProblemsBeginWithTheField: who reads a condition sees first where to look, then the value, then what is allowed.
func TestProblemsBeginWithTheField(t *testing.T) {
	source := func(name, key string) []v1.ConfigSource {
		return []v1.ConfigSource{{ConfigMapKeyRef: v1.ConfigMapKeyRef{Name: name, Key: key}}}
	}
	for name, tc := range map[string]struct {
		spec   v1.MySQLClusterSpec
		images ImageMap
		want   string
	}{
		"version":          {v1.MySQLClusterSpec{Version: "9.9"}, ImageMap{"9.7": "m:9.7", "8.4": "m:8.4"}, `spec.version: "9.9": not known to this operator; allowed are 8.4, 9.7`},
		"no versions":      {v1.MySQLClusterSpec{Version: "9.9"}, nil, `spec.version: "9.9": not known to this operator, whose image map is empty`},
		"owned option":     {v1.MySQLClusterSpec{Image: "m", Config: map[string]v1.ConfigValue{"server_id": "7"}}, nil, `spec.config: option "server_id"`},
		"malformed option": {v1.MySQLClusterSpec{Image: "m", Config: map[string]v1.ConfigValue{"a b": "7"}}, nil, `spec.config: option name "a b"`},
		"no ConfigMap":     {v1.MySQLClusterSpec{Image: "m", ConfigFrom: source("gone", "my.cnf")}, nil, `spec.configFrom[0].configMapKeyRef.name: ConfigMap "gone"`},
		"no key":           {v1.MySQLClusterSpec{Image: "m", ConfigFrom: source("tuned", "gone")}, nil, `spec.configFrom[0].configMapKeyRef.key: ConfigMap "tuned" has no key "gone"; it has: my.cnf`},
		"bad content":      {v1.MySQLClusterSpec{Image: "m", ConfigFrom: source("tuned", "my.cnf")}, nil, `spec.configFrom[0].configMapKeyRef: tuned/my.cnf: line 1`},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tuned"}, Data: map[string]string{"my.cnf": "[client]\n"},
			}).Build()
			s := scopeOf(c, tc.images, tc.spec)
			if _, err := resolve(context.Background(), s); err != nil {
				t.Fatal(err)
			}
			if len(s.problems) != 1 || !strings.HasPrefix(s.problems[0].Message, tc.want) {
				t.Errorf("problems %+v, want one that begins with %s", s.problems, tc.want)
			}
		})
	}
}

func scopeOf(c client.Client, images ImageMap, spec v1.MySQLClusterSpec) *scope {
	return &scope{
		Reconciler: &Reconciler{client: c, options: Options{Images: images}, sources: newSourceCache(c)},
		cluster:    &v1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}, Spec: spec},
	}
}
