package agent

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/porpoise-dev/porpoise/internal/mycnf"
	"github.com/porpoise-dev/porpoise/internal/mysql"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

const (
	optionFileName = "my.cnf"
	initFileName   = "boot.sql"
)

// prepareBoot writes what one boot of mysqld needs into the run directory, which is in memory: the option file, and the
// init-file that gives the local account a new password. It returns the password and the option file's path.
func (c Config) prepareBoot() (secret, optionFile string, err error) {
	secret = rand.Text()
	initFile := filepath.Join(c.Paths.Run, initFileName)
	if err := c.writeForMysqld(initFile, bootStatements(secret)); err != nil {
		return "", "", fmt.Errorf("write the boot statements: %w", err)
	}
	params, err := c.optionFile(c.Paths.Data, initFile)
	if err != nil {
		return "", "", err
	}
	optionFile = filepath.Join(c.Paths.Run, optionFileName)
	if err := c.writeForMysqld(optionFile, mycnf.Render(params)); err != nil {
		return "", "", fmt.Errorf("write mysqld's option file: %w", err)
	}
	// A socket of a killed mysqld would refuse the first attempts in another way than none does.
	_ = os.Remove(params.Socket())
	return secret, optionFile, nil
}

// bootStatements make the local account anew. They never reach the binary log: that would be an errant transaction. The
// account exists for the socket and for the loopback addresses, by which the admin listener is reached.
func bootStatements(secret string) string {
	statements := []string{"SET SESSION sql_mode = ''", "SET SESSION sql_log_bin = 0"}
	for _, host := range []string{"localhost", "127.0.0.0/255.0.0.0"} {
		account := mysql.Literal(naming.AccountLocal) + "@" + mysql.Literal(host)
		statements = append(statements,
			"CREATE USER IF NOT EXISTS "+account+" IDENTIFIED WITH caching_sha2_password BY "+mysql.Literal(secret),
			"ALTER USER "+account+" IDENTIFIED WITH caching_sha2_password BY "+mysql.Literal(secret)+" REQUIRE NONE PASSWORD EXPIRE NEVER ACCOUNT UNLOCK",
			"GRANT ALL ON *.* TO "+account+" WITH GRANT OPTION",
		)
	}
	return strings.Join(statements, ";\n") + ";\n"
}

// writeForMysqld writes a file that only mysqld (and the agent) can read.
func (c Config) writeForMysqld(path, text string) error {
	// Removed first: a file that mysqld's user owns keeps its owner and mode when it is written over.
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return explain(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return explain(err)
	}
	return c.own(path)
}

// own gives a file to mysqld's user, where that is another than the agent's.
func (c Config) own(path string) error {
	if c.Credential == nil {
		return nil
	}
	if err := os.Chown(path, int(c.Credential.Uid), int(c.Credential.Gid)); err != nil {
		return fmt.Errorf("give %s to mysqld's user: %w", path, err)
	}
	return nil
}
