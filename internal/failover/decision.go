package failover

import (
	"time"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// Decision is what Plan came to.
type Decision struct {
	// Row of the table that was taken, PHASE/NAME.
	Row string
	// Record is the whole next record, with phase, reason, message and instances. It equals the present one when nothing
	// is to be written. It must be written before Actions are executed (INV-6); if that fails, the decision is void.
	Record v1.MySQLTopologyStatus
	// Actions are commands for agents, in the order of their instances. They are idempotent.
	Actions []Action
	// Evidence lists what the decision rests on, one observation a line.
	Evidence []string
	// WaitsForProgress lists the instances whose sets of transactions the decision waits for; empty: it waits for an
	// event. Set means that documents which differ in nothing else matter now.
	WaitsForProgress []string
	// NeedsSampleOf names an instance whose status must be sampled anew before more can be said (the replica must be
	// sampled before the primary for an errant transaction to be believed); empty: none.
	NeedsSampleOf string
	// RecheckAfter is when the same facts may give another decision, since it depends on time; 0: they do not.
	RecheckAfter time.Duration
	// Readers are the instances that should serve reads: replicas that follow, else the open primary.
	Readers []string
}

// Action is a command for one instance's agent.
type Action struct {
	// Instance that is commanded.
	Instance string
	// Command for its agent.
	Command agentapi.Command
	// Why in a line, for the log.
	Why string
}

// recheck asks for another decision after a while.
func (d *Decision) recheck(after time.Duration) {
	if after = max(after, time.Millisecond); d.RecheckAfter == 0 || after < d.RecheckAfter {
		d.RecheckAfter = after
	}
}
