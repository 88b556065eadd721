package render

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/pki"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
)

type object = map[string]any

// encode writes JSON, which every reader of YAML accepts.
func encode(v any) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // only maps, strings and numbers come here
	}
	return append(data, '\n')
}

// Kubeconfig embeds the user's certificate, so that the file can be copied.
func Kubeconfig(c plan.Cluster, store pki.Store, user string) ([]byte, error) {
	embedded := map[string]string{}
	for _, path := range []string{store.Certificate(CA), store.Certificate(user), store.Key(user)} {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("make kubeconfig of %s: %w", user, err)
		}
		embedded[path] = base64.StdEncoding.EncodeToString(data)
	}
	return encode(object{
		"apiVersion": "v1", "kind": "Config", "current-context": c.Name,
		"clusters": []object{{"name": c.Name, "cluster": object{
			"server": c.APIServerURL(), "certificate-authority-data": embedded[store.Certificate(CA)]}}},
		"users": []object{{"name": user, "user": object{
			"client-certificate-data": embedded[store.Certificate(user)], "client-key-data": embedded[store.Key(user)]}}},
		"contexts": []object{{"name": c.Name, "context": object{"cluster": c.Name, "user": user}}},
	}), nil
}

// SchedulerConfig has the rates that the scheduler takes only from a file.
func SchedulerConfig(c plan.Cluster) []byte {
	return encode(object{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"leaderElection": object{"leaderElect": false},
		"clientConnection": object{
			"kubeconfig": KubeconfigPath(c, Scheduler), "qps": 500, "burst": 1000},
	})
}

// AuditPolicy records who wrote what, without contents: tests read it to count a controller's writes.
func AuditPolicy() []byte {
	return encode(object{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": []string{"RequestReceived"},
		"rules": []object{
			{"level": "None", "verbs": []string{"get", "list", "watch"}},
			{"level": "Metadata"},
		},
	})
}
