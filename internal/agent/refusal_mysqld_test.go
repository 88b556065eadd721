//go:build mysql

package agent_test

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// TestOneInstance asks one instance everything that needs no other: refusals, authorization, certificates, accounts,
// metrics, restarts.
func TestOneInstance(t *testing.T) {
	c := agenttest.New(t, 1, agenttest.Options{})
	c.StartAll()
	i := c.Instances[0]
	if err := i.Send(c.Command(agentapi.CommandRestart)); !agenttest.IsErrorCode(err, agentapi.ErrPrecondition) {
		t.Errorf("Restart without data: %v", err)
	}
	initialize := c.Command(agentapi.CommandInitialize)
	for range 2 { // the second finds the first running
		if err := i.Send(initialize); err != nil {
			t.Fatal(err)
		}
	}
	i.Await("initialised", func(s agentapi.Status) bool { return serving(s) && s.Operation != nil && !s.Operation.Running })
	i.Promote(c.Quorum(1, 0))
	i.Await("accounts applied", func(s agentapi.Status) bool { return s.Server != nil && s.Server.AccountsApplied })

	t.Run("refusals", func(t *testing.T) { testRefusals(t, c, initialize) })
	t.Run("authorization", func(t *testing.T) { testAuthorization(t, c) })
	t.Run("probes and metrics", func(t *testing.T) { testProbes(t, c) })
	t.Run("accounts", func(t *testing.T) { testAccounts(t, c) })
	t.Run("certificates", func(t *testing.T) { testCertificates(t, c) })
	t.Run("restart", func(t *testing.T) { testRestart(t, c) })
	t.Run("demotion", func(t *testing.T) { testDemotion(t, c) })
	t.Run("lost state", func(t *testing.T) { testLostState(t, c) })
}

func testRefusals(t *testing.T, c *agenttest.Cluster, initialize agentapi.Command) {
	i := c.Instances[0]
	before := i.Status()
	if err := i.Send(initialize); err != nil {
		t.Errorf("the same Initialize again: %v", err)
	}
	with := func(kind agentapi.CommandType, change func(*agentapi.Command)) agentapi.Command {
		cmd := c.Command(kind)
		change(&cmd)
		return cmd
	}
	other := &agentapi.Peer{Instance: "db-1", Host: "127.0.0.1", Port: 3306}
	for name, tc := range map[string]struct {
		cmd  agentapi.Command
		code agentapi.ErrorCode
	}{
		"another Initialize":      {c.Command(agentapi.CommandInitialize), agentapi.ErrPrecondition},
		"clone over data":         {with(agentapi.CommandClone, func(cmd *agentapi.Command) { cmd.Donor = other }), agentapi.ErrPrecondition},
		"epoch 0":                 {with(agentapi.CommandDemote, func(cmd *agentapi.Command) { cmd.Epoch = 0 }), agentapi.ErrInvalid},
		"unknown type":            {c.Command("Destroy"), agentapi.ErrInvalid},
		"another cluster":         {with(agentapi.CommandDemote, func(cmd *agentapi.Command) { cmd.ClusterID = "other" }), agentapi.ErrWrongCluster},
		"follow in its own epoch": {with(agentapi.CommandFollow, func(cmd *agentapi.Command) { cmd.Primary = other }), agentapi.ErrPrecondition},
		"follow itself":           {with(agentapi.CommandFollow, func(cmd *agentapi.Command) { cmd.Primary = i.Peer() }), agentapi.ErrInvalid},
		"promote without quorum":  {c.Command(agentapi.CommandPromote), agentapi.ErrInvalid},
		"older quorum":            {with(agentapi.CommandSetQuorum, func(cmd *agentapi.Command) { cmd.Quorum = &agentapi.Quorum{} }), agentapi.ErrPrecondition},
		"more acks than members":  {with(agentapi.CommandSetQuorum, func(cmd *agentapi.Command) { cmd.Quorum = &agentapi.Quorum{RequiredAcks: 1} }), agentapi.ErrInvalid},
	} {
		if err := i.Send(tc.cmd); !agenttest.IsErrorCode(err, tc.code) {
			t.Errorf("%s: %v, want %s", name, err, tc.code)
		}
	}
	for _, body := range []string{"", "{", "[]", `{"clusterID":"x","extra":1}`, strings.Repeat("a", agentapi.MaxCommandBytes+10)} {
		if err := i.SendRaw([]byte(body)); !agenttest.IsErrorCode(err, agentapi.ErrInvalid) {
			t.Errorf("body %.20q: %v", body, err)
		}
	}
	after := answering(t, i)
	if after.Epoch != before.Epoch || after.Role != before.Role || after.Server.ReadOnly {
		t.Errorf("refusals changed %+v to %+v", before, after)
	}
}

