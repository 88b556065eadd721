package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/spf13/cobra"
)

// writerConfig is what the process that writes reads from its standard input, whose end ends it.
type writerConfig struct {
	Address, User, Password, Database, ServerName, CA string
	Writers                                           int
}

// ack is a line of its output: an acknowledged write, begun and acknowledged at these times in nanoseconds since 1970.
type ack struct {
	ID    string `json:"id"`
	Begun int64  `json:"begun"`
	Acked int64  `json:"acked"`
}

const (
	// writerDial bounds connecting, writerIO a statement: an application that waits longer for a dead server measures itself.
	writerDial = 250 * time.Millisecond
	writerIO   = 2 * time.Second
	// writerTable gets the rows.
	writerTable = "bench_failover"
)

// writerCommand is what bench starts of itself in a node's network.
func writerCommand() *cobra.Command {
	return &cobra.Command{Use: "writer", Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		decoder := json.NewDecoder(os.Stdin)
		var config writerConfig
		if err := decoder.Decode(&config); err != nil {
			return fmt.Errorf("read what to write to: %w", err)
		}
		ctx, cancel := context.WithCancel(cmd.Context())
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
		return config.write(ctx, os.Stdout)
	}}
}

func (c writerConfig) write(ctx context.Context, out io.Writer) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(c.CA)) {
		return errors.New("the authority is no certificate")
	}
	config := driver.NewConfig()
	config.User, config.Passwd, config.DBName = c.User, c.Password, c.Database
	config.Net, config.Addr, config.TLS = "tcp", c.Address, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: c.ServerName}
	config.Timeout, config.ReadTimeout, config.WriteTimeout = writerDial, writerIO, writerIO
	config.RejectReadOnly = true // A connection to a former primary is worth nothing.
	config.InterpolateParams = true
	config.Logger = quietLogger{}
	connector, err := driver.NewConnector(config)
	if err != nil {
		return fmt.Errorf("configure the connection to %s: %w", c.Address, err)
	}
	var mu sync.Mutex
	lines := json.NewEncoder(out)
	var running sync.WaitGroup
	for i := range c.Writers {
		db := sql.OpenDB(connector)
		db.SetMaxOpenConns(1)
		running.Go(func() {
			defer func() { _ = db.Close() }()
			for n := 0; ctx.Err() == nil; n++ {
				a := ack{ID: fmt.Sprintf("%d-%d-%d", os.Getpid(), i, n), Begun: time.Now().UnixNano()}
				if _, err := db.ExecContext(ctx, "INSERT INTO "+writerTable+" (id) VALUES (?)", a.ID); err != nil {
					_ = pause(ctx, time.Millisecond)
					continue
				}
				a.Acked = time.Now().UnixNano()
				mu.Lock()
				_ = lines.Encode(a)
				mu.Unlock()
				_ = pause(ctx, writePause/2)
			}
		})
	}
	running.Wait()
	return nil
}

type quietLogger struct{}

func (quietLogger) Print(...any) {}
