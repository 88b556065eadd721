package failover

import (
	"fmt"
	"slices"

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
		return "volumes hold data of this cluster; waiting to hear every instance before one is chosen: " + list(v.adopt.waits)
	case v1.TopologyInitializing:
		return "making the data directory of " + primary
	case v1.TopologyPromoting:
		return "opening " + primary + " as the first primary"
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
	case v1.TopologyPrimaryUnreachable:
		return primary + " exists and its agent does not answer; nothing is concluded from that"
	case v1.TopologyPrimaryUnresponsive:
		return "mysqld of " + primary + " runs and does not answer its agent; nothing is concluded from that"
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
		return primary + " came back with another data directory than the one that was promoted; put the volume back or restore a backup"
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