func testAuthorization(t *testing.T, c *agenttest.Cluster) {
	i := c.Instances[0]
	for name, tc := range map[string]struct {
		tls      *tls.Config
		answered bool
	}{
		"no certificate":            {c.CA.ClientTLS(""), true},
		"an instance's":             {c.CA.ClientTLS(naming.CertCNInstance), true},
		"the replication account's": {c.CA.ClientTLS(naming.CertCNReplication), true},
		"another CA's": {func() *tls.Config {
			cfg := agenttest.NewCA(t).ClientTLS(naming.CertCNManager)
			cfg.RootCAs = c.CA.ClientTLS("").RootCAs
			return cfg
		}(), false},
	} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: tc.tls, DisableKeepAlives: true}}
		code, body, err := i.Get(client, agentapi.PathStatus)
		if tc.answered && (err != nil || code != http.StatusForbidden || !strings.Contains(body, string(agentapi.ErrUnauthorized))) {
			t.Errorf("%s: %d %s %v", name, code, body, err)
		}
		if !tc.answered && err == nil {
			t.Errorf("%s: answered %d", name, code)
		}
	}
}

func testProbes(t *testing.T, c *agenttest.Cluster) {
	i := c.Instances[0]
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c.CA.ClientTLS("")}}
	for _, path := range []string{agentapi.PathHealth, agentapi.PathReady} {
		if code, body, err := i.Get(client, path); err != nil || code != http.StatusOK {
			t.Errorf("%s: %d %s %v", path, code, body, err)
		}
	}
	code, body, err := i.Get(client, agentapi.PathMetrics)
	if err != nil || code != http.StatusOK {
		t.Fatalf("metrics: %d %v", code, err)
	}
	for _, want := range []string{"porpoise_mysql_up 1", `porpoise_instance_role{role="Primary"} 1`, "porpoise_mysql_writable 1",
		"porpoise_mysqld_exits_total 0", "porpoise_mysql_threads_connected ", "porpoise_innodb_buffer_pool_data_bytes ", "porpoise_data_volume_free_bytes "} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
}

func testAccounts(t *testing.T, c *agenttest.Cluster) {
	i := c.Instances[0]
	if err := i.AppDB().Ping(); err != nil {
		t.Errorf("the application cannot log in: %v", err)
	}
	admin := i.DB("admin", "admin-Secret_1", "")
	exec(t, admin, "CREATE DATABASE reports")
	exec(t, admin, "CREATE USER reader IDENTIFIED BY 'x' REQUIRE SSL")
	exec(t, admin, "GRANT SELECT ON reports.* TO reader")
	for _, statement := range []string{"SET GLOBAL super_read_only = ON", "SET GLOBAL rpl_semi_sync_source_enabled = OFF", "RESET BINARY LOGS AND GTIDS",
		"SHUTDOWN", "SET SESSION sql_log_bin = 0", "STOP REPLICA", "DROP USER porpoise@localhost", "DROP USER porpoise_replication"} {
		if _, err := admin.Exec(statement); err == nil {
			t.Errorf("the administrator may %s", statement)
		}
	}
	i.WriteAccount("app", map[string]string{"password": "line\nend"})
	i.Await("bad password reported", func(s agentapi.Status) bool {
		return s.Server != nil && !s.Server.AccountsApplied && strings.Contains(s.Server.AccountsError, "app/password")
	})
	i.WriteAccount("app", map[string]string{"password": "another"})
	i.Await("new password applied", func(s agentapi.Status) bool { return s.Server != nil && s.Server.AccountsApplied })
	if err := i.DB("app", "another", "app").Ping(); err != nil {
		t.Errorf("the new password does not work: %v", err)
	}
	if state, err := os.ReadFile(filepath.Join(i.Config.Paths.State, "state.json")); err != nil || strings.Contains(string(state), "another") {
		t.Errorf("the state holds the password, or cannot be read: %v", err)
	}
}

