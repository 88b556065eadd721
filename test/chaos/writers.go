package chaos

import (
	"context"
	"database/sql/driver"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
)

// Ack is an acknowledged write.
type Ack struct {
	ID           int64
	Begun, Acked time.Time
}

// Writers write through the routed primary, each over a connection of its own that it keeps until it breaks, as
// applications do.
type Writers struct {
	world *World
	table string
	o     WriterOptions
	stop  context.CancelFunc
	group sync.WaitGroup
	begun atomic.Int64
	ids   *atomic.Int64
	begin chan struct{}
	start sync.Once

	mu   sync.Mutex
	acks []Ack
	last error
}

// WriterOptions of writers.
type WriterOptions struct {
	// Writers is how many there are.
	Writers int
	// Dial bounds connecting, IO a statement.
	Dial, IO time.Duration
	// Pause after each acknowledged write.
	Pause time.Duration
	// Idle writers do not begin before Go.
	Idle bool
}

// StartWriters makes the table, which takes until there is a primary, and starts to write.
func (w *World) StartWriters(ctx context.Context, table string, ids *atomic.Int64, o WriterOptions) (*Writers, error) {
	ws := &Writers{world: w, table: table, o: o, ids: ids, begin: make(chan struct{})}
	err := await(ctx, healthyWithin, func() (bool, string) {
		c, err := ws.connect(ctx)
		if err != nil {
			return false, err.Error()
		}
		defer func() { _ = c.Close() }()
		// Not a unique key: an id that is there twice is to be found by the check.
		if err := execute(ctx, c, "CREATE TABLE IF NOT EXISTS "+table+
			" (n BIGINT AUTO_INCREMENT PRIMARY KEY, id BIGINT NOT NULL, pad VARCHAR(200) NOT NULL)"); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
	if err != nil {
		return nil, fmt.Errorf("make table %s: %w", table, err)
	}
	if !o.Idle {
		ws.Go()
	}
	ctx, ws.stop = context.WithCancel(ctx)
	for range o.Writers {
		ws.group.Go(func() { ws.write(ctx) })
	}
	return ws, nil
}

// Go lets idle writers begin.
func (ws *Writers) Go() { ws.start.Do(func() { close(ws.begin) }) }

// Stop ends the writers; what was not acknowledged by then is not.
func (ws *Writers) Stop() {
	ws.stop()
	ws.group.Wait()
}

// write goes on until the context ends. An id whose fate is not known is never sent again.
func (ws *Writers) write(ctx context.Context) {
	var conn driver.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	select {
	case <-ctx.Done():
	case <-ws.begin:
	}
	for ctx.Err() == nil {
		a := Ack{ID: ws.ids.Add(1), Begun: time.Now()}
		var err error
		if conn == nil {
			conn, err = ws.connect(ctx)
		}
		if err == nil {
			ws.begun.Add(1)
			err = execute(ctx, conn, "INSERT INTO "+ws.table+" (id, pad) VALUES ("+strconv.FormatInt(a.ID, 10)+", REPEAT('x', 150))")
		}
		if err != nil {
			ws.failed(err)
			if conn != nil {
				_ = conn.Close()
				conn = nil
			}
			_ = pause(ctx, time.Millisecond)
			continue
		}
		a.Acked = time.Now()
		ws.mu.Lock()
		ws.acks = append(ws.acks, a)
		ws.mu.Unlock()
		if ws.o.Pause > 0 {
			_ = pause(ctx, ws.o.Pause)
		}
	}
}

func (ws *Writers) failed(err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.last = err
}

// connect reaches what the Service leads to.
func (ws *Writers) connect(ctx context.Context) (driver.Conn, error) {
	i := ws.world.Instance(ws.world.Store.Service())
	if i == nil {
		return nil, fmt.Errorf("no primary is routed")
	}
	connector, err := ws.world.connector(i, ws.o)
	if err != nil {
		return nil, err
	}
	return connector.Connect(ctx)
}

// connector to one instance, as the application.
func (w *World) connector(i *agenttest.Instance, o WriterOptions) (driver.Connector, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = "app", appPassword, "app"
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(i.Host, strconv.Itoa(i.Config.Port))
	cfg.TLS = w.Cluster.CA.ClientTLS("")
	cfg.TLS.ServerName = i.Host
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = o.Dial, o.IO, o.IO
	cfg.Logger = &mysql.NopLogger{}
	return mysql.NewConnector(cfg)
}

func execute(ctx context.Context, c driver.Conn, statement string) error {
	_, err := c.(driver.ExecerContext).ExecContext(ctx, statement, nil)
	return err
}

// Acks returns what was acknowledged, in the order of the acknowledgements.
func (ws *Writers) Acks() []Ack {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	out := slices.Clone(ws.acks)
	slices.SortFunc(out, func(a, b Ack) int { return a.Acked.Compare(b.Acked) })
	return out
}

// FirstAfter waits for the first acknowledged write that was begun after a moment.
func (ws *Writers) FirstAfter(ctx context.Context, after time.Time) (Ack, error) {
	var first Ack
	err := await(ctx, healthyWithin, func() (bool, string) {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		for _, a := range ws.acks {
			if a.Begun.After(after) && (first.ID == 0 || a.Acked.Before(first.Acked)) {
				first = a
			}
		}
		return first.ID != 0, fmt.Sprintf("no write is acknowledged; the last error: %v", ws.last)
	})
	return first, err
}

// CheckAndDrop checks that every instance holds what was acknowledged, and drops the table. Nobody may write, and the
// cluster must be Healthy.
func (ws *Writers) CheckAndDrop(ctx context.Context) error {
	if err := ws.world.Check(ctx, ws.written()); err != nil {
		return err
	}
	return ws.world.drop(ctx, ws.table)
}

func (ws *Writers) written() written {
	t := written{table: ws.table}
	for _, a := range ws.Acks() {
		t.acked = append(t.acked, a.ID)
	}
	return t
}

// drop removes a table, which takes until there is a primary.
func (w *World) drop(ctx context.Context, table string) error {
	ws := &Writers{world: w, o: WriterOptions{Dial: time.Second, IO: 10 * time.Second}}
	return await(ctx, healthyWithin, func() (bool, string) {
		c, err := ws.connect(ctx)
		if err != nil {
			return false, err.Error()
		}
		defer func() { _ = c.Close() }()
		if err := execute(ctx, c, "DROP TABLE IF EXISTS "+table); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
}

// longestGap is the longest time without an acknowledgement.
func longestGap(acks []Ack) time.Duration {
	var longest time.Duration
	for n := 1; n < len(acks); n++ {
		longest = max(longest, acks[n].Acked.Sub(acks[n-1].Acked))
	}
	return longest
}
