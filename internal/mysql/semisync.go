package mysql

import (
	"context"
	"fmt"
	"strings"
)

// SetSourceAcks makes commits wait for acks acknowledgements; 0 switches source semi-sync off, which releases
// commits that wait as if acknowledged: callers make sure that none does.
func (s *Server) SetSourceAcks(ctx context.Context, acks int32) error {
	if acks == 0 {
		return s.exec(ctx, "switch source semi-sync off", "SET GLOBAL rpl_semi_sync_source_enabled = OFF")
	}
	// The count first: in between nothing may commit with fewer acknowledgements.
	return s.exec(ctx, "make commits wait for acknowledgements",
		fmt.Sprintf("SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = %d, GLOBAL rpl_semi_sync_source_enabled = ON", acks))
}

// WaitSessions counts commits that wait for acknowledgement (of group leaders only).
func (s *Server) WaitSessions(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	err = s.command.QueryRowContext(ctx,
		"SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Rpl_semi_sync_source_wait_sessions'").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count commits that wait: %w", err)
	}
	return n, nil
}

// ReplicaSemiSync says whether this server acknowledges as a replica (from its receiver's next connect).
func (s *Server) ReplicaSemiSync(ctx context.Context) (on bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	if err := s.command.QueryRowContext(ctx, "SELECT @@GLOBAL.rpl_semi_sync_replica_enabled").Scan(&on); err != nil {
		return false, fmt.Errorf("read replica semi-sync: %w", err)
	}
	return on, nil
}

// SetReplicaSemiSync switches acknowledging on or off. A running receiver keeps what it connected with.
func (s *Server) SetReplicaSemiSync(ctx context.Context, on bool) error {
	value := "OFF"
	if on {
		value = "ON"
	}
	return s.exec(ctx, "set replica semi-sync", "SET GLOBAL rpl_semi_sync_replica_enabled = "+value)
}

// Nudge commits a transaction that changes nothing, in a session of its own: it waits for acknowledgement like any other.
// Dropping a table that does not exist is logged all the same.
func (s *Server) Nudge(ctx context.Context) error {
	db, err := s.separate()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, "DROP TABLE IF EXISTS mysql.porpoise_nudge"); err != nil {
		return fmt.Errorf("commit something: %w", err)
	}
	return nil
}

// SetDurable makes each commit durable by itself, as a primary's must be.
func (s *Server) SetDurable(ctx context.Context) error {
	return s.exec(ctx, "make commits durable", "SET GLOBAL sync_binlog = 1, GLOBAL innodb_flush_log_at_trx_commit = 1")
}

// dumpsQuery finds sessions that stream the binary log with semi-sync, and the server_uuid of their replica: a receiver
// says both in user variables of its session (under the old names too).
const dumpsQuery = `SELECT t.PROCESSLIST_ID, COALESCE(CONVERT(MAX(CASE WHEN v.VARIABLE_NAME IN ('replica_uuid', 'slave_uuid') THEN v.VARIABLE_VALUE END) USING ascii), '')
 FROM performance_schema.threads t JOIN performance_schema.user_variables_by_thread v USING (THREAD_ID)
 WHERE t.PROCESSLIST_COMMAND LIKE 'Binlog Dump%'
 GROUP BY t.PROCESSLIST_ID
 HAVING MAX(v.VARIABLE_NAME IN ('rpl_semi_sync_replica', 'rpl_semi_sync_slave') AND CONVERT(v.VARIABLE_VALUE USING ascii) = '1')`

// EndForeignDumps ends semi-sync streams to replicas whose server_uuid is not among members (lower case): only members
// may acknowledge (INV-4). It returns how many it ended.
func (s *Server) EndForeignDumps(ctx context.Context, members []string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	allowed := map[string]bool{}
	for _, uuid := range members {
		allowed[strings.ToLower(uuid)] = true
	}
	rows, err := s.command.QueryContext(ctx, dumpsQuery)
	if err != nil {
		return 0, fmt.Errorf("list replicas: %w", err)
	}
	var foreign []int64
	for rows.Next() {
		var id int64
		var uuid string
		if err := rows.Scan(&id, &uuid); err != nil {
			_ = rows.Close() //nolint:sqlclosecheck // Closed here and below, before the next statement needs the session.
			return 0, fmt.Errorf("list replicas: %w", err)
		}
		if !allowed[strings.ToLower(uuid)] {
			foreign = append(foreign, id)
		}
	}
	_ = rows.Close()
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("list replicas: %w", err)
	}
	return len(foreign), s.kill(ctx, foreign)
}

// ReloadTLS makes mysqld read its certificate files again; running sessions and streams stay. On an error mysqld goes on
// with what it had (IsTLSReload: the files are bad).
func (s *Server) ReloadTLS(ctx context.Context) error {
	return s.execAll(ctx,
		step{"reload TLS", "ALTER INSTANCE RELOAD TLS FOR CHANNEL mysql_main"},
		step{"reload TLS of the admin listener", "ALTER INSTANCE RELOAD TLS FOR CHANNEL mysql_admin"},
	)
}
