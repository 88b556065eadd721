package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MySQLCluster is a replicated MySQL: one writable primary and replicas that follow it, each with a volume of its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=mysqlclusters,scope=Namespaced,shortName=mysql,categories={porpoise,all}
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".status.version"
// +kubebuilder:printcolumn:name="Instances",type=integer,JSONPath=".spec.replicas"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=".status.readyReplicas"
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=".status.topology.primary"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=".status.phase"
// +kubebuilder:printcolumn:name="Stalled",type=string,JSONPath=".status.conditions[?(@.type=='Stalled')].status"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Epoch",type=integer,JSONPath=".status.topology.epoch",priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].reason",priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].message",priority=1
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 40",messageExpression="'metadata.name: \"%s\" has %d characters; at most 40 are allowed, so that the names of derived objects stay within 63'.format([self.metadata.name, size(self.metadata.name)])"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",messageExpression="'metadata.name: \"' + self.metadata.name + '\" contains a dot; lower-case letters, digits and dashes are allowed, since Services and host names are derived from it'"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]')",messageExpression="'metadata.name: \"' + self.metadata.name + '\" must begin with a lower-case letter, since Services are derived from it'"
// +kubebuilder:validation:XValidation:rule="self.spec.version == oldSelf.spec.version || !has(oldSelf.status) || !has(oldSelf.status.version) || int(self.spec.version.split('.')[0]) > int(oldSelf.status.version.split('.')[0]) || (int(self.spec.version.split('.')[0]) == int(oldSelf.status.version.split('.')[0]) && int(self.spec.version.split('.')[1]) >= int(oldSelf.status.version.split('.')[1]))",messageExpression="'spec.version: ' + self.spec.version + ' is an older series than ' + oldSelf.status.version + ', which has run; MySQL cannot open newer data with an older series'"
type MySQLCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user wants. The operator never writes it.
	// +required
	Spec MySQLClusterSpec `json:"spec"`

	// Status is what the operator observes.
	// +optional
	Status MySQLClusterStatus `json:"status,omitempty"`
}

// MySQLClusterList is a list of MySQLCluster objects.
//
// +kubebuilder:object:root=true
type MySQLClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MySQLCluster `json:"items"`
}

