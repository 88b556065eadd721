package mysql

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// Options say how to reach mysqld.
type Options struct {
	// Socket path of the unix socket.
	Socket string
	// AdminAddress is host:port of the admin listener, tried when the socket admits nobody; empty: none.
	AdminAddress string
	// TLS for AdminAddress.
	TLS *tls.Config
	// User and Password of the local account.
	User, Password string
}

const (
	dialTimeout = 2 * time.Second
	// commandSessions are kept open: one works, the others can end what it hangs on.
	commandSessions = 3
	// statementTimeout bounds statements that wait for nothing.
	statementTimeout = 10 * time.Second
	// lockWait is lock_wait_timeout in seconds: super_read_only gives up after it, and writers go on.
	lockWait = 3
)

// Server is a running mysqld with sessions that stay open.
type Server struct {
	status  *sql.DB
	command *sql.DB
	dial    *driver.Config
}

// Connect opens the sessions. It fails when mysqld does not accept them now; the caller tries again.
func Connect(ctx context.Context, o Options) (*Server, error) {
	cfg := driver.NewConfig()
	cfg.User, cfg.Passwd = o.User, o.Password
	cfg.Net, cfg.Addr = "unix", o.Socket
	cfg.Timeout = dialTimeout
	// Backslash escapes are relied on by Literal; times are compared as seconds since 1970.
	cfg.Params = map[string]string{"sql_mode": "''", "time_zone": "'+00:00'", "lock_wait_timeout": fmt.Sprint(lockWait)}
	cfg.Logger = log.New(io.Discard, "", 0)
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("configure the local session: %w", err)
	}
	both := fallbackConnector{first: connector}
	if o.AdminAddress != "" {
		admin := cfg.Clone()
		admin.Net, admin.Addr, admin.TLS = "tcp", o.AdminAddress, o.TLS
		if both.second, err = driver.NewConnector(admin); err != nil {
			return nil, fmt.Errorf("configure the admin session: %w", err)
		}
	}
	s := &Server{status: pool(both, 1), command: pool(both, commandSessions), dial: cfg}
	if err := s.openAll(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func pool(c fallbackConnector, n int) *sql.DB {
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db
}

// openAll opens every session now.
func (s *Server) openAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	if err := s.status.PingContext(ctx); err != nil {
		return fmt.Errorf("open the status session: %w", err)
	}
	var open []*sql.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close() // gives the session back to the pool
		}
	}()
	for range commandSessions {
		c, err := s.command.Conn(ctx)
		if err != nil {
			return fmt.Errorf("open a command session: %w", err)
		}
		open = append(open, c)
	}
	return nil
}

// separate returns a pool of one session of its own.
func (s *Server) separate() (*sql.DB, error) {
	connector, err := driver.NewConnector(s.dial)
	if err != nil {
		return nil, fmt.Errorf("configure a session: %w", err)
	}
	return pool(fallbackConnector{first: connector}, 1), nil
}

// Close ends the sessions.
func (s *Server) Close() {
	_ = s.status.Close()
	_ = s.command.Close()
}

// Login tries a new session over the socket, as a client would, and ends it. An error by time-out means that logins
// hang: an account statement waits for an acknowledgement.
func (s *Server) Login(ctx context.Context) error {
	connector, err := driver.NewConnector(s.dial)
	if err != nil {
		return fmt.Errorf("configure a login: %w", err)
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return fmt.Errorf("log in over the socket: %w", err)
	}
	return conn.Close()
}

// exec runs a statement on a command session with a deadline; what says in errors what it was for.
func (s *Server) exec(ctx context.Context, what, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	if _, err := s.command.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

type step struct{ what, statement string }

func (s *Server) execAll(ctx context.Context, steps ...step) error {
	for _, st := range steps {
		if err := s.exec(ctx, st.what, st.statement); err != nil {
			return err
		}
	}
	return nil
}

// fallbackConnector tries the admin listener when the socket is refused for want of connections.
type fallbackConnector struct{ first, second sqlConnector }

func (c fallbackConnector) Connect(ctx context.Context) (sqlConn, error) {
	conn, err := c.first.Connect(ctx)
	if err == nil || c.second == nil || number(err) != errTooManyConnections {
		return conn, err
	}
	conn, adminErr := c.second.Connect(ctx)
	if adminErr != nil {
		return nil, errors.Join(err, adminErr)
	}
	return conn, nil
}

func (c fallbackConnector) Driver() sqlDriver { return c.first.Driver() }
