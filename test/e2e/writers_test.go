//go:build e2e

package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/env"
)

// writers write rows with unique ids through the read-write Service, as an application would, and remember which ones
// were acknowledged. An id whose outcome is not known is never tried again.
type writers struct {
	cluster *cluster
	table   string
	db      *sql.DB
	stop    func()

	tried atomic.Int64
	mu    sync.Mutex
	acked []string
	// lastError says why a write failed last.
	lastError error
	// lastAck and longest: the longest time without any acknowledgement.
	lastAck time.Time
	longest time.Duration
}

// writeTimeout ends a write that waits for ever, e.g. on a connection whose other end is gone.
const writeTimeout = 20 * time.Second

// startWriters makes a new table and begins to write to it, until stop or the end of the test.
func (c *cluster) startWriters(t *testing.T, table string, count int) *writers {
	t.Helper()
	c.waitWritable(t)
	execute(t, c.readWrite(), "DROP TABLE IF EXISTS "+table)
	// No unique key: a row that was written twice must be seen.
	execute(t, c.readWrite(), "CREATE TABLE "+table+" (n BIGINT AUTO_INCREMENT PRIMARY KEY, id VARCHAR(64) NOT NULL, KEY (id))")
	db, err := kubernetes.OpenDB(t.Context(), c.readWrite())
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(count)
	db.SetMaxIdleConns(count)
	ctx, cancel := context.WithCancel(t.Context())
	w := &writers{cluster: c, table: table, db: db, lastAck: time.Now()}
	var running sync.WaitGroup
	for i := range count {
		running.Go(func() { w.write(ctx, i) })
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		_ = db.Close()
	})
	t.Cleanup(w.stop)
	w.waitAcked(t, 20)
	return w
}

// write writes until ctx ends. The statement that runs then is let finish, so that its outcome is known.
func (w *writers) write(ctx context.Context, writer int) {
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("%d-%d", writer, n)
		w.tried.Add(1)
		insertCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		_, err := w.db.ExecContext(insertCtx, "INSERT INTO "+w.table+" (id) VALUES (?)", id)
		cancel()
		w.note(id, err)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
}

func (w *writers) note(id string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.lastError = err
		return
	}
	w.acked = append(w.acked, id)
	w.longest = max(w.longest, time.Since(w.lastAck))
	w.lastAck = time.Now()
}

// quietFor is how long ago the last write was acknowledged.
func (w *writers) quietFor() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.lastAck)
}

func (w *writers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// waitAcked waits until so many more writes were acknowledged.
func (w *writers) waitAcked(t *testing.T, more int) {
	t.Helper()
	before := w.count()
	eventually(t, fmt.Sprintf("%d more writes are acknowledged", more), recovery, func(context.Context) (bool, string, error) {
		now := w.count() - before
		w.mu.Lock()
		defer w.mu.Unlock()
		state := fmt.Sprintf("%d", now)
		if w.lastError != nil {
			state += ", last error: " + w.lastError.Error()
		}
		return now >= more, state, nil
	})
}

// verify stops the writers and checks that every acknowledged row is on every instance, none of them twice.
func (w *writers) verify(t *testing.T) {
	t.Helper()
	w.stop()
	t.Logf("%d writes tried, %d acknowledged, longest gap %s, last error: %v", w.tried.Load(), len(w.acked), w.longest.Round(time.Millisecond), w.lastError)
	ids := w.readIDs(t, w.cluster.readWrite())
	for _, name := range w.cluster.topology(t).Spec.Instances {
		waitValue(t, w.cluster.instance(name), "SELECT COUNT(*) FROM "+w.table, fmt.Sprint(len(ids)))
		w.check(t, name, w.readIDs(t, w.cluster.instance(name)))
	}
}

func (w *writers) readIDs(t *testing.T, target env.Target) []string {
	t.Helper()
	var ids []string
	eventually(t, "read what was written to "+w.table, recovery, func(ctx context.Context) (bool, string, error) {
		var err error
		ids, err = query(ctx, target, "SELECT id FROM "+w.table)
		return err == nil, fmt.Sprintf("%d rows", len(ids)), err
	})
	return ids
}

func (w *writers) check(t *testing.T, instance string, ids []string) {
	t.Helper()
	found := map[string]int{}
	for _, id := range ids {
		found[id]++
	}
	var lost, twice []string
	for _, id := range w.acked {
		if found[id] == 0 {
			lost = append(lost, id)
		}
	}
	for id, times := range found {
		if times > 1 {
			twice = append(twice, id)
		}
	}
	if len(lost) > 0 {
		t.Errorf("%s lost %d acknowledged rows: %s", instance, len(lost), strings.Join(lost, ", "))
	}
	if len(twice) > 0 {
		t.Errorf("%s has %d rows twice: %s", instance, len(twice), strings.Join(twice, ", "))
	}
}

// clientPod starts the pod from which SQL takes the way of an application.
func (c *cluster) clientPod(t *testing.T) *env.ClientPod {
	t.Helper()
	pod, err := kubernetes.StartClient(t.Context(), c.namespace, c.name)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// hostReadWrite and hostReadOnly are the names that an application of the same namespace connects to.
func (c *cluster) hostReadWrite() string { return naming.ServiceReadWrite(c.name) }
func (c *cluster) hostReadOnly() string  { return naming.ServiceReadOnly(c.name) }