// MySQLClusterSpec describes the wanted MySQL.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replication) || !has(self.replication.acks) || self.replication.acks < (has(self.replicas) ? self.replicas : 3)",messageExpression="'spec.replication.acks: %d must be less than spec.replicas %d, since only replicas acknowledge'.format([self.replication.acks, has(self.replicas) ? self.replicas : 3])"
// +kubebuilder:validation:XValidation:rule="!has(self.replication) || !has(self.replication.acks) || self.replication.acks >= 1 || (has(self.replicas) && self.replicas == 1)",messageExpression="'spec.replication.acks: 0 is allowed only with spec.replicas 1; with %d instances at least 1 is needed, or an acknowledged commit could be lost'.format([has(self.replicas) ? self.replicas : 3])"
type MySQLClusterSpec struct {
	// Version is the MySQL series (9.7) or an exact release (9.7.4). The operator's image map resolves it to an image
	// unless image is set. A newer series may be asked for later; one that is older than what has run may not.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]{1,3})?$`
	// +kubebuilder:validation:MaxLength=9
	Version string `json:"version"`

	// Image overrides the image that version resolves to. It must hold a mysqld of the series that version names.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// ImagePullPolicy of every container. Default: what Kubernetes chooses for the image's tag.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// ImagePullSecrets name Secrets of this namespace with registry credentials.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// Replicas is the number of instances in all, the primary included.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Replicas int32 `json:"replicas,omitempty"`

	// Storage describes the volume of each instance.
	// +required
	Storage StorageSpec `json:"storage"`

	// Config holds options of the [mysqld] section, by name. Options that the operator owns are refused by name; every
	// option is checked by the image's own mysqld before an instance is touched.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[a-z][a-z0-9_-]{0,63}$'))",messageExpression="'spec.config: ' + self.filter(k, !k.matches('^[a-z][a-z0-9_-]{0,63}$'))[0] + ' is not an option name; lower-case letters, digits, dashes and underscores are allowed'"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !self[k].contains('\\n') && !self[k].contains('\\r'))",messageExpression="'spec.config.' + self.filter(k, self[k].contains('\\n') || self[k].contains('\\r'))[0] + ': a value must be one line'"
	Config map[string]ConfigValue `json:"config,omitempty"`

	// ConfigFrom adds [mysqld] options from files in ConfigMaps of this namespace, in order; later ones win, config wins
	// over all. Same rules as config. A changed ConfigMap rolls through the instances.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	ConfigFrom []ConfigSource `json:"configFrom,omitempty"`

	// Replication says when a commit is acknowledged.
	// +optional
	Replication ReplicationSpec `json:"replication,omitempty"`

	// Failover says what happens when the primary is lost.
	// +optional
	Failover FailoverSpec `json:"failover,omitempty"`

	// Resources of the mysqld container. The InnoDB buffer pool is sized from the memory limit unless config sets
	// innodb_buffer_pool_size.
	// +optional
	Resources ResourcesSpec `json:"resources,omitempty"`

	// Pod holds the fields of the instances' pods that are the user's to set.
	// +optional
	Pod PodSpec `json:"pod,omitempty"`

	// Services shape the Services that clients use.
	// +optional
	Services ServicesSpec `json:"services,omitempty"`

	// Suspend makes the operator watch but not act: status goes on, nothing is changed.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// ConfigValue is the value of one [mysqld] option, one line, at most 1024 characters.
//
// +kubebuilder:validation:MaxLength=1024
type ConfigValue string

// ReclaimPolicy says what becomes of the volumes when their MySQLCluster is deleted or scaled in.
//
// +kubebuilder:validation:Enum=Retain;Delete
type ReclaimPolicy string

const (
	// ReclaimRetain keeps the PersistentVolumeClaims. The default.
	ReclaimRetain ReclaimPolicy = "Retain"
	// ReclaimDelete deletes the PersistentVolumeClaims with the cluster or instance.
	ReclaimDelete ReclaimPolicy = "Delete"
)

// StorageSpec describes the volume of each instance.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="spec.storage.storageClassName: cannot be changed, set or removed once the cluster exists; volumes do not move between classes"
type StorageSpec struct {
	// Size of each instance's volume. It may grow where the storage class allows it; it cannot shrink.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Gi')) >= 0",messageExpression="'spec.storage.size: ' + string(self) + ' is too small; at least 1Gi is needed'"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",messageExpression="'spec.storage.size: ' + string(self) + ' is less than ' + string(oldSelf) + '; a volume cannot shrink'"
	Size resource.Quantity `json:"size"`

	// StorageClassName of the volumes. Absent: the Kubernetes cluster's default class.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`

	// ReclaimPolicy says what becomes of the volumes when the MySQLCluster is deleted or scaled in.
	// +optional
	// +kubebuilder:default=Retain
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy,omitempty"`
}

// ConfigSource names a place with [mysqld] options.
type ConfigSource struct {
	// ConfigMapKeyRef names a ConfigMap of this namespace and the key with the option file in it.
	// +required
	ConfigMapKeyRef ConfigMapKeyRef `json:"configMapKeyRef"`
}

// ConfigMapKeyRef names one key of a ConfigMap in the same namespace.
type ConfigMapKeyRef struct {
	// Name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Key in the ConfigMap whose value is an option file: lines of `option = value`, comments, and optionally a
	// [mysqld] header. Other sections and includes are refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// ReplicationSpec says when a commit is acknowledged.
type ReplicationSpec struct {
	// Acks is how many replicas must have a transaction on disk before its commit is acknowledged to the client.
	// Allowed: 1 to replicas-1 (0 only for a cluster of one). Default: half of replicas rounded down, at least 1 where
	// there is more than one instance. MySQL never falls back to fewer by itself: without enough replicas commits wait.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9
	Acks *int32 `json:"acks,omitempty"`
}

// FailoverMode says who decides that another instance takes the place of a lost primary.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type FailoverMode string

const (
	// FailoverAutomatic means: the operator does, as soon as it is certain that no acknowledged commit is lost by it. The
	// default.
	FailoverAutomatic FailoverMode = "Automatic"
	// FailoverManual means: nobody takes its place; it is brought back in place. Switchovers are carried out all the same.
	FailoverManual FailoverMode = "Manual"
)

// ErrantPolicy says what becomes of an instance with transactions of its own.
//
// +kubebuilder:validation:Enum=Rebuild;Hold
type ErrantPolicy string

const (
	// ErrantRebuild means: they are saved on its volume, then it is rebuilt as a copy of a member. The default.
	ErrantRebuild ErrantPolicy = "Rebuild"
	// ErrantHold means: it is left as it is, outside the quorum, for a person.
	ErrantHold ErrantPolicy = "Hold"
)

// FailoverSpec says what happens when the primary is lost.
type FailoverSpec struct {
	// Mode: with Automatic another instance becomes primary as soon as it is certain that no acknowledged commit is lost by
	// it; with Manual a lost primary is brought back in place, and a person switches over or accepts a loss.
	// +optional
	// +kubebuilder:default=Automatic
	Mode FailoverMode `json:"mode,omitempty"`

	// MaxFailovers is how many failovers there may be within ten minutes, 1 to 1000. After that a lost primary is brought
	// back in place, so that a query which crashes mysqld does not walk through the cluster.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxFailovers int32 `json:"maxFailovers,omitempty"`

	// ErrantTransactions says what becomes of an instance that has executed transactions which the primary never had: with
	// Rebuild they are saved on its volume and it becomes a copy of a member; with Hold it is left for a person.
	// +optional
	// +kubebuilder:default=Rebuild
	ErrantTransactions ErrantPolicy `json:"errantTransactions,omitempty"`
}

// ResourcesSpec holds CPU and memory of the mysqld container.
type ResourcesSpec struct {
	// Requests is what the scheduler reserves.
	// +optional
	Requests ComputeResources `json:"requests,omitempty"`

	// Limits is the most that is allowed.
	// +optional
	Limits ComputeResources `json:"limits,omitempty"`
}

// ComputeResources are amounts of CPU and memory; an absent one is not set.
type ComputeResources struct {
	// CPU in cores, e.g. 500m or 2.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// Memory in bytes, e.g. 2Gi.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// PodSpec holds the fields of the instances' pods that are the user's to set.
type PodSpec struct {
	// Labels added to the pods. Keys of porpoise.dev and of app.kubernetes.io are the operator's.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('porpoise.dev/') && !k.startsWith('app.kubernetes.io/'))",messageExpression="'spec.pod.labels: ' + self.filter(k, k.startsWith('porpoise.dev/') || k.startsWith('app.kubernetes.io/'))[0] + ' belongs to the operator; choose another prefix'"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// Annotations added to the pods. Keys of porpoise.dev are the operator's.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('porpoise.dev/'))",messageExpression="'spec.pod.annotations: ' + self.filter(k, k.startsWith('porpoise.dev/'))[0] + ' belongs to the operator; choose another prefix'"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`

	// NodeSelector restricts the nodes by label.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations of the pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Affinity replaces the operator's own, which prefers one instance per node.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// TopologySpreadConstraints replace the operator's own, which spread instances over zones where nodes have any.
	// An absent labelSelector means this cluster's instances.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// PriorityClassName of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// LabelValue is the value of a label, at most 63 characters.
//
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// AnnotationValue is the value of an annotation, at most 4096 characters here.
//
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// ServicesSpec shapes the Services that clients use.
type ServicesSpec struct {
	// ReadWrite is the Service NAME-rw, which leads to the primary.
	// +optional
	ReadWrite ServiceSpec `json:"readWrite,omitempty"`

	// ReadOnly is the Service NAME-ro, which leads to the replicas, or to the primary where there is none.
	// +optional
	ReadOnly ServiceSpec `json:"readOnly,omitempty"`
}

// ServiceSpec shapes one Service.
type ServiceSpec struct {
	// Type of the Service.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// Annotations of the Service, for cloud load balancers and external DNS. Keys of porpoise.dev are the operator's.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('porpoise.dev/'))",messageExpression="'annotations: ' + self.filter(k, k.startsWith('porpoise.dev/'))[0] + ' belongs to the operator; choose another prefix'"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
}
