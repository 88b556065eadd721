package conditions

import (
	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

// phases is the table of phases: the first row whose guard holds wins, and the last one always holds.
var phases = []struct {
	phase v1.ClusterPhase
	when  func(in Input, f facts) bool
}{
	{v1.PhaseDeleting, func(in Input, _ facts) bool { return in.Deleting }},
	{v1.PhasePending, func(in Input, f facts) bool { return !in.EverReady && !f.primary && len(in.Problems) > 0 }},
	{v1.PhaseCreating, func(in Input, f facts) bool { return !in.EverReady && (!f.writes || !f.quorum || !f.replicas) }},
	{v1.PhaseFailingOver, func(in Input, _ facts) bool { return in.changesPrimary() == v1.OperationFailover }},
	{v1.PhaseUpdating, func(in Input, f facts) bool { return in.Change != "" && f.primary }},
	{v1.PhaseUpdating, func(in Input, _ facts) bool { return in.Change != "" && in.restartsPrimary() }},
	{v1.PhaseSwitchingOver, func(in Input, _ facts) bool { return in.changesPrimary() == v1.OperationSwitchover }},
	{v1.PhaseUnknown, func(_ Input, f facts) bool { return f.unknown }},
	{v1.PhaseBlocked, func(_ Input, f facts) bool { return !f.writes || !f.quorum }},
	{v1.PhaseDegraded, func(_ Input, f facts) bool { return !f.replicas }},
	{v1.PhaseRunning, func(Input, facts) bool { return true }},
}

func phase(in Input, f facts) v1.ClusterPhase {
	for _, row := range phases {
		if row.when(in, f) {
			return row.phase
		}
	}
	return v1.PhasePending // Not reached: the last row always holds.
}
