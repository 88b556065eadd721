package sim

import (
	"fmt"
	"slices"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// fault breaks or mends something, or changes what is wanted.
func (r *Run) fault(m *simManager) {
	name := r.anyInstance()
	switch r.rnd.IntN(15) {
	case 10:
		r.note("fault: %s stores the next quorum and then fails", name)
		r.world.HalfDone(name)
	case 11:
		r.lagging[name] = !r.lagging[name]
		r.note("fault: %s applies nothing: %t", name, r.lagging[name])
		r.world.Lag(name, r.lagging[name])
	case 12:
		m.deaf[name] = !m.deaf[name]
		r.note("fault: a manager is cut off from %s: %t", name, m.deaf[name])
	case 13:
		r.loseVolume(name)
	case 14:
		hung := r.rnd.IntN(2) == 0
		r.note("fault: mysqld of %s answers nobody: %t", name, hung)
		r.world.Hang(name, hung)
	case 0:
		r.note("fault: mysqld of %s is killed", name)
		r.world.Crash(name)
	case 1:
		if r.up[name] {
			r.note("fault: the pod of %s ends", name)
			r.world.StopPod(name)
		} else {
			r.note("mended: %s has a new pod", name)
			r.world.StartPod(name)
		}
		r.up[name] = !r.up[name]
	case 2:
		r.cut[name] = !r.cut[name]
		r.note("fault: replication of %s cut off: %t", name, r.cut[name])
		r.world.CutOff(name, r.cut[name])
	case 3:
		r.note("fault: a manager starts anew")
		*m = *r.newManager()
	case 4:
		m.Lose(name, r.clock)
	case 5:
		r.wish()
	case 6:
		if len(r.spec.Instances) > 1 && r.spec.Restarting == "" {
			r.spec.Restarting = name
		} else {
			r.spec.Restarting = ""
		}
		r.note("wish: restarting %q", r.spec.Restarting)
	case 7, 8:
		r.frozen[name] = !r.frozen[name]
		r.note("fault: %s receives nothing: %t", name, r.frozen[name])
		r.world.Freeze(name, r.frozen[name])
	case 9:
		if r.record.Routed && !r.voided && r.rnd.IntN(6) == 0 { // The volumes alone must tell what was recorded.
			r.note("fault: the record is lost")
			r.record, r.recordLost = v1.MySQLTopologyStatus{}, true
			r.version++
		}
	}
}

// loseVolume takes an instance's pod and volume away, once in a schedule: more than that can lose what W members
// acknowledged, whatever the operator does.
func (r *Run) loseVolume(name string) {
	if r.voided || r.recordLost || !r.record.Routed || r.record.Quorum.RequiredAcks == 0 || r.rnd.IntN(4) != 0 || !r.othersHaveData(name) {
		return
	}
	r.voided = true
	r.note("fault: %s loses its volume", name)
	if r.up[name] {
		r.world.StopPod(name)
	}
	r.world.LoseVolume(name)
	r.world.StartPod(name)
	r.up[name] = true
}

// othersHaveData says whether an instance other than the named one has a complete data directory: what nobody has any more
// nobody can bring back.
func (r *Run) othersHaveData(name string) bool {
	return slices.ContainsFunc(r.names(), func(other string) bool {
		st, err := r.world.Status(other)
		return other != name && err == nil && st.Data.State == agentapi.DataReady
	})
}

// wish changes the wanted acks or the number of instances. The primary is never scaled in: that needs a switchover.
func (r *Run) wish() {
	size := len(r.spec.Instances)
	last := r.spec.Instances[size-1]
	switch n := r.rnd.IntN(4); {
	case n == 0 && size < 5:
		name := fmt.Sprintf("%s-%d", cluster, size)
		if _, known := r.up[name]; known {
			r.spec.Instances = append(r.spec.Instances, name)
		} else {
			r.addInstance(name)
		}
	case n == 1 && size > 2 && last != r.record.Primary:
		r.spec.Instances = slices.Clone(r.spec.Instances[:size-1])
	case n == 1 && r.rnd.IntN(3) == 0:
		r.spec.Suspend = !r.spec.Suspend
		r.note("wish: suspend: %t", r.spec.Suspend)
	case n == 3:
		r.asked++
		r.spec.Switchover = &v1.SwitchoverRequest{ID: fmt.Sprint(r.asked)}
		r.note("wish: switchover %d", r.asked)
	case size > 1:
		r.spec.Acks = 1 + int32(r.rnd.IntN(size-1))
	}
	r.spec.Acks = min(max(r.spec.Acks, min(1, int32(len(r.spec.Instances)-1))), int32(len(r.spec.Instances)-1))
	r.note("wish: %d acks of %v", r.spec.Acks, r.spec.Instances)
}
