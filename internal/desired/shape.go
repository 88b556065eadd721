package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

// hashLength is the number of hexadecimal digits of revisions and of content hashes in names: 40 bits, which is plenty
// among the handful that one cluster has at a time, and short enough for names and labels.
const hashLength = 10

// Input is what builders need to know besides the Shape of an instance.
type Input struct {
	// Cluster owns everything built.
	Cluster *v1.MySQLCluster
	// ClusterID names the data (MySQLTopology.spec.clusterID).
	ClusterID string
	// OperatorImage holds the agent.
	OperatorImage string
	// OperatorNamespace is where the manager runs; its pods may reach the agents.
	OperatorNamespace string
	// Primary is the instance that clients are routed to; empty: none.
	Primary string
}

// Shape is everything that shapes an instance and whose change restarts it. It is kept in a ControllerRevision, which
// makes it the anchor that an instance is rebuilt from and that a change can return to.
type Shape struct {
	// Image of mysqld, resolved.
	Image string `json:"image"`
	// ImagePullPolicy of every container; empty: what Kubernetes chooses.
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSecrets by name.
	ImagePullSecrets []string `json:"imagePullSecrets,omitempty"`
	// Config is the user's part of the configuration, in canonical form.
	Config string `json:"config,omitempty"`
	// Resources of the mysqld container.
	Resources v1.ResourcesSpec `json:"resources"`
	// Pod holds the user's fields of the pod.
	Pod v1.PodSpec `json:"pod"`
}

// ShapeOf returns the Shape that a cluster's specification asks for, given what it resolves to.
func ShapeOf(cluster *v1.MySQLCluster, image, config string) Shape {
	spec := cluster.Spec.DeepCopy()
	shape := Shape{
		Image:           image,
		ImagePullPolicy: spec.ImagePullPolicy,
		Config:          config,
		Resources:       spec.Resources,
		Pod:             spec.Pod,
	}
	for _, secret := range spec.ImagePullSecrets {
		shape.ImagePullSecrets = append(shape.ImagePullSecrets, secret.Name)
	}
	return shape
}

// Revision is the hash of the Shape: equal Shapes have equal revisions, however their quantities were written.
func (s Shape) Revision() string { return hashOf(s.encode()) }

// ConfigHash is the hash of the user's configuration, and part of the name of its ConfigMap.
func (s Shape) ConfigHash() string { return hashOf([]byte(s.Config)) }

// CheckHash is the hash of what the configuration check depends on: version, image, configuration and memory limit.
func (s Shape) CheckHash(version string) string {
	memory := ""
	if limit := s.Resources.Limits.Memory; limit != nil {
		memory = limit.String()
	}
	return hashOf(fmt.Appendf(nil, "%q %q %q %q", version, s.Image, s.Config, memory))
}

func (s Shape) encode() []byte {
	raw, err := json.Marshal(s)
	if err != nil {
		// A Shape holds strings, numbers and quantities only; there is no value of it that JSON cannot express.
		panic(fmt.Sprintf("encode shape: %v", err))
	}
	return raw
}

func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])[:hashLength]
}
