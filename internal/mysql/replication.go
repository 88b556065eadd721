package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Source is the primary to follow. Replicas authenticate by certificate alone, so no secret is stored.
type Source struct {
	Host string
	Port int
	// CAFile, CertFile and KeyFile are read at each connect.
	CAFile, CertFile, KeyFile string
}

const (
	// sourceHeartbeat in seconds: with a net timeout of 2 s a replica knows of a silent source in about that time.
	sourceHeartbeat = 0.5
	// sourceConnectRetry in seconds between attempts, which go on for ever.
	sourceConnectRetry = 1
	sourceRetryCount   = 4294967295
	// stopPatience: STOP REPLICA waits up to a minute for the rest of a transaction that never comes; after this the
	// coordinator is killed.
	stopPatience = time.Second
)

// Channel is the configuration of the default channel.
type Channel struct {
	Source
	// Receiver is ON, OFF or CONNECTING; ApplierOn says whether the applier runs.
	Receiver  string
	ApplierOn bool
	// Exact says whether every setting is as Follow would make it.
	Exact bool
}

// Channel reads the default channel's configuration; nil: none.
func (s *Server) Channel(ctx context.Context) (*Channel, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	c := &Channel{}
	var applier string
	err := s.command.QueryRowContext(ctx, `SELECT c.HOST, c.PORT, c.SSL_CA_FILE, c.SSL_CERTIFICATE, c.SSL_KEY, s.SERVICE_STATE, a.SERVICE_STATE,
 c.USER = ? AND c.AUTO_POSITION = '1' AND c.SSL_ALLOWED = 'YES' AND c.SSL_VERIFY_SERVER_CERTIFICATE = 'YES'
 AND c.HEARTBEAT_INTERVAL = ? AND c.CONNECTION_RETRY_INTERVAL = ? AND c.CONNECTION_RETRY_COUNT = ?
 FROM performance_schema.replication_connection_configuration c
 JOIN performance_schema.replication_connection_status s USING (CHANNEL_NAME)
 JOIN performance_schema.replication_applier_status a USING (CHANNEL_NAME)
 WHERE c.CHANNEL_NAME = '' AND c.HOST <> ''`, naming.AccountReplication, sourceHeartbeat, sourceConnectRetry, sourceRetryCount).
		Scan(&c.Host, &c.Port, &c.CAFile, &c.CertFile, &c.KeyFile, &c.Receiver, &applier, &c.Exact)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the replication channel: %w", err)
	}
	c.ApplierOn = applier == "ON"
	return c, nil
}

// MovesTo says whether the channel differs from a source in the host and port alone, so that MoveSource leads there.
func (c *Channel) MovesTo(src Source) bool {
	at := c.Source
	at.Host, at.Port = src.Host, src.Port
	return c.Exact && at == src
}

// MoveSource points a channel at another host while its applier works on: the relay logs stay, with what is received and not
// applied. The receiver must be stopped. It refuses where the applier does not run: mysqld would delete the relay logs then.
// (Were the applier to fail between the two statements, what is lost here the new source still has: it was promoted for
// holding all that was acknowledged.)
func (s *Server) MoveSource(ctx context.Context, src Source) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var applier string
	if err := s.command.QueryRowContext(ctx, "SELECT SERVICE_STATE FROM performance_schema.replication_applier_status WHERE CHANNEL_NAME = ''").Scan(&applier); err != nil {
		return fmt.Errorf("read the applier's state: %w", err)
	}
	if applier != "ON" {
		return fmt.Errorf("move the replication source to %s: the applier is %s, so received transactions could be lost", src.Host, applier)
	}
	// Named SOURCE_AUTO_POSITION is refused with a running applier (3081); a change of host resets the heartbeat period.
	return s.exec(ctx, "move the replication source to "+src.Host, fmt.Sprintf(
		"CHANGE REPLICATION SOURCE TO SOURCE_HOST = %s, SOURCE_PORT = %d, SOURCE_HEARTBEAT_PERIOD = %g", Literal(src.Host), src.Port, sourceHeartbeat))
}

// ChangeSource points the default channel at a source. Both threads must be stopped, and everything received applied:
// it deletes the relay logs.
func (s *Server) ChangeSource(ctx context.Context, src Source) error {
	return s.exec(ctx, "change the replication source to "+src.Host, fmt.Sprintf(`CHANGE REPLICATION SOURCE TO
 SOURCE_HOST = %s, SOURCE_PORT = %d, SOURCE_USER = %s, SOURCE_PASSWORD = '', SOURCE_AUTO_POSITION = 1,
 SOURCE_SSL = 1, SOURCE_SSL_CA = %s, SOURCE_SSL_CERT = %s, SOURCE_SSL_KEY = %s, SOURCE_SSL_VERIFY_SERVER_CERT = 1,
 SOURCE_TLS_VERSION = 'TLSv1.2,TLSv1.3', SOURCE_HEARTBEAT_PERIOD = %g, SOURCE_CONNECT_RETRY = %d, SOURCE_RETRY_COUNT = %d`,
		Literal(src.Host), src.Port, Literal(naming.AccountReplication), Literal(src.CAFile), Literal(src.CertFile), Literal(src.KeyFile),
		sourceHeartbeat, sourceConnectRetry, sourceRetryCount))
}

// StartReplica starts both threads; those that run already go on.
func (s *Server) StartReplica(ctx context.Context) error {
	return s.exec(ctx, "start replication", "START REPLICA")
}

// StartApplier starts the applier alone.
func (s *Server) StartApplier(ctx context.Context) error {
	return s.exec(ctx, "start the applier", "START REPLICA SQL_THREAD")
}

