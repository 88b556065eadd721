package mysqlcluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// accounts keeps the Secrets of the two accounts. A password is made once; afterwards it is the user's.
func accounts(ctx context.Context, s *scope) (Result, error) {
	if err := s.keepAccount(ctx, naming.SecretApp(s.cluster.Name), naming.AccountApp, naming.DatabaseApp); err != nil {
		return Result{}, err
	}
	return Continue(), s.keepAccount(ctx, naming.SecretAdmin(s.cluster.Name), naming.AccountAdmin, "")
}

// keepAccount makes the Secret where it is missing, and fills in what is missing or outdated beside the password.
func (s *scope) keepAccount(ctx context.Context, name, username, database string) error {
	stored := s.live.secrets[name]
	password := ""
	if stored != nil {
		password = string(stored.Data[corev1.BasicAuthPasswordKey])
		username = orElse(stored.Data[corev1.BasicAuthUsernameKey], username)
		if database != "" {
			database = orElse(stored.Data["database"], database)
		}
	}
	if password == "" {
		// rand.Text has 128 bits of randomness, in characters that need no quoting anywhere.
		password = rand.Text()
		if s.hadPrimary() {
			s.event(corev1.EventTypeWarning, eventSecretRecreated, actionIssue, fmt.Sprintf("Secret %s had no password; a new one was made", name), s.child("v1", "Secret", name))
		}
	}
	want := desired.AccountSecret(s.in, name, desired.Account{Username: username, Password: password, Database: database, CA: s.trust})
	if stored != nil && contains(stored.Data, want.Data) {
		return nil
	}
	return s.applySecret(ctx, want, stored)
}

func contains(have, want map[string][]byte) bool {
	for key, value := range want {
		if !bytes.Equal(have[key], value) {
			return false
		}
	}
	return true
}

func orElse(value []byte, fallback string) string {
	if len(value) == 0 {
		return fallback
	}
	return string(value)
}
