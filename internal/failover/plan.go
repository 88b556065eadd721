package failover

import (
	"time"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// RowUnknownPhase is the name of the row of a record in a phase that this version does not know.
const RowUnknownPhase = "unknown-phase"

// Plan decides what is to be done next. It takes the present record, never changes its arguments and has no memory: the
// same facts give the same decision, so a manager that takes over goes on where another one stopped (INV-6).
func Plan(snap topology.Snapshot, record v1.MySQLTopologyStatus, now time.Time) Decision {
	rec := *record.DeepCopy()
	if rec.Phase == "" {
		rec.Phase = bootstrapping
	}
	v := newView(snap, rec, now)
	row, ok := choose(rec.Phase, func(g Guard) bool { return g.holds(v) })
	if !ok {
		// An unknown phase can only come from a newer operator; touching nothing is the safe answer (INV-5).
		return Decision{Row: string(rec.Phase) + "/" + RowUnknownPhase, Record: record}
	}
	d := Decision{Row: row.String(), Record: *rec.DeepCopy()}
	d.Record.Phase, d.Record.Reason = row.Next, row.Reason
	for _, s := range row.Do {
		steps[s](v, &d)
	}
	v.report(row, &d)
	return d
}
