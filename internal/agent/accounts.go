package agent

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/mysql"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

const (
	localUser = naming.AccountLocal
	// accountsEvery is how often a primary compares the mounted accounts with what it applied.
	accountsEvery = 2 * time.Second
	maxUserName   = 32
	maxDatabase   = 64
	maxPassword   = 256
)

// accountFiles is the content of the mounted accounts.
type accountFiles struct {
	app, admin mysql.Account
	database   string
}

// accounts applies the mounted accounts on a primary, in a goroutine of its own, so that a statement which waits for
// an acknowledgement holds nothing else up.
type accounts struct {
	wake chan struct{}

	mu      sync.Mutex
	applied bool
	failure string
}

func newAccounts() *accounts { return &accounts{wake: make(chan struct{}, 1)} }

func (c *accounts) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *accounts) report() (applied bool, failure string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applied, c.failure
}

// set remembers the outcome and says whether it is another than before.
func (c *accounts) set(applied bool, err error) bool {
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.applied != applied || c.failure != failure
	c.applied, c.failure = applied, failure
	return changed
}

// watchAccounts applies accounts until ctx ends.
func (a *Agent) watchAccounts(ctx context.Context) {
	ticker := time.NewTicker(accountsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.accounts.wake:
		case <-ticker.C:
		}
		applied, err := a.applyAccounts(ctx)
		if a.accounts.set(applied, err) {
			if err != nil {
				a.log.Info("Accounts are not applied", "reason", err.Error())
			} else if applied {
				a.log.Info("Accounts are applied")
			}
			a.poll()
		}
	}
}

// applyAccounts does what is missing, on a writable primary only. An account statement that waits for an acknowledgement
// locks out every login, those of replicas included, so it runs only while enough of them are connected.
func (a *Agent) applyAccounts(ctx context.Context) (bool, error) {
	s, doc, st := a.current(), a.hub.peek(), a.state.get()
	if s == nil || st.Role != agentapi.RolePrimary || !doc.Confirmed || doc.Server == nil || doc.Server.ReadOnly {
		return false, nil
	}
	files, filesErr := readAccounts(a.cfg.Paths.Accounts)
	hash := files.hash(st.AccountsSalt)
	if filesErr == nil && hash == st.AccountsHash && st.AccountsSalt != "" {
		return true, nil
	}
	if err := a.enoughClients(ctx, s, st); err != nil {
		return false, err
	}
	if changed, err := s.server.ApplyReplicationAccount(ctx); err != nil {
		return false, err
	} else if changed {
		a.log.Info("Made the replication account")
	}
	if filesErr != nil {
		return false, filesErr
	}
	if err := s.server.ApplyApp(ctx, files.app, files.database); err != nil {
		return false, err
	}
	if err := s.server.ApplyAdmin(ctx, files.admin); err != nil {
		return false, err
	}
	salt := rand.Text()
	err := a.state.update(func(s *state) { s.AccountsSalt, s.AccountsHash = salt, files.hash(salt) })
	return err == nil, err
}

func (a *Agent) enoughClients(ctx context.Context, s *session, st state) error {
	status, err := s.server.Status(ctx)
	if err != nil {
		return err
	}
	if !status.SemiSync.SourceEnabled {
		return nil
	}
	if required := max(st.Quorum.RequiredAcks, int32(status.SemiSync.WaitForReplicaCount)); status.SemiSync.Clients < int(required) || status.SemiSync.WaitSessions > 0 {
		return fmt.Errorf("waiting for replicas: %d of %d that must acknowledge are connected", status.SemiSync.Clients, required)
	}
	return nil
}

// hash identifies the content without giving it away.
func (f accountFiles) hash(salt string) string {
	mac := hmac.New(sha256.New, []byte(salt))
	for _, text := range []string{f.app.User, f.app.Password, f.database, f.admin.User, f.admin.Password} {
		_, _ = fmt.Fprintf(mac, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// readAccounts reads and checks the mounted files. Errors name the file and never its content.
func readAccounts(dir string) (accountFiles, error) {
	var f accountFiles
	var errs []error
	for _, file := range []struct {
		path  string
		to    *string
		limit int
	}{
		{"app/username", &f.app.User, maxUserName}, {"app/password", &f.app.Password, maxPassword}, {"app/database", &f.database, maxDatabase},
		{"admin/username", &f.admin.User, maxUserName}, {"admin/password", &f.admin.Password, maxPassword},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file.path))
		switch {
		case errors.Is(err, os.ErrNotExist):
			errs = append(errs, fmt.Errorf("account file %s: missing from its Secret", file.path))
		case err != nil:
			errs = append(errs, fmt.Errorf("account file %s: %w", file.path, err))
		case len(text) == 0 || len(text) > file.limit:
			errs = append(errs, fmt.Errorf("account file %s: has %d bytes; allowed are 1 to %d", file.path, len(text), file.limit))
		case bytes.IndexFunc(text, unicode.IsControl) >= 0:
			errs = append(errs, fmt.Errorf("account file %s: has a control character (often a line end); allowed is one line without an end", file.path))
		}
		*file.to = string(text)
	}
	errs = append(errs, checkUser("app/username", f.app.User), checkUser("admin/username", f.admin.User))
	if f.app.User != "" && f.app.User == f.admin.User {
		errs = append(errs, errors.New("account files app/username and admin/username: the same name; they must differ"))
	}
	switch strings.ToLower(f.database) {
	case "mysql", "sys", "performance_schema", "information_schema":
		errs = append(errs, errors.New("account file app/database: names a database of the server; choose another"))
	}
	return f, errors.Join(errs...)
}

// checkUser refuses names of the server's and the operator's own accounts.
func checkUser(file, name string) error {
	lower := strings.ToLower(name)
	if strings.HasPrefix(lower, "mysql.") || lower == naming.AccountLocal || lower == naming.AccountReplication {
		return fmt.Errorf("account file %s: %q is the name of an internal account; choose another", file, name)
	}
	return nil
}
