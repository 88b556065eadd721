package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

func woken(changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	default:
		return false
	}
}

// TestHubWakes: streams are woken by what matters, not by each commit.
func TestHubWakes(t *testing.T) {
	server := func(change func(*agentapi.ServerStatus)) func(*agentapi.Status) {
		s := &agentapi.ServerStatus{Replication: &agentapi.ReplicationStatus{Receiver: "ON"}}
		change(s)
		return func(d *agentapi.Status) { d.Server = s }
	}
	lag := 3.5
	h := newHub("db-0")
	h.update(server(func(*agentapi.ServerStatus) {}))
	for name, tc := range map[string]struct {
		change func(*agentapi.ServerStatus)
		wakes  bool
	}{
		"gtid":      {func(s *agentapi.ServerStatus) { s.GTIDExecuted = gtid.MustParse(anUUID + ":1-5") }, false},
		"received":  {func(s *agentapi.ServerStatus) { s.Replication.Received = gtid.MustParse(anUUID + ":1-5") }, false},
		"lag":       {func(s *agentapi.ServerStatus) { s.Replication.LagSeconds = &lag }, false},
		"heard":     {func(s *agentapi.ServerStatus) { s.Replication.LastHeard = time.Now() }, false},
		"waiting":   {func(s *agentapi.ServerStatus) { s.SemiSync.WaitSessions = 3 }, false},
		"receiver":  {func(s *agentapi.ServerStatus) { s.Replication.Receiver = "CONNECTING" }, true},
		"errno":     {func(s *agentapi.ServerStatus) { s.Replication.ReceiverErrno = 2003 }, true},
		"clients":   {func(s *agentapi.ServerStatus) { s.SemiSync.Clients = 1 }, true},
		"read-only": {func(s *agentapi.ServerStatus) { s.SuperReadOnly = true }, true},
	} {
		h.update(server(func(*agentapi.ServerStatus) {}))
		_, changed := h.next()
		h.update(server(tc.change))
		if woken(changed) != tc.wakes {
			t.Errorf("%s wakes: %v, want %v", name, !tc.wakes, tc.wakes)
		}
	}
	first, _ := h.next()
	second, _ := h.next()
	if second.Sequence != first.Sequence+1 {
		t.Errorf("sequence %d after %d", second.Sequence, first.Sequence)
	}
}

func TestUnready(t *testing.T) {
	serving := func(change func(*agentapi.Status)) agentapi.Status {
		d := agentapi.Status{Confirmed: true, Role: agentapi.RoleReplica, Process: agentapi.ProcessStatus{State: agentapi.ProcessRunning},
			Server: &agentapi.ServerStatus{SuperReadOnly: true, ReadOnly: true, Replication: &agentapi.ReplicationStatus{Receiver: "ON", Applier: "ON"}}}
		change(&d)
		return d
	}
	for name, tc := range map[string]struct {
		change func(*agentapi.Status)
		reason string
	}{
		"a replica":               {func(*agentapi.Status) {}, ""},
		"a replica that connects": {func(d *agentapi.Status) { d.Server.Replication.Receiver = "CONNECTING" }, ""},
		"a primary":               {func(d *agentapi.Status) { d.Role, d.Server.ReadOnly = agentapi.RolePrimary, false }, ""},
		"unconfirmed":             {func(d *agentapi.Status) { d.Confirmed = false }, "confirmed"},
		"crashed":                 {func(d *agentapi.Status) { d.Process.State = agentapi.ProcessCrashed }, "Crashed"},
		"silent":                  {func(d *agentapi.Status) { d.Server = nil }, "answer"},
		"read-only primary":       {func(d *agentapi.Status) { d.Role = agentapi.RolePrimary }, "read-only"},
		"stopped applier":         {func(d *agentapi.Status) { d.Server.Replication.Applier = "OFF" }, "applier"},
		"stopped receiver":        {func(d *agentapi.Status) { d.Server.Replication.Receiver = "OFF" }, "receiver"},
		"no channel":              {func(d *agentapi.Status) { d.Server.Replication = nil }, "not configured"},
		"offline":                 {func(d *agentapi.Status) { d.Server.OfflineMode = true }, "offline"},
	} {
		got := unready(serving(tc.change))
		if (got == "") != (tc.reason == "") || !strings.Contains(got, tc.reason) {
			t.Errorf("%s: %q, want %q", name, got, tc.reason)
		}
	}
}

func TestBackoff(t *testing.T) {
	if backoff(0) != 0 || backoff(1) != 0 {
		t.Error("the first restart is not at once")
	}
	for n := 2; n < 100; n++ {
		if d := backoff(n); d < backoff(n-1) || d <= 0 || d > maxBackoff {
			t.Errorf("pause %d is %s after %s", n, d, backoff(n-1))
		}
	}
}

func TestParseLogLine(t *testing.T) {
	for line, want := range map[string][4]string{
		"2026-11-30T19:03:29.946690Z 0 [ERROR] [MY-010119] [Server] Aborting": {"ERROR", "MY-010119", "Server", "Aborting"},
		"2026-11-30T19:03:29.946690Z 0 [Warning] [MY-1] [InnoDB] a [b] c":     {"WARNING", "MY-1", "InnoDB", "a [b] c"},
		"mysqld: unknown option":                 {"", "", "", "mysqld: unknown option"},
		"2026-11-30T19:03:29Z 0 [ERROR] no code": {"", "", "", "2026-11-30T19:03:29Z 0 [ERROR] no code"},
		"":                                       {},
	} {
		level, code, part, message := parseLogLine(line)
		if got := [4]string{level, code, part, message}; got != want {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1 << 30: "1 GiB", 3 << 29: "1.5 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
