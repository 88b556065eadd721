package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// CloneFrom replaces all data of this server by a donor's, as of its end. It takes as long as the copy does; ctx bounds
// it. When it succeeds, mysqld ends by itself (IsCloneRestart, or the session is lost) and is to be started again.
func (s *Server) CloneFrom(ctx context.Context, donor Source) error {
	conn, err := s.command.Conn(ctx)
	if err != nil {
		return fmt.Errorf("clone from %s: %w", donor.Host, err)
	}
	defer func() { _ = conn.Close() }()
	for _, statement := range []string{
		// The clone plugin refuses to run under super_read_only; read_only stays.
		"SET GLOBAL read_only = ON", "SET GLOBAL super_read_only = OFF",
		fmt.Sprintf("SET GLOBAL clone_valid_donor_list = %s", Literal(fmt.Sprintf("%s:%d", donor.Host, donor.Port))),
		"SET GLOBAL clone_ssl_ca = " + Literal(donor.CAFile),
		"SET GLOBAL clone_ssl_cert = " + Literal(donor.CertFile),
		"SET GLOBAL clone_ssl_key = " + Literal(donor.KeyFile),
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("prepare to clone from %s: %w", donor.Host, err)
		}
	}
	_, err = conn.ExecContext(ctx, fmt.Sprintf("CLONE INSTANCE FROM %s@%s:%d IDENTIFIED BY '' REQUIRE SSL",
		Literal(naming.AccountReplication), Literal(donor.Host), donor.Port))
	if err != nil {
		return fmt.Errorf("clone from %s: %w", donor.Host, err)
	}
	return nil
}

// CloneProgress says how far a running clone is: bytes copied and estimated in all.
func (s *Server) CloneProgress(ctx context.Context) (done, total int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	err = s.status.QueryRowContext(ctx, "SELECT COALESCE(SUM(DATA), 0), COALESCE(SUM(ESTIMATE), 0) FROM performance_schema.clone_progress").Scan(&done, &total)
	if err != nil {
		return 0, 0, fmt.Errorf("read the clone's progress: %w", err)
	}
	return done, total, nil
}

// CloneResult returns an error unless the last clone of this data directory completed. It is known only after the
// restart that ends a clone.
func (s *Server) CloneResult(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var state, message string
	var errno int
	err := s.command.QueryRowContext(ctx, "SELECT STATE, ERROR_NO, ERROR_MESSAGE FROM performance_schema.clone_status").Scan(&state, &errno, &message)
	if errors.Is(err, sql.ErrNoRows) {
		return errors.New("read the clone's result: mysqld knows of no clone")
	}
	if err != nil {
		return fmt.Errorf("read the clone's result: %w", err)
	}
	if state != "Completed" {
		return fmt.Errorf("clone: state %s, error %d %s", state, errno, message)
	}
	return nil
}
