//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/env"
)

// service is a target that leads where the Service leads.
func (c *cluster) service(name string) env.Target {
	return env.Target{Namespace: c.namespace, Cluster: c.name, Service: name, Account: env.AccountApp}
}

func (c *cluster) readWrite() env.Target { return c.service(naming.ServiceReadWrite(c.name)) }

// instance is a target that leads to one instance.
func (c *cluster) instance(name string) env.Target {
	return env.Target{Namespace: c.namespace, Cluster: c.name, Instance: name, Account: env.AccountApp}
}

// query runs a query at a target and returns its rows, columns separated by blanks.
func query(ctx context.Context, target env.Target, statement string, args ...any) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	db, err := kubernetes.OpenDB(ctx, target)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", statement, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", statement, err)
	}
	var out []string
	for rows.Next() {
		values, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
		texts := make([]string, len(columns))
		for i, value := range values {
			texts[i] = value.String
		}
		out = append(out, strings.Join(texts, " "))
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", statement, err)
	}
	return out, nil
}

// execute runs a statement at a target.
func execute(t *testing.T, target env.Target, statement string) {
	t.Helper()
	if _, err := query(t.Context(), target, statement); err != nil {
		t.Fatal(err)
	}
}

// waitValue waits until a query at a target gives one row with the wanted value.
func waitValue(t *testing.T, target env.Target, statement, want string) {
	t.Helper()
	where := target.Service + target.Instance
	eventually(t, fmt.Sprintf("%s at %s is %s", statement, where, want), recovery, func(ctx context.Context) (bool, string, error) {
		rows, err := query(ctx, target, statement)
		if err != nil {
			return false, "", err
		}
		return len(rows) == 1 && rows[0] == want, strings.Join(rows, ", "), nil
	})
}

// writable waits until a row can be written through the read-write Service. The row does not stay.
func (c *cluster) waitWritable(t *testing.T) {
	t.Helper()
	eventually(t, "a write through "+naming.ServiceReadWrite(c.name)+" is acknowledged", recovery, func(ctx context.Context) (bool, string, error) {
		if _, err := query(ctx, c.readWrite(), "CREATE TABLE IF NOT EXISTS probe (at TIMESTAMP(6))"); err != nil {
			return false, "", err
		}
		_, err := query(ctx, c.readWrite(), "INSERT INTO probe VALUES (NOW(6))")
		return err == nil, "acknowledged", err
	})
}