func testCertificates(t *testing.T, c *agenttest.Cluster) {
	i := c.Instances[0]
	serial := func() string {
		conn, err := tls.Dial("tcp", i.Config.APIAddress, c.CA.ClientTLS(""))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	i.WriteTLSFile(naming.FileTLSCert, []byte("no certificate"))
	i.Await("bad files reported", func(s agentapi.Status) bool { return s.TLSError != "" })
	if serial() != before {
		t.Error("bad files changed the certificate in use")
	}
	i.WriteCertificates(c.CA)
	i.Await("new files in use", func(s agentapi.Status) bool { return s.TLSError == "" && serial() != before })
	// The same certificate is in mysqld's hands, which tells when it ends.
	var name, end string
	if err := i.DB("app", "another", "").QueryRow("SHOW GLOBAL STATUS LIKE 'Current_tls_cert'").Scan(&name, &end); err != nil {
		t.Errorf("log in over TLS afterwards: %v", err)
	}
}

func testRestart(t *testing.T, c *agenttest.Cluster) {
	i := c.Instances[0]
	before := i.Status()
	late := c.Command(agentapi.CommandRestart)
	late.ProcessStartedAt = new(before.Process.StartedAt.Add(-time.Second))
	if err := i.Send(late); !agenttest.IsErrorCode(err, agentapi.ErrPrecondition) {
		t.Errorf("Restart of a mysqld that has ended: %v", err)
	}
	restart := c.Command(agentapi.CommandRestart)
	restart.ProcessStartedAt = before.Process.StartedAt
	if err := i.Send(restart); err != nil {
		t.Fatal(err)
	}
	s := i.Await("restarted", func(s agentapi.Status) bool {
		return serving(s) && s.Process.PID != before.Process.PID && s.Operation.ID == restart.OperationID && !s.Operation.Running
	})
	if !s.Server.SuperReadOnly || s.Process.Exits != 0 || s.Operation.Error != "" {
		t.Errorf("after Restart: %+v, operation %+v", s.Process, s.Operation)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c.CA.ClientTLS("")}}
	if code, body, _ := i.Get(client, agentapi.PathReady); code != http.StatusServiceUnavailable {
		t.Errorf("a read-only primary is ready: %d %s", code, body)
	}
	i.Promote(before.Quorum)
}

func testDemotion(t *testing.T, c *agenttest.Cluster) {
	i := c.Instances[0]
	db := i.DB("app", "another", "app")
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.NextEpoch()
	if err := i.Send(c.Command(agentapi.CommandDemote)); err != nil {
		t.Fatal(err)
	}
	s := answering(t, i)
	if s.Role != agentapi.RoleNone || s.Confirmed || !s.Server.SuperReadOnly || s.Epoch != 2 {
		t.Errorf("after Demote: %+v", s)
	}
	if err := conn.PingContext(t.Context()); err == nil {
		t.Error("a client of the former primary is still connected")
	}
	stale := c.Command(agentapi.CommandDemote)
	stale.Epoch = 1
	if err := i.Send(stale); !agenttest.IsErrorCode(err, agentapi.ErrStaleEpoch) {
		t.Errorf("a command of an old epoch: %v", err)
	}
}

// testLostState: an agent that cannot read what it must not forget refuses everything and keeps the data, until the file
// is back.
func testLostState(t *testing.T, c *agenttest.Cluster) {
	i := c.Instances[0]
	file := filepath.Join(i.Config.Paths.State, "state.json")
	i.Terminate()
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func() error{
		"damaged": func() error { return os.WriteFile(file, good[:len(good)/2], 0o600) },
		"missing": func() error { return os.Remove(file) },
		"of another incarnation": func() error {
			return os.WriteFile(file, []byte(strings.ReplaceAll(string(good), `"incarnation": "`, `"incarnation": "x`)), 0o600)
		},
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		i.Start()
		s := i.Status()
		if s.Data.State != agentapi.DataUnknown || s.Data.Error == "" || s.Process.PID != 0 {
			t.Errorf("%s: %+v %+v", name, s.Data, s.Process)
		}
		if err := i.Send(c.Command(agentapi.CommandInitialize)); !agenttest.IsErrorCode(err, agentapi.ErrPrecondition) {
			t.Errorf("%s: Initialize: %v", name, err)
		}
		if name != "damaged" {
			i.Terminate()
			continue
		}
		if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
		i.Await("serving again", serving)
		i.Terminate()
	}
}
