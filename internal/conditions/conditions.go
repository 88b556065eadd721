package conditions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/clip"
)

// maxMessage is well below what a condition's message may hold.
const maxMessage = 4096

// Reasons that are not a problem's or the topology's.
const (
	ReasonReady          = "Ready"
	ReasonHealthy        = "Healthy"
	ReasonCreating       = "Creating"
	ReasonDeleting       = "Deleting"
	ReasonSuspended      = "Suspended"
	ReasonStable         = "Stable"
	ReasonUpdating       = "Updating"
	ReasonScaling        = "Scaling"
	ReasonNoPrimary      = "NoPrimary"
	ReasonNoReplicas     = "NoReplicas"
	ReasonReplicasDown   = "ReplicasDown"
	ReasonTooFewMembers  = "TooFewMembers"
	ReasonNone           = "None"
	ReasonWritesPossible = "WritesPossible"
	ReasonNotReady       = "NotReady"
	ReasonValid          = "Valid"
)

// Problem is what keeps the operator from going on until a person corrects something.
type Problem struct {
	// Reason in one word, upper camel case.
	Reason string
	// Message names the field or object, its value and what is allowed.
	Message string
}

// Input is what was observed.
type Input struct {
	Generation int64
	Deleting   bool
	Suspended  bool
	// Instances that are wanted, by ordinal.
	Instances []string
	// Leaving are instances that exist and are no longer wanted.
	Leaving []string
	// Topology as the topology lane left it; nil: none yet.
	Topology *v1.MySQLTopology
	// Problems, the most important first.
	Problems []Problem
	// Requests that cannot be read: a person corrects them, and everything else goes on.
	Requests []Problem
	// Change says what a change of revision is doing; empty: there is none.
	Change string
	// Certificates: a problem, or what to say when there is none.
	CertificateProblem *Problem
	CertificateMessage string
	// EverReady is true when the cluster has been ready before.
	EverReady bool
}

// Evaluate returns the phase, and the conditions updated from the old ones: lastTransitionTime moves only where a status
// changes.
func Evaluate(in Input, old []metav1.Condition, now time.Time) (v1.ClusterPhase, []metav1.Condition) {
	f := observe(in)
	conditions := slices.Clone(old)
	for _, c := range []metav1.Condition{
		ready(in, f),
		primaryAvailable(in, f),
		replicating(in, f),
		quorumHealthy(in, f),
		failoverReady(in, now),
		writesBlocked(in, f),
		progressing(in, f),
		certificatesValid(in),
		stalled(in),
	} {
		c.ObservedGeneration = in.Generation
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		c.Message = clip.Text(c.Message, maxMessage)
		meta.SetStatusCondition(&conditions, c)
	}
	return phase(in, f), conditions
}

// facts are what the conditions and the phase are made of.
type facts struct {
	// primary: an instance is primary, serves, and clients are led to it.
	primary bool
	// quorum: as many members serve as a commit waits for.
	quorum bool
	// writes: commits can be acknowledged.
	writes bool
	// unknown: agents do not answer, and what they may be doing could be enough for commits to be acknowledged.
	unknown bool
	// replicas: every wanted replica follows as a member.
	replicas bool
	down     []string
	members  int
	acks     int32
	reason   string
	message  string
}

func observe(in Input) facts {
	f := facts{reason: ReasonCreating, message: "the instances are being created"}
	t := in.Topology
	if t == nil {
		f.down = in.Instances
		return f
	}
	status := t.Status
	if status.Reason != "" {
		f.reason, f.message = status.Reason, status.Message
	}
	running, unheard := map[string]bool{}, map[string]bool{}
	for _, i := range status.Instances {
		running[i.Name], unheard[i.Name] = i.State == v1.InstanceRunning, i.State == v1.InstanceUnreachable
	}
	silent := 0
	member := map[string]bool{}
	if status.Quorum != nil {
		f.acks = status.Quorum.RequiredAcks
		for _, m := range status.Quorum.Members {
			member[m.Name] = true
			switch {
			case m.Name == status.Primary:
				// It keeps a seat for a while after it was promoted, and acknowledges nothing of its own.
			case running[m.Name]:
				f.members++
			case unheard[m.Name]:
				silent++
			}
		}
	}
	f.primary = status.Phase == v1.TopologyStable && status.Routed && status.Primary != "" && running[status.Primary]
	f.quorum = status.Quorum != nil && f.members >= int(f.acks)
	f.writes = f.primary && status.Reason != v1.TopologyWritesBlocked
	f.unknown = status.Phase == v1.TopologyStable && status.Routed && (!f.primary && unheard[status.Primary] || f.writes && !f.quorum) &&
		f.members+silent >= int(f.acks)
	for _, name := range in.Instances {
		if name != status.Primary && (!running[name] || !member[name]) {
			f.down = append(f.down, name)
		}
	}
	f.replicas = status.Primary != "" && len(f.down) == 0
	return f
}

func ready(in Input, f facts) metav1.Condition {
	switch {
	case in.Deleting:
		return condition(v1.ConditionReady, false, ReasonDeleting, "the cluster is being deleted")
	case f.writes && f.quorum:
		return condition(v1.ConditionReady, true, ReasonReady, fmt.Sprintf("%s takes writes, acknowledged by %s", in.Topology.Status.Primary, acks(f.acks)))
	default:
		reason, message := cause(in, f)
		return condition(v1.ConditionReady, false, reason, message)
	}
}

