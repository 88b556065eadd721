package agent

import (
	"context"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

const (
	// nudgeAfter is how long commits must have waited, with enough replicas connected and none of them coming through.
	nudgeAfter = 300 * time.Millisecond
	// nudgePause is the least time between two nudges, nudgeTimeout what one may take.
	nudgePause   = time.Second
	nudgeTimeout = 5 * time.Second
)

// nudge ends a wait that semi-sync alone would never end. A replica acknowledges an event when it receives it. One that has
// received it already, and connects with semi-sync only afterwards, or whose acknowledgement was lost with its connection,
// acknowledges nothing until the next event; and that never comes if every client waits. So the primary commits something
// by itself: the acknowledgement of a later event counts for all before it.
type nudge struct {
	executed gtid.Set
	owned    gtid.Set
	since    time.Time
	last     time.Time
}

// stuck says whether a nudge is due: the same commits wait for as long as nudgeAfter though enough replicas are connected.
func (n *nudge) stuck(status *agentapi.ServerStatus, now time.Time) bool {
	if status == nil || !status.SemiSync.SourceEnabled || status.SemiSync.WaitSessions == 0 ||
		status.SemiSync.Clients < status.SemiSync.WaitForReplicaCount {
		n.since = time.Time{}
		return false
	}
	if n.since.IsZero() || !n.executed.Equal(status.GTIDExecuted) || !n.owned.Equal(status.GTIDOwned) {
		n.executed, n.owned, n.since = status.GTIDExecuted, status.GTIDOwned, now
		return false
	}
	if now.Sub(n.since) < nudgeAfter || now.Sub(n.last) < nudgePause {
		return false
	}
	n.last = now
	return true
}

// nudge commits something that changes nothing, in a session of its own, since it waits as well.
func (a *Agent) nudge(ctx context.Context, s *session) {
	a.log.Info("Commits wait though enough replicas are connected: committing something, whose acknowledgement counts for them")
	go func() {
		ctx, cancel := context.WithTimeout(ctx, nudgeTimeout)
		defer cancel()
		if err := s.server.Nudge(ctx); err != nil && s.child.alive() {
			a.garbage.log("nudge", "Committing something for the sake of its acknowledgement failed", err)
		}
	}()
}
