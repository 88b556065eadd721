package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// statusTimeout bounds a reading: a mysqld that does not answer within it is unknown, not dead.
const statusTimeout = 2 * time.Second

const variablesQuery = `SELECT @@GLOBAL.super_read_only, @@GLOBAL.read_only, @@GLOBAL.offline_mode,
 @@GLOBAL.rpl_semi_sync_source_enabled, @@GLOBAL.rpl_semi_sync_source_wait_for_replica_count, @@GLOBAL.gtid_owned`

const gtidQuery = "SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged"

const semiSyncQuery = `SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME IN
 ('Rpl_semi_sync_source_clients', 'Rpl_semi_sync_source_wait_sessions', 'Rpl_semi_sync_replica_status')`

const replicationQuery = `SELECT c.HOST, s.SOURCE_UUID, s.SERVICE_STATE, s.RECEIVED_TRANSACTION_SET,
 s.LAST_ERROR_NUMBER, s.LAST_ERROR_MESSAGE,
 GREATEST(UNIX_TIMESTAMP(s.LAST_HEARTBEAT_TIMESTAMP), UNIX_TIMESTAMP(s.LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP)),
 UNIX_TIMESTAMP(s.LAST_QUEUED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP), a.SERVICE_STATE
 FROM performance_schema.replication_connection_configuration c
 JOIN performance_schema.replication_connection_status s USING (CHANNEL_NAME)
 JOIN performance_schema.replication_applier_status a USING (CHANNEL_NAME)
 WHERE c.CHANNEL_NAME = '' AND c.HOST <> ''`

// The coordinator's row has no worker; with one worker there is no coordinator at all.
const applierQuery = `SELECT LAST_ERROR_NUMBER, LAST_ERROR_MESSAGE, 0e0 FROM performance_schema.replication_applier_status_by_coordinator
 WHERE CHANNEL_NAME = '' UNION ALL
 SELECT LAST_ERROR_NUMBER, LAST_ERROR_MESSAGE, UNIX_TIMESTAMP(APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP)
 FROM performance_schema.replication_applier_status_by_worker WHERE CHANNEL_NAME = ''`

// Status reads everything that agentapi.ServerStatus holds except what the agent itself knows (accounts).
// The executed set is read last, and what is being committed before it. So what was received is either in it or was not applied yet, and whoever sees a
// setting (read-only, acknowledgements to wait for) sees an executed set from after it took effect.
func (s *Server) Status(ctx context.Context) (*agentapi.ServerStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	conn, err := s.status.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the server's status: %w", err)
	}
	defer func() { _ = conn.Close() }()
	status := &agentapi.ServerStatus{}
	for _, read := range []func(context.Context, *sql.Conn, *agentapi.ServerStatus) error{readReplication, readVariables, readSemiSync, readGTIDs} {
		if err := read(ctx, conn, status); err != nil {
			return nil, fmt.Errorf("read the server's status: %w", err)
		}
	}
	if r := status.Replication; r != nil && status.GTIDExecuted.Contains(r.Received) {
		zero := 0.0
		r.LagSeconds = &zero
	}
	return status, nil
}

func readVariables(ctx context.Context, conn *sql.Conn, status *agentapi.ServerStatus) error {
	var owned string
	err := conn.QueryRowContext(ctx, variablesQuery).Scan(&status.SuperReadOnly, &status.ReadOnly, &status.OfflineMode,
		&status.SemiSync.SourceEnabled, &status.SemiSync.WaitForReplicaCount, &owned)
	if err != nil {
		return err
	}
	if status.GTIDOwned, err = parseOwned(owned); err != nil {
		return fmt.Errorf("gtid_owned: %w", err)
	}
	return nil
}

var (
	uuidPattern  = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	ownerPattern = regexp.MustCompile(`#\d+`)
)

// parseOwned reads gtid_owned: UUID, tag if there is one, then each number with the session that owns it, like
// UUID:3#96:2#97UUID:tag:1#95. Nothing stands between the parts, so an owner ends where the next UUID begins.
func parseOwned(text string) (gtid.Set, error) {
	starts := uuidPattern.FindAllStringIndex(text, -1)
	parts := make([]string, 0, len(starts))
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		numbers := ownerPattern.ReplaceAllString(text[at[1]:end], "")
		parts = append(parts, text[at[0]:at[1]]+strings.TrimRight(numbers, ", \n"))
	}
	set, err := gtid.Parse(strings.Join(parts, ","))
	if err == nil && set.IsEmpty() && text != "" {
		return gtid.Set{}, fmt.Errorf("%q names no transaction", text)
	}
	return set, err
}