// cause says why the cluster is not ready: a problem that a person must solve before what the topology lane says, but
// only while there is nothing that works.
func cause(in Input, f facts) (string, string) {
	if len(in.Problems) > 0 && !f.primary && !in.EverReady {
		return in.Problems[0].Reason, in.Problems[0].Message
	}
	if f.primary && f.writes {
		return ReasonTooFewMembers, fmt.Sprintf("a commit waits for %s and %d members serve; not serving: %s", acks(f.acks), f.members, list(f.down))
	}
	return f.reason, f.message
}

func primaryAvailable(in Input, f facts) metav1.Condition {
	if f.primary {
		return condition(v1.ConditionPrimaryAvailable, true, ReasonHealthy, in.Topology.Status.Primary+" is primary")
	}
	if in.Topology == nil || in.Topology.Status.Primary == "" {
		return condition(v1.ConditionPrimaryAvailable, false, ReasonNoPrimary, "no instance has been made primary yet: "+f.message)
	}
	return condition(v1.ConditionPrimaryAvailable, false, f.reason, f.message)
}

func replicating(in Input, f facts) metav1.Condition {
	switch {
	case len(in.Instances) == 1 && f.replicas:
		return condition(v1.ConditionReplicating, true, ReasonNoReplicas, "there is one instance")
	case f.replicas:
		return condition(v1.ConditionReplicating, true, ReasonHealthy, "every replica follows the primary")
	case len(f.down) > 0:
		return condition(v1.ConditionReplicating, false, ReasonReplicasDown, "not following: "+list(f.down))
	default:
		return condition(v1.ConditionReplicating, false, ReasonNoPrimary, "there is no primary to follow")
	}
}

func quorumHealthy(in Input, f facts) metav1.Condition {
	switch {
	case in.Topology == nil || in.Topology.Status.Quorum == nil:
		return condition(v1.ConditionQuorumHealthy, false, ReasonCreating, "there is no quorum yet")
	case f.quorum:
		return condition(v1.ConditionQuorumHealthy, true, ReasonHealthy, fmt.Sprintf("a commit waits for %s", acks(f.acks)))
	default:
		return condition(v1.ConditionQuorumHealthy, false, ReasonTooFewMembers, fmt.Sprintf("a commit waits for %s and %d members serve; not serving: %s", acks(f.acks), f.members, list(f.down)))
	}
}

func writesBlocked(in Input, f facts) metav1.Condition {
	if f.writes && f.quorum {
		return condition(v1.ConditionWritesBlocked, false, ReasonWritesPossible, "commits are acknowledged")
	}
	reason, message := cause(in, f)
	c := condition(v1.ConditionWritesBlocked, true, reason, message)
	if f.unknown {
		c.Status = metav1.ConditionUnknown
	}
	return c
}

func progressing(in Input, f facts) metav1.Condition {
	switch {
	case in.Deleting:
		return condition(v1.ConditionProgressing, true, ReasonDeleting, "the cluster is being deleted")
	case in.Suspended:
		return condition(v1.ConditionProgressing, false, ReasonSuspended, "spec.suspend is set: nothing is changed")
	case in.Change != "":
		return condition(v1.ConditionProgressing, true, ReasonUpdating, in.Change)
	case len(in.Leaving) > 0:
		return condition(v1.ConditionProgressing, true, ReasonScaling, "removing "+list(in.Leaving))
	case len(f.down) > 0 && !in.EverReady:
		return condition(v1.ConditionProgressing, true, ReasonCreating, f.message)
	case in.EverReady && recordLacks(in):
		return condition(v1.ConditionProgressing, true, ReasonScaling, "adding "+list(f.down))
	default:
		return condition(v1.ConditionProgressing, false, ReasonStable, "no change is under way")
	}
}

// restartsPrimary tells whether the primary is down since a change restarts it.
func (in Input) restartsPrimary() bool {
	return in.Topology != nil && in.Topology.Spec.Restarting != "" && in.Topology.Spec.Restarting == in.Topology.Status.Primary
}

// recordLacks tells whether an instance is wanted whose data is not there yet.
func recordLacks(in Input) bool {
	if in.Topology == nil {
		return true
	}
	for _, name := range in.Instances {
		if !slices.ContainsFunc(in.Topology.Status.Instances, func(i v1.TopologyInstance) bool {
			return i.Name == name && i.ServerUUID != "" && i.State != v1.InstanceInitializing && i.State != v1.InstanceCloning
		}) {
			return true
		}
	}
	return false
}

func certificatesValid(in Input) metav1.Condition {
	if p := in.CertificateProblem; p != nil {
		return condition(v1.ConditionCertificatesValid, false, p.Reason, p.Message)
	}
	return condition(v1.ConditionCertificatesValid, true, ReasonValid, in.CertificateMessage)
}

func stalled(in Input) metav1.Condition {
	problems := slices.Concat(in.Problems, in.Requests)
	if len(problems) == 0 {
		return condition(v1.ConditionStalled, false, ReasonNone, "nothing needs a person")
	}
	messages := make([]string, 0, len(problems))
	for _, p := range problems {
		messages = append(messages, p.Message)
	}
	return condition(v1.ConditionStalled, true, problems[0].Reason, strings.Join(messages, "; "))
}

func condition(kind string, status bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if status {
		c.Status = metav1.ConditionTrue
	}
	return c
}

func acks(n int32) string {
	switch n {
	case 0:
		return "no replica"
	case 1:
		return "1 replica"
	default:
		return fmt.Sprintf("%d replicas", n)
	}
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
