package failover

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// message says a reason in a line for people, naming instances.
func (v *view) message(rec v1.MySQLTopologyStatus) string {
	primary := orElse(rec.Primary, "the primary")
	switch rec.Reason {
	case v1.TopologySuspended:
		return "spec.suspend is set: observing, not acting"
	case v1.TopologyWaitingForAgents:
		return "waiting for the agents of " + orElse(list(v.silent()), primary)
	case v1.TopologyWaitingForInstances:
		if v.rec.Phase == adopting {
			return "the record is being made anew from the volumes: every agent is told of epoch " + itoa(rec.Epoch) + " first"
		}
		return "volumes hold data of this cluster; waiting to hear every instance before one is chosen: " + list(v.adopt.waits)
	case v1.TopologyInitializing:
		return "making the data directory of " + primary
	case v1.TopologyOpening:
		return "opening " + primary + " as primary in epoch " + itoa(rec.Epoch)
	case v1.TopologyWaitingForMembers:
		return fmt.Sprintf("clients are let in once commits are acknowledged by %d; %s", v.snap.Spec.Acks, orElse(v.instancesText(rec), "the quorum is being set"))
	case v1.TopologyHealthy:
		return fmt.Sprintf("%s is primary and %s", primary, v.followText())
	case v1.TopologyDegraded, v1.TopologyChangingQuorum:
		text := v.instancesText(rec)
		if x := rec.RestartReady; text == "" && x != "" {
			text = x + " may be restarted"
		}
		return orElse(text, primary+" is primary; the quorum is being brought up to date")
	case v1.TopologyWritesBlocked:
		if rec.Phase == recovering {
			return v.resumeText(primary)
		}
		return v.blockedText()
	default:
		return v.lossText(rec.Reason, primary)
	}
}

// lossText covers the reasons around a primary that does not serve.
func (v *view) lossText(reason, primary string) string {
	switch reason {
	case v1.TopologyFencingMembers:
		return v.fencingText(primary)
	case v1.TopologyMembersLost:
		return primary + " is lost, and so many members lost their data that nobody can show that it holds every acknowledged commit; to go on with what is left: " + v.acceptText()
	case v1.TopologyNoCandidate:
		return v.noCandidateText()
	case v1.TopologyDrainingPrimary:
		return fmt.Sprintf("switchover: %s ends its writes", primary)
	case v1.TopologyRolledBack:
		return fmt.Sprintf("%s stays primary, in epoch %d: the failover was given up", primary, v.rec.Epoch+1)
	case v1.TopologyFailoversCapped:
		return fmt.Sprintf("%s is being brought back in place: there were %d failovers within %s", primary, v.recentFailovers(), capWindow)
	case v1.TopologyPrimaryUnreachable:
		return primary + " exists and its agent does not answer; nothing is concluded from that"
	case v1.TopologyPrimaryUnresponsive:
		return "mysqld of " + primary + " runs and does not answer its agent; nothing is concluded from that"
	case v1.TopologyPrimaryHung:
		return "mysqld of " + primary + " answers neither its agent nor its replicas; it is restarted in place, since no other can take over now"
	case v1.TopologyPrimaryGone:
		return "the pod of " + primary + " does not exist; waiting for it to come back with its volume"
	case v1.TopologyPrimaryStarting:
		return "mysqld of " + primary + " ended; it is being started again in place"
	case v1.TopologyResuming:
		return primary + " is being reopened in epoch " + itoa(v.rec.Epoch)
	case v1.TopologyRecordAdopted:
		return "the record was made anew from the volumes; " + primary + " is to be opened in a new epoch"
	case v1.TopologyForeignVolume:
		return "a volume is not this cluster's: " + v.foreignText()
	case v1.TopologyPrimaryDataLost:
		return primary + " came back with another data directory than the one that was promoted; put the volume back, restore a backup, or go on with what the others hold: " + v.acceptText()
	case v1.TopologyPrimaryBehind:
		ahead, _ := v.aheadOfPrimary()
		if len(ahead) == 0 && v.rec.Reason == v1.TopologyPrimaryBehind {
			return v.rec.Message // Who held more is silent, or the primary is.
		}
		return fmt.Sprintf("%s lacks transactions that %s received from it; it must not be reopened", primary, list(ahead))
	case v1.TopologyRecordBehind:
		if v.adopt.highest <= v.rec.Epoch && v.rec.Reason == v1.TopologyRecordBehind {
			return v.rec.Message // Who knew it is silent.
		}
		return fmt.Sprintf("agents know epoch %d and the record epoch %d; waiting to hear %s", v.adopt.highest, v.rec.Epoch, orElse(list(v.adopt.waits), "one with data"))
	case v1.TopologyPrimaryAmbiguous:
		return "the volumes do not agree on who was primary: " + orElse(list(v.adopt.candidates), "none is named")
	default:
		return ""
	}
}

