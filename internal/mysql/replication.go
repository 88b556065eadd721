package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

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

// StopReceiver stops receiving; afterwards nothing is acknowledged any more. It takes about 2 s while the receiver
// connects to a source that does not answer.
func (s *Server) StopReceiver(ctx context.Context) error {
	return s.exec(ctx, "stop the receiver", "STOP REPLICA IO_THREAD")
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
