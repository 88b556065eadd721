package failover

import (
	"fmt"
	"slices"
	"time"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

const (
	// drainBound is how long a switchover may keep writes closed before it is given up; in whole seconds, as the record
	// keeps times.
	drainBound = 10 * time.Second
	// targetPatience is how long after its beginning a switchover waits for a target that does not answer for a moment.
	targetPatience = 4 * time.Second
	// maxSwitchoverBacklog is how many transactions the target may have to apply when writes end.
	maxSwitchoverBacklog = 5000
)

// switchover is what is known of a wish to change the primary while it serves.
type switchover struct {
	// why in a line; empty: nobody wants one.
	why string
	// asked is true when a person asked, and is told how it ended.
	asked bool
	// target to promote; nil: none is fit.
	target *topology.Instance
	// refusal says why there is no target, or why the one that was named cannot be it.
	refusal string
}

// planSwitchover looks for wishes: a person's, a primary that is to go, or one whose pod is to be replaced.
func planSwitchover(v *view) switchover {
	var s switchover
	to := ""
	if v.rec.Phase == draining && v.rec.Operation != nil {
		s.target = v.snap.Instance(v.rec.Operation.Target)
		return s
	}
	if v.rec.Phase != stable || !v.rec.Routed || v.primary == nil {
		return s
	}
	switch ask := v.snap.Spec.Switchover; {
	case ask != nil && (v.rec.Switchover == nil || v.rec.Switchover.ID != ask.ID):
		s.asked, s.why, to = true, "it was asked for", ask.To
	case !v.primary.Wanted:
		s.why = v.rec.Primary + " is to be removed"
	case v.snap.Spec.Restarting == v.rec.Primary && v.rec.RestartReady != v.rec.Primary:
		s.why = "the pod of " + v.rec.Primary + " is to be replaced"
	default:
		return s
	}
	s.target, s.refusal = v.switchoverTarget(to)
	return s
}

// switchoverTarget chooses whom to promote, or says why nobody can be.
func (v *view) switchoverTarget(to string) (*topology.Instance, string) {
	if to != "" {
		i := v.snap.Instance(to)
		if why := v.unfitTarget(to, i); why != "" {
			return nil, why
		}
		return i, ""
	}
	var fit []*topology.Instance
	var whys []string
	for _, i := range v.wanted() {
		if i.Name == v.rec.Primary {
			continue
		}
		if why := v.unfitTarget(i.Name, i); why != "" {
			whys = append(whys, why)
			continue
		}
		fit = append(fit, i)
	}
	if len(fit) == 0 {
		return nil, orElse(list(whys), "there is no other instance")
	}
	return slices.MinFunc(fit, v.preference), ""
}

// unfitTarget says why writes cannot be handed over to an instance now; empty: they can.
func (v *view) unfitTarget(name string, i *topology.Instance) string {
	switch {
	case i == nil || !i.Wanted:
		return fmt.Sprintf("%s is no instance of this cluster; there are %s", bounded(name), list(v.snap.Spec.Instances))
	case name == v.rec.Primary:
		return name + " is the primary already"
	case name == v.snap.Spec.Restarting:
		return name + " is being restarted"
	case !v.fenceable(i):
		return name + " does not answer"
	case v.unfit(i) != "":
		return name + ": " + v.unfit(i)
	case v.rejoins[name].verdict != rejoinServing || i.Connected(v.lineage) != topology.True:
		return name + " does not follow " + v.rec.Primary
	case compareVersions(i.Status.Process.Version, v.primary.Status.Process.Version) < 0:
		return fmt.Sprintf("%s runs %s, which is lower than %s of %s", name, i.Status.Process.Version, v.primary.Status.Process.Version, v.rec.Primary)
	case i.Backlog() > maxSwitchoverBacklog:
		return fmt.Sprintf("%s lags: it has %d transactions to apply, allowed are %d", name, i.Backlog(), maxSwitchoverBacklog)
	}
	return ""
}

// drained says whether the primary has ended its writes for good in the record's epoch: what it has executed is final, and
// every commit that was acknowledged is in it.
func (v *view) drained() bool {
	server := v.primary.Server()
	return server != nil && v.primary.Status.Epoch == v.rec.Epoch && v.primary.Status.Role == agentapi.RoleNone &&
		server.SuperReadOnly && server.SemiSync.WaitSessions == 0
}

// targetHoldsAll says whether the target has received everything of a drained primary.
func (v *view) targetHoldsAll() bool {
	return v.drained() && v.switchover.target != nil && topology.CaughtUp(v.switchover.target, v.primary) == topology.True
}

// drainFailed says whether the switchover is to be given up: the target does not serve any more, or the time is over. That it
// is not heard for a moment proves nothing.
func (v *view) drainFailed() bool {
	t := v.switchover.target
	if t == nil || v.rec.Operation == nil || v.primary.MySQLRuns() == topology.False {
		return true // Where the primary was killed rather than made read-only nobody can take over now.
	}
	lasted := v.now.Sub(v.rec.Operation.StartedAt.Time)
	if t.Server() == nil {
		return t.MySQLRuns() == topology.False || !t.Answers() && !t.Pod.Exists || lasted > targetPatience
	}
	return v.unfit(t) != "" || lasted > drainBound
}

// recordDraining begins an epoch in which the primary ends its writes. Its replicas follow it on in the epoch before.
func recordDraining(v *view, d *Decision) {
	rec := &d.Record
	rec.Epoch = v.rec.Epoch + 1
	rec.Operation = v.operation(v1.OperationSwitchover, v.switchover.target.Name, rec.Epoch)
	if v.switchover.asked {
		rec.Switchover = &v1.SwitchoverStatus{ID: v.snap.Spec.Switchover.ID, State: v1.SwitchoverRunning, Message: "to " + v.switchover.target.Name}
	}
	d.Evidence = append(d.Evidence, fmt.Sprintf("switchover to %s: %s", v.switchover.target.Name, v.switchover.why))
}

// refuseSwitchover tells who asked why it cannot be; writes go on.
func refuseSwitchover(v *view, d *Decision) {
	d.Record.Switchover = &v1.SwitchoverStatus{ID: v.snap.Spec.Switchover.ID, State: v1.SwitchoverRefused, Message: v.switchover.refusal}
}

// drain makes the primary end its writes.
func drain(v *view, d *Decision) {
	if v.primary.Answers() && !v.drained() {
		v.command(d, v.primary, agentapi.Command{Type: agentapi.CommandDemote}, "end writes: "+v.rec.Operation.Target+" takes over")
	}
	d.WaitsForProgress = []string{v.rec.Primary, v.rec.Operation.Target}
	d.recheck(recheckSoon)
}

// recordSwap makes the target primary of a new epoch.
func recordSwap(v *view, d *Decision) {
	v.recordPrimaryOf(d, v.switchover.target, v1.CauseSwitchover)
	d.Evidence = append(d.Evidence, fmt.Sprintf("%s is read-only, no commit waits, and %s holds everything of it", v.rec.Primary, v.switchover.target.Name))
}

// closeSwitchover tells who asked how it ended.
func closeSwitchover(v *view, d *Decision) {
	s := v.rec.Switchover
	if s == nil || s.State != v1.SwitchoverRunning {
		return
	}
	next := *s
	op := v.rec.Operation
	next.State, next.Message = v1.SwitchoverDone, d.Record.Primary+" is primary in epoch "+itoa(d.Record.Epoch)
	if op == nil || op.Type != v1.OperationSwitchover || op.Target != d.Record.Primary {
		next.State, next.Message = v1.SwitchoverRolledBack, d.Record.Primary+" stays primary, in epoch "+itoa(d.Record.Epoch)
	}
	d.Record.Switchover = &next
}