// silent names the wanted instances whose agents do not answer.
func (v *view) silent() []string {
	var out []string
	for _, i := range v.wanted() {
		if !i.Answers() {
			out = append(out, i.Name)
		}
	}
	return out
}

func (v *view) foreignText() string {
	for _, i := range v.wanted() {
		if v.foreign(i) {
			return i.Name + ": " + foreignText(i)
		}
	}
	return ""
}

// instancesText lists the instances that do not serve.
func (v *view) instancesText(rec v1.MySQLTopologyStatus) string {
	var out []string
	for _, i := range rec.Instances {
		if i.State != v1.InstanceRunning {
			out = append(out, i.Name+" is "+string(i.State))
		}
	}
	return list(out)
}

func (v *view) followText() string {
	replicas := 0
	for _, i := range v.wanted() {
		if i.Name != v.rec.Primary {
			replicas++
		}
	}
	if replicas == 0 {
		return "the only instance"
	}
	return plural(replicas, "replica") + " " + map[bool]string{true: "follows", false: "follow"}[replicas == 1] + " it"
}

// resumeText says who must be heard before the primary may be reopened.
func (v *view) resumeText(primary string) string {
	var missing []string
	for _, m := range v.recorded().Members {
		switch v.memberHoldsPrimarys(m) {
		case topology.False:
			missing = append(missing, m.Name+" (has not received everything)")
		case topology.Unknown:
			state, _ := v.state(v.snap.Instance(m.Name))
			missing = append(missing, m.Name+" ("+string(state)+")")
		}
	}
	slices.Sort(missing)
	return fmt.Sprintf("%s is up; before it is reopened %s must hold everything in its binary log; missing: %s",
		primary, plural(int(v.recorded().RequiredAcks), "member"), list(missing))
}

// fencingText says why nobody is primary, and who must still be heard.
func (v *view) fencingText(primary string) string {
	if v.rec.Phase != fencing {
		return v.lossEvidence() + "; its replicas are being told to receive nothing more"
	}
	acks, n := int(v.recorded().RequiredAcks), len(v.recorded().Members)
	return fmt.Sprintf("%s is lost; %s must confirm that they receive nothing more from it, confirmed: %s, missing: %s", primary,
		plural(max(n-acks+1, 1), "member"), orElse(list(v.election.confirmed), "none"), orElse(list(v.election.missing), "none"))
}

// acceptText is the command by which a person accepts a loss.
func (v *view) acceptText() string {
	return fmt.Sprintf("kubectl porpoise failover %s -n %s --accept-data-loss", v.snap.Cluster, v.snap.Namespace)
}

func (v *view) noCandidateText() string {
	if len(v.election.unfit) == 0 && v.rec.Reason == v1.TopologyNoCandidate {
		return v.rec.Message // Who held everything is silent.
	}
	return "none that holds every acknowledged transaction can be primary: " +
		orElse(strings.Join(v.election.unfit, "; "), "no member holds all of what the others hold together") + "; to go on all the same: " + v.acceptText()
}
