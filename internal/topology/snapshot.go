package topology

import (
	"time"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// Snapshot is what the topology lane knows of one cluster when it decides.
type Snapshot struct {
	// Namespace and Cluster name the MySQLCluster.
	Namespace, Cluster string
	// Generation of Spec.
	Generation int64
	// Spec is what the cluster lane wants.
	Spec v1.MySQLTopologySpec
	// FreshVolumes is true when the cluster id is the owner's UID: unless the record was lost, its volumes began empty.
	FreshVolumes bool
	// Suspect is true when so many agents fell silent together that the manager's own network is the likelier cause: then
	// nothing is concluded from silence.
	Suspect bool
	// Instances holds every instance that is wanted, in the wanted order, then others of which something is known.
	Instances []Instance
}

// Instance is what is known of one instance.
type Instance struct {
	// Name of the instance.
	Name string
	// Host is its stable host name (naming.Host).
	Host string
	// Wanted is true when the spec lists it.
	Wanted bool
	// Pod is what the API server tells of its pod.
	Pod Pod
	// Status is the newest document of a live stream; nil: unknown now. It is shared and never changed.
	Status *agentapi.Status
	// SilentSince is since when, by the manager's clock, the agent is not heard: when its stream ended; for one that was
	// never heard it is agentclient.StaleAfter after the first attempt. Zero: it is heard, or nothing was tried.
	SilentSince time.Time
	// SampledAfter is a moment, by the manager's clock, known to precede the sampling of Status; zero: none known.
	SampledAfter time.Time
	// HeldSince is when, by the manager's clock, the sets of executed and of received transactions in Status were first
	// received together.
	HeldSince time.Time
	// ExecutedSince is when, by the manager's clock, the set of executed transactions in Status was first received.
	ExecutedSince time.Time
	// ProcessSince is when, by the manager's clock, the state of mysqld's process in Status was first received.
	ProcessSince time.Time
}

// Pod is what the API server tells of an instance's pod. The zero value is a pod that does not exist.
type Pod struct {
	// Exists is true when the API server has such a pod.
	Exists bool
	// Running is true when its mysqld container runs and it has an address: the agent should answer.
	Running bool
	// Bound is true once a node was chosen for it: before that nothing of it can run.
	Bound bool
	// Terminating is true once it is being deleted.
	Terminating bool
	// UID of the pod.
	UID string
	// Message says why it does not run, as Kubernetes puts it.
	Message string
}

// MayRun says whether something of the pod may run now, as far as the API server can know.
func (p Pod) MayRun() bool { return p.Exists && (p.Bound || p.Running) }

// Instance returns the instance of that name; nil: none.
func (s *Snapshot) Instance(name string) *Instance {
	for i := range s.Instances {
		if s.Instances[i].Name == name {
			return &s.Instances[i]
		}
	}
	return nil
}
