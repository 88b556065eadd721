package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// written is a table with what was acknowledged of it.
type written struct {
	table string
	acked []int64
}

// Check reads every table from every instance: each acknowledged id must be there, none twice, and all must be the same. The
// cluster must be Healthy and nobody may write.
func (w *World) Check(ctx context.Context, tables ...written) error {
	if err := w.awaitSameSets(ctx); err != nil {
		return err
	}
	var errs []error
	for _, t := range tables {
		var first []row
		for n, i := range w.Cluster.Instances {
			rows, err := w.read(ctx, i, t.table)
			if err != nil {
				return fmt.Errorf("read %s of %s: %w", t.table, i.Config.Instance, err)
			}
			if err := t.compare(rows); err != nil {
				errs = append(errs, fmt.Errorf("%s of %s: %w", t.table, i.Config.Instance, err))
			}
			if n == 0 {
				first = rows
			} else if !slices.Equal(first, rows) {
				errs = append(errs, fmt.Errorf("%s differs between %s and %s: %d and %d rows", t.table, w.Cluster.Instances[0].Config.Instance,
					i.Config.Instance, len(first), len(rows)))
			}
		}
	}
	return errors.Join(errs...)
}

// compare says which acknowledged ids are missing, and which ids are there twice.
func (t written) compare(rows []row) error {
	times := make(map[int64]int, len(rows))
	var twice, lost []int64
	for _, r := range rows {
		if times[r.id]++; times[r.id] == 2 {
			twice = append(twice, r.id)
		}
	}
	for _, id := range t.acked {
		if times[id] == 0 {
			lost = append(lost, id)
		}
	}
	var errs []error
	if len(lost) > 0 {
		errs = append(errs, &LostError{Count: len(lost), First: lost[0]})
	}
	if len(twice) > 0 {
		errs = append(errs, fmt.Errorf("%d ids are there twice, the first is %d", len(twice), twice[0]))
	}
	return errors.Join(errs...)
}

// LostError says that acknowledged writes are gone.
type LostError struct {
	Count int
	First int64
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%d ACKNOWLEDGED WRITES ARE LOST, the first id is %d", e.Count, e.First)
}

// awaitSameSets waits until all instances have executed the same.
func (w *World) awaitSameSets(ctx context.Context) error {
	return await(ctx, healthyWithin, func() (bool, string) {
		var first gtid.Set
		for n, i := range w.Cluster.Instances {
			s, err := i.TryStatus()
			if err != nil || s.Server == nil {
				return false, fmt.Sprintf("%s does not answer: %v", i.Config.Instance, err)
			}
			if n == 0 {
				first = s.Server.GTIDExecuted
			} else if !first.Equal(s.Server.GTIDExecuted) {
				return false, fmt.Sprintf("%s has executed %s, %s %s", w.Cluster.Instances[0].Config.Instance, first, i.Config.Instance, s.Server.GTIDExecuted)
			}
		}
		return true, ""
	})
}

type row struct{ n, id int64 }

// read returns a table of one instance by its primary key.
func (w *World) read(ctx context.Context, i *agenttest.Instance, table string) ([]row, error) {
	connector, err := w.connector(i, WriterOptions{Dial: time.Minute, IO: time.Minute})
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	found, err := db.QueryContext(ctx, "SELECT n, id FROM "+table+" ORDER BY n")
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	var out []row
	for found.Next() {
		var r row
		if err := found.Scan(&r.n, &r.id); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, found.Err()
}
