package main

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/env"
)

// writeLoad commits rows through the read-write Service until it is stopped.
type writeLoad struct {
	acked, failed atomic.Int64
	lastError     atomic.Pointer[error]
	stop          func()
}

// writePause of each writer between two commits.
const writePause = 10 * time.Millisecond

func startLoad(ctx context.Context, e *env.Env, writers int) (*writeLoad, error) {
	db, err := e.OpenDB(ctx, env.Target{
		Namespace: benchNamespace, Cluster: benchCluster, Service: naming.ServiceReadWrite(benchCluster), Account: env.AccountApp,
	})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(writers)
	db.SetMaxIdleConns(writers)
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS bench_load (id BIGINT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(80) NOT NULL)"); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("make a table to write to: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &writeLoad{}
	var running sync.WaitGroup
	for range writers {
		running.Go(func() { l.write(ctx, db) })
	}
	l.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		_ = db.Close()
	})
	return l, nil
}

func (l *writeLoad) write(ctx context.Context, db *sql.DB) {
	tick := time.NewTicker(writePause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, err := db.ExecContext(ctx, "INSERT INTO bench_load (text) VALUES (CONCAT('row at ', NOW(6)))")
		switch {
		case err == nil:
			l.acked.Add(1)
		case ctx.Err() == nil:
			l.failed.Add(1)
			l.lastError.Store(&err)
		}
	}
}

// why is the last error; nil: none.
func (l *writeLoad) why() error {
	if err := l.lastError.Load(); err != nil {
		return *err
	}
	return nil
}
