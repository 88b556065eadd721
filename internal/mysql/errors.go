package mysql

import (
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"

	driver "github.com/go-sql-driver/mysql"
)

// Error numbers of the server; see the MySQL error message reference.
const (
	errAccessDenied       = 1045
	errTooManyConnections = 1040
	errNoSuchThread       = 1094
	errLockWaitTimeout    = 1205
	errReadOnly           = 1290
	errCloneRestart       = 3707
	errCloneDiskSpace     = 3873
	errTLSReload          = 3888
)

// number returns the server's error number, 0 if err is not of the server.
func number(err error) uint16 {
	var e *driver.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// IsLockWait says that a statement gave up waiting for a lock: for super_read_only that commits are under way that do
// not end, as they wait for acknowledgement.
func IsLockWait(err error) bool { return number(err) == errLockWaitTimeout }

// IsCloneRestart says that a clone is complete and mysqld has ended to be started again.
func IsCloneRestart(err error) bool { return number(err) == errCloneRestart }

// IsCloneDiskSpace says that the donor's data, as it estimates it, does not fit where the copy was to be made.
func IsCloneDiskSpace(err error) bool { return number(err) == errCloneDiskSpace }

// IsTLSReload says that the server refused the new certificate files and goes on with the old.
func IsTLSReload(err error) bool { return number(err) == errTLSReload }

// IsAccessDenied says that the server refused user or password.
func IsAccessDenied(err error) bool { return number(err) == errAccessDenied }

// IsConnectionLost says that the session ended before the answer came: the outcome is unknown.
func IsConnectionLost(err error) bool {
	return errors.Is(err, driver.ErrInvalidConn) || errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// withoutText replaces a server error by its number: the text of syntax errors repeats the statement, which may hold a
// password.
func withoutText(err error) error {
	if n := number(err); n != 0 {
		return fmt.Errorf("MySQL error %d", n)
	}
	return err
}
