package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// accountTimeout bounds an account statement: it may wait for an acknowledgement, while no login is possible.
const accountTimeout = 20 * time.Second

// adminStatic and adminDynamic are the administrator's privileges: everything but what would let a person break what the
// operator promises by accident. Left out are SUPER, SYSTEM_VARIABLES_ADMIN and SESSION_VARIABLES_ADMIN (read-only, semi-sync,
// sql_log_bin), RELOAD (RESET BINARY LOGS; FLUSH is granted by its parts), SHUTDOWN, FILE, REPLICATION_SLAVE_ADMIN,
// REPLICATION_APPLIER, GROUP_REPLICATION_*, BINLOG_ADMIN (PURGE), CLONE_ADMIN, PERSIST_RO_VARIABLES_ADMIN, SYSTEM_USER (the operator's
// own accounts), CONNECTION_ADMIN and SERVICE_CONNECTION_ADMIN (they pass offline_mode and the last free connection).
var (
	adminStatic = []string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "PROCESS", "REFERENCES", "INDEX", "ALTER",
		"SHOW DATABASES", "CREATE TEMPORARY TABLES", "LOCK TABLES", "EXECUTE", "REPLICATION SLAVE", "REPLICATION CLIENT", "CREATE VIEW",
		"SHOW VIEW", "CREATE ROUTINE", "ALTER ROUTINE", "CREATE USER", "EVENT", "TRIGGER", "CREATE TABLESPACE", "CREATE ROLE", "DROP ROLE"}
	adminDynamic = []string{"ALLOW_NONEXISTENT_DEFINER", "APPLICATION_PASSWORD_ADMIN", "BACKUP_ADMIN", "FLUSH_OPTIMIZER_COSTS", "FLUSH_STATUS",
		"FLUSH_TABLES", "FLUSH_USER_RESOURCES", "RESOURCE_GROUP_ADMIN", "RESOURCE_GROUP_USER", "ROLE_ADMIN", "SET_ANY_DEFINER", "SHOW_ROUTINE",
		"TABLE_ENCRYPTION_ADMIN", "XA_RECOVER_ADMIN"}
)

// Account is a user with a password.
type Account struct{ User, Password string }

// ApplyReplicationAccount makes the account by which replicas and clones authenticate, by certificate alone. SYSTEM_USER
// keeps administrators from changing it. It says whether it had to: nothing is written when the account is as it should be.
func (s *Server) ApplyReplicationAccount(ctx context.Context) (changed bool, err error) {
	var subject string
	err = s.command.QueryRowContext(ctx, "SELECT CONVERT(x509_subject USING utf8mb4) FROM mysql.user WHERE user = ? AND host = '%'", naming.AccountReplication).Scan(&subject)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, fmt.Errorf("read the replication account: %w", err)
	}
	want := "/O=" + naming.CertOrganization + "/CN=" + naming.CertCNReplication
	if subject == want {
		return false, nil
	}
	account := Literal(naming.AccountReplication) + "@'%'"
	return true, s.accountStatements(ctx, "replication account", []string{
		// Granted before the subject is required: an account that reads as complete has its rights.
		"CREATE USER IF NOT EXISTS " + account + " IDENTIFIED WITH caching_sha2_password BY '' REQUIRE SSL ACCOUNT LOCK",
		"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO " + account,
		"GRANT BACKUP_ADMIN, SYSTEM_USER ON *.* TO " + account,
		"ALTER USER " + account + " IDENTIFIED WITH caching_sha2_password BY '' REQUIRE SUBJECT " + Literal(want) + " ACCOUNT UNLOCK",
	})
}

// ApplyApp makes the application's account and its database. Repeating it changes nothing but sets the password.
func (s *Server) ApplyApp(ctx context.Context, a Account, database string) error {
	account := Literal(a.User) + "@'%'"
	return s.accountStatements(ctx, "application account", []string{
		"CREATE DATABASE IF NOT EXISTS " + Identifier(database),
		"CREATE USER IF NOT EXISTS " + account + " IDENTIFIED BY " + Literal(a.Password) + " REQUIRE SSL",
		"ALTER USER " + account + " IDENTIFIED BY " + Literal(a.Password) + " REQUIRE SSL",
		"GRANT ALL ON " + databasePattern(database) + ".* TO " + account,
	})
}

// ApplyAdmin makes the administrator's account.
func (s *Server) ApplyAdmin(ctx context.Context, a Account) error {
	account := Literal(a.User) + "@'%'"
	return s.accountStatements(ctx, "administrator account", []string{
		"CREATE USER IF NOT EXISTS " + account + " IDENTIFIED BY " + Literal(a.Password) + " REQUIRE SSL",
		"ALTER USER " + account + " IDENTIFIED BY " + Literal(a.Password) + " REQUIRE SSL",
		"GRANT " + strings.Join(adminStatic, ", ") + " ON *.* TO " + account + " WITH GRANT OPTION",
		"GRANT " + strings.Join(adminDynamic, ", ") + " ON *.* TO " + account + " WITH GRANT OPTION",
	})
}

// accountStatements runs statements on a session of their own, so that the command sessions stay free when one hangs.
// Its errors hold no text of the server, which may repeat a password.
func (s *Server) accountStatements(ctx context.Context, what string, statements []string) error {
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	db, err := s.separate()
	if err != nil {
		return fmt.Errorf("apply %s: %w", what, err)
	}
	defer func() { _ = db.Close() }()
	for i, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			verb, _, _ := strings.Cut(statement, " ")
			return fmt.Errorf("apply %s: statement %d (%s): %w", what, i+1, verb, withoutText(err))
		}
	}
	return nil
}