func readGTIDs(ctx context.Context, conn *sql.Conn, status *agentapi.ServerStatus) error {
	var executed, purged string
	err := conn.QueryRowContext(ctx, gtidQuery).Scan(&executed, &purged)
	if err != nil {
		return err
	}
	if status.GTIDExecuted, err = gtid.Parse(executed); err != nil {
		return fmt.Errorf("gtid_executed: %w", err)
	}
	if status.GTIDPurged, err = gtid.Parse(purged); err != nil {
		return fmt.Errorf("gtid_purged: %w", err)
	}
	return nil
}

func readSemiSync(ctx context.Context, conn *sql.Conn, status *agentapi.ServerStatus) error {
	return eachRow(ctx, conn, semiSyncQuery, func(rows *sql.Rows) error {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		n, _ := strconv.Atoi(value) // the replica's status is ON or OFF
		switch name {
		case "Rpl_semi_sync_source_clients":
			status.SemiSync.Clients = n
		case "Rpl_semi_sync_source_wait_sessions":
			status.SemiSync.WaitSessions = n
		case "Rpl_semi_sync_replica_status":
			if status.Replication != nil {
				status.Replication.SemiSyncActive = value == "ON"
			}
		}
		return nil
	})
}

func readReplication(ctx context.Context, conn *sql.Conn, status *agentapi.ServerStatus) error {
	r := &agentapi.ReplicationStatus{}
	var received string
	var heard, queued float64
	err := conn.QueryRowContext(ctx, replicationQuery).Scan(&r.SourceHost, &r.SourceUUID, &r.Receiver, &received,
		&r.ReceiverErrno, &r.ReceiverError, &heard, &queued, &r.Applier)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if r.Received, err = gtid.Parse(received); err != nil {
		return fmt.Errorf("received set: %w", err)
	}
	if heard > 0 {
		r.LastHeard = time.UnixMicro(int64(heard * 1e6)).UTC()
	}
	status.Replication = r
	return readApplier(ctx, conn, r, queued)
}

// readApplierError reads the applier's first error; 0: none.
func readApplierError(ctx context.Context, conn *sql.Conn) (errno int, message string, err error) {
	r := &agentapi.ReplicationStatus{}
	if err := readApplier(ctx, conn, r, 0); err != nil {
		return 0, "", fmt.Errorf("read the applier's errors: %w", err)
	}
	return r.ApplierErrno, r.ApplierError, nil
}

// readApplier reads errors and lag. The lag is the age of the oldest transaction being applied, or of the last queued one
// while none is; Status makes it 0 when everything received is applied.
func readApplier(ctx context.Context, conn *sql.Conn, r *agentapi.ReplicationStatus, queued float64) error {
	oldest := 0.0
	err := eachRow(ctx, conn, applierQuery, func(rows *sql.Rows) error {
		var errno int
		var message string
		var applying float64
		if err := rows.Scan(&errno, &message, &applying); err != nil {
			return err
		}
		if errno != 0 && r.ApplierErrno == 0 {
			r.ApplierErrno, r.ApplierError = errno, message
		}
		if applying > 0 && (oldest == 0 || applying < oldest) {
			oldest = applying
		}
		return nil
	})
	if err != nil || r.Applier != "ON" {
		return err
	}
	if oldest == 0 {
		oldest = queued
	}
	if oldest > 0 {
		lag := max(0, float64(time.Now().UnixMicro())/1e6-oldest)
		r.LagSeconds = &lag
	}
	return nil
}

func eachRow(ctx context.Context, conn *sql.Conn, query string, row func(*sql.Rows) error) error {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Identity returns server_uuid and version (without suffix) of the running server.
func (s *Server) Identity(ctx context.Context) (uuid, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if err := s.status.QueryRowContext(ctx, "SELECT @@GLOBAL.server_uuid, SUBSTRING_INDEX(VERSION(), '-', 1)").Scan(&uuid, &version); err != nil {
		return "", "", fmt.Errorf("read the server's identity: %w", err)
	}
	return uuid, version, nil
}

// Counters reads global status counters by name, for metrics. Names are the server's, in its spelling; absent ones are
// left out.
func (s *Server) Counters(ctx context.Context, names []string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	conn, err := s.command.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("read status counters: %w", err)
	}
	defer func() { _ = conn.Close() }()
	query := "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME IN ("
	for i, name := range names {
		if i > 0 {
			query += ", "
		}
		query += Literal(name)
	}
	out := map[string]float64{}
	err = eachRow(ctx, conn, query+")", func(rows *sql.Rows) error {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			out[name] = v
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read status counters: %w", err)
	}
	return out, nil
}
