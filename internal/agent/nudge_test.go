package agent

import (
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

func TestNudge(t *testing.T) {
	const source = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
	waiting := func(clients int, owned string) *agentapi.ServerStatus {
		return &agentapi.ServerStatus{
			GTIDExecuted: gtid.MustParse(source + ":1-9"), GTIDOwned: gtid.MustParse(source + ":" + owned),
			SemiSync: agentapi.SemiSyncStatus{SourceEnabled: true, WaitForReplicaCount: 1, Clients: clients, WaitSessions: 1},
		}
	}
	now := time.Now()
	var n nudge
	for i, step := range []struct {
		after  time.Duration
		status *agentapi.ServerStatus
		want   bool
	}{
		{0, waiting(1, "10"), false},
		{nudgeAfter / 2, waiting(1, "10"), false},
		{nudgeAfter, waiting(1, "11"), false}, // Others wait now: it moves.
		{nudgeAfter, waiting(1, "11"), true},
		{nudgeAfter, waiting(1, "11"), false}, // Too soon again.
		{nudgePause, waiting(1, "11"), true},
		{nudgePause, waiting(0, "11"), false}, // Nobody could acknowledge it.
		{nudgePause, waiting(1, "11"), false}, // From now on somebody can.
		{nudgeAfter, waiting(1, "11"), true},
		{nudgePause, nil, false},
	} {
		now = now.Add(step.after)
		if got := n.stuck(step.status, now); got != step.want {
			t.Errorf("step %d: %t, want %t", i, got, step.want)
		}
	}
}