// StartReceiver starts the receiver alone.
func (s *Server) StartReceiver(ctx context.Context) error {
	return s.exec(ctx, "start the receiver", "START REPLICA IO_THREAD")
}

// receiverPoll is how often the end of the receiver is looked for: it takes a few milliseconds.
const receiverPoll = time.Millisecond

// HaltReceiver ends receiving: when it returns nothing is received or acknowledged any more. A receiver that is connecting
// may live on for as long as its attempt takes (2 s where the source does not answer), but it has been killed: it asks
// before everything that it does with a connection (handle_slave_io in the server's rpl_replica.cc).
func (s *Server) HaltReceiver(ctx context.Context) error {
	return s.endReceiver(ctx, func(state string) bool { return state != "ON" })
}

// StopReceiver is HaltReceiver that waits for the thread's end: before that it cannot be started again. STOP REPLICA would
// begin an attempt's 2 seconds anew.
func (s *Server) StopReceiver(ctx context.Context) error {
	return s.endReceiver(ctx, func(state string) bool { return state == "OFF" })
}

func (s *Server) endReceiver(ctx context.Context, ended func(state string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var id sql.NullInt64
	err := s.command.QueryRowContext(ctx,
		"SELECT MAX(PROCESSLIST_ID) FROM performance_schema.threads WHERE NAME = 'thread/sql/replica_io'").Scan(&id)
	if err != nil {
		return fmt.Errorf("find the receiver: %w", err)
	}
	if id.Valid {
		if err := s.kill(ctx, []int64{id.Int64}); err != nil {
			return err
		}
	}
	for {
		var state string
		err := s.command.QueryRowContext(ctx, "SELECT SERVICE_STATE FROM performance_schema.replication_connection_status WHERE CHANNEL_NAME = ''").Scan(&state)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("stop the receiver: %w", err)
		}
		if ended(state) {
			return nil
		}
		select {
		case <-time.After(receiverPoll):
		case <-ctx.Done():
			return fmt.Errorf("stop the receiver: it is still %s: %w", state, ctx.Err())
		}
	}
}

// Progress is how far the applier is.
type Progress struct {
	Received, Executed gtid.Set
	ApplierOn          bool
	ApplierErrno       int
	ApplierError       string
}

// Left is what was received and is not applied.
func (p *Progress) Left() gtid.Set { return p.Received.Subtract(p.Executed) }

const progressQuery = `SELECT s.RECEIVED_TRANSACTION_SET, a.SERVICE_STATE FROM performance_schema.replication_connection_status s
 JOIN performance_schema.replication_applier_status a USING (CHANNEL_NAME) WHERE s.CHANNEL_NAME = ''`

// Progress reads it, what is executed last; nil: there is no channel.
func (s *Server) Progress(ctx context.Context) (*Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var received, executed, applier string
	err := s.command.QueryRowContext(ctx, progressQuery).Scan(&received, &applier)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was received: %w", err)
	}
	p := &Progress{ApplierOn: applier == "ON"}
	if err := s.command.QueryRowContext(ctx, "SELECT @@GLOBAL.gtid_executed").Scan(&executed); err != nil {
		return nil, fmt.Errorf("read what is executed: %w", err)
	}
	if p.Received, err = gtid.Parse(received); err != nil {
		return nil, fmt.Errorf("received set: %w", err)
	}
	if p.Executed, err = gtid.Parse(executed); err != nil {
		return nil, fmt.Errorf("executed set: %w", err)
	}
	if p.Left().IsEmpty() {
		return p, nil
	}
	conn, err := s.command.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the applier's errors: %w", err)
	}
	defer func() { _ = conn.Close() }()
	p.ApplierErrno, p.ApplierError, err = readApplierError(ctx, conn)
	return p, err
}

// AwaitExecuted waits until a set is executed, or the bound (at most some seconds) is over; which of the two, Progress tells.
func (s *Server) AwaitExecuted(ctx context.Context, set gtid.Set, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound+statementTimeout)
	defer cancel()
	var timedOut bool
	err := s.command.QueryRowContext(ctx, "SELECT WAIT_FOR_EXECUTED_GTID_SET("+Literal(set.String())+fmt.Sprintf(", %.3f)", bound.Seconds())).Scan(&timedOut)
	if err != nil {
		return fmt.Errorf("wait for the applier: %w", err)
	}
	return nil
}

// StopApplier stops applying between transactions. With sourceLost the relay log may end within a transaction, for whose
// rest STOP REPLICA would wait a minute: the coordinator is killed first.
func (s *Server) StopApplier(ctx context.Context, sourceLost bool) error {
	if sourceLost {
		if err := s.killCoordinator(ctx); err != nil {
			return err
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.exec(ctx, "stop the applier", "STOP REPLICA SQL_THREAD") }()
	patience := time.NewTimer(stopPatience)
	defer patience.Stop()
	select {
	case err := <-stopped:
		return err
	case <-patience.C:
	}
	if err := s.killCoordinator(ctx); err != nil {
		return err
	}
	return <-stopped
}

func (s *Server) killCoordinator(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var id int64
	err := s.command.QueryRowContext(ctx,
		"SELECT PROCESSLIST_ID FROM performance_schema.threads WHERE NAME = 'thread/sql/replica_sql' AND PROCESSLIST_ID IS NOT NULL LIMIT 1").Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the applier's coordinator: %w", err)
	}
	return s.kill(ctx, []int64{id})
}

// ResetReplica forgets the channel and deletes the relay logs. Both threads must be stopped, everything received applied.
func (s *Server) ResetReplica(ctx context.Context) error {
	return s.exec(ctx, "reset replication", "RESET REPLICA ALL")
}
