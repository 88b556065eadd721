package mysql

import (
	"context"
	"fmt"
	"slices"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// SetReadOnly ends all writing. Only its success counts: while it fails, @@super_read_only may read 1 though commits are
// under way. It gives up after 3 s (IsLockWait) so that writers go on; it hangs behind commits that wait for
// acknowledgement.
func (s *Server) SetReadOnly(ctx context.Context) error {
	return s.exec(ctx, "set super_read_only", "SET GLOBAL super_read_only = ON")
}

// SetWritable lets clients write.
func (s *Server) SetWritable(ctx context.Context) error {
	return s.exec(ctx, "end read-only and offline mode", "SET GLOBAL offline_mode = OFF, GLOBAL super_read_only = OFF, GLOBAL read_only = OFF")
}

// SetOffline disconnects every session, those of replicas included, and admits no new one but the agent's.
func (s *Server) SetOffline(ctx context.Context) error {
	return s.exec(ctx, "set offline_mode", "SET GLOBAL offline_mode = ON")
}

// BusyDumps counts replicas that have not been sent the whole binary log yet.
func (s *Server) BusyDumps(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var n int
	err := s.command.QueryRowContext(ctx, `SELECT COUNT(*) FROM performance_schema.threads
 WHERE PROCESSLIST_COMMAND LIKE 'Binlog Dump%' AND COALESCE(PROCESSLIST_STATE, '') NOT LIKE '%has sent all binlog%'`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count replicas that are behind: %w", err)
	}
	return n, nil
}

// Threads of the server itself have no user, or one of these.
var ownUsers = []string{naming.AccountLocal, naming.AccountReplication, "event_scheduler", "system user"}

// DisconnectClients ends every session of clients, so that nobody goes on with a server that is not theirs any more.
// Commits that wait for acknowledgement go on waiting.
func (s *Server) DisconnectClients(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	rows, err := s.command.QueryContext(ctx, `SELECT PROCESSLIST_ID, PROCESSLIST_USER FROM performance_schema.threads
 WHERE TYPE = 'FOREGROUND' AND PROCESSLIST_ID IS NOT NULL AND PROCESSLIST_USER IS NOT NULL AND PROCESSLIST_ID <> CONNECTION_ID()`)
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	var ids []int64
	for rows.Next() {
		var id int64
		var user string
		if err := rows.Scan(&id, &user); err != nil {
			_ = rows.Close() //nolint:sqlclosecheck // Closed here and below, before the next statement needs the session.
			return fmt.Errorf("list sessions: %w", err)
		}
		if !slices.Contains(ownUsers, user) {
			ids = append(ids, id)
		}
	}
	_ = rows.Close()
	if err := rows.Err(); err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	return s.kill(ctx, ids)
}

// kill ends sessions; those that have ended meanwhile are fine.
func (s *Server) kill(ctx context.Context, ids []int64) error {
	for _, id := range ids {
		if _, err := s.command.ExecContext(ctx, fmt.Sprintf("KILL %d", id)); err != nil && number(err) != errNoSuchThread {
			return fmt.Errorf("end session %d: %w", id, err)
		}
	}
	return nil
}
