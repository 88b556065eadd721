package agent_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/porpoise-dev/porpoise/internal/agent"
	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// emptyAgent runs an agent without data, which needs no mysqld, and returns the address of its API.
func emptyAgent(t *testing.T, ca *agenttest.CA) string {
	t.Helper()
	dir := t.TempDir()
	cfg := agent.DefaultConfig()
	cfg.Namespace, cfg.Cluster, cfg.Instance = "test", "db", "db-0"
	cfg.ServerID, cfg.ReportHost, cfg.Mysqld = 1, "127.0.0.1", filepath.Join(dir, "no-mysqld")
	cfg.Paths = agent.Paths{Data: filepath.Join(dir, "vol/mysql"), State: filepath.Join(dir, "vol/agent"), Run: filepath.Join(dir, "run"),
		Tmp: filepath.Join(dir, "tmp"), TLS: filepath.Join(dir, "tls"), Config: filepath.Join(dir, "config"), Accounts: filepath.Join(dir, "accounts")}
	host := agenttest.ClaimHost(t)
	cfg.APIAddress = agenttest.APIAddress(host)
	cert, key := ca.Leaf(naming.CertCNInstance, host)
	replicationCert, replicationKey := ca.Leaf(naming.CertCNReplication)
	for name, text := range map[string][]byte{naming.FileCA: ca.PEM, naming.FileTLSCert: cert, naming.FileTLSKey: key,
		naming.FileReplicationCert: replicationCert, naming.FileReplicationKey: replicationKey} {
		if err := os.MkdirAll(cfg.Paths.TLS, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(cfg.Paths.TLS, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(cfg.Paths.Data), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.New(cfg, testr.New(t)).Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the agent ended: %v", err)
		}
	})
	deadline := time.Now().Add(agenttest.Deadline)
	for {
		code, _, err := ask(t, ca.ClientTLS(naming.CertCNManager), http.MethodGet, cfg.APIAddress, agentapi.PathStatus, "")
		if err == nil && code == http.StatusOK {
			return cfg.APIAddress
		}
		if time.Now().After(deadline) {
			t.Fatalf("the agent does not answer: %d %v", code, err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// ask sends one request over a connection of its own; of a stream it returns the first document.
func ask(t *testing.T, config *tls.Config, method, address, path, body string) (int, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), agenttest.Deadline)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "https://"+address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK && path == agentapi.PathStream {
		var first json.RawMessage
		err = json.NewDecoder(response.Body).Decode(&first)
		return response.StatusCode, string(first), err
	}
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// TestViewerReadsAndNeverCommands: the certificate that people may be given shows everything and changes nothing.
func TestViewerReadsAndNeverCommands(t *testing.T) {
	ca := agenttest.NewCA(t)
	address := emptyAgent(t, ca)
	viewer := ca.ClientTLS(naming.CertCNViewer)
	for path, want := range map[string]string{
		agentapi.PathStatus: `"instance":"db-0"`, agentapi.PathStream: `"instance":"db-0"`, agentapi.PathMetrics: "porpoise_mysql_up 0",
	} {
		if code, body, err := ask(t, viewer, http.MethodGet, address, path, ""); err != nil || code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %v, want %s in:\n%s", path, code, err, want, body)
		}
	}
	for _, kind := range []agentapi.CommandType{agentapi.CommandInitialize, agentapi.CommandClone, agentapi.CommandFollow, agentapi.CommandPromote,
		agentapi.CommandSetQuorum, agentapi.CommandRestart, agentapi.CommandDemote, "Nonsense"} {
		text, err := json.Marshal(agentapi.Command{ClusterID: "c", Epoch: 1, OperationID: "o", Type: kind,
			Primary: &agentapi.Peer{Instance: "db-1"}, Donor: &agentapi.Peer{Instance: "db-1"}, Quorum: &agentapi.Quorum{}})
		if err != nil {
			t.Fatal(err)
		}
		code, body, err := ask(t, viewer, http.MethodPost, address, agentapi.PathCommand, string(text))
		if err != nil || code != http.StatusForbidden || !strings.Contains(body, string(agentapi.ErrUnauthorized)) {
			t.Errorf("%s: %d %s %v, want 403", kind, code, body, err)
		}
	}
	_, body, err := ask(t, viewer, http.MethodGet, address, agentapi.PathStatus, "")
	var after agentapi.Status
	if err != nil || json.Unmarshal([]byte(body), &after) != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if after.ClusterID != "" || after.Epoch != 0 || after.Data.State != agentapi.DataEmpty || after.Operation != nil {
		t.Errorf("refused commands changed the agent: %s", body)
	}
}

// TestOthersReadNothing: who is neither manager nor viewer gets no status, whatever certificate is shown.
func TestOthersReadNothing(t *testing.T) {
	ca := agenttest.NewCA(t)
	address := emptyAgent(t, ca)
	trusting := func(config *tls.Config) *tls.Config {
		config.RootCAs = ca.ClientTLS("").RootCAs
		return config
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	garbage := ca.ClientTLS("")
	garbage.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: [][]byte{[]byte("no certificate")}, PrivateKey: key}, nil
	}
	for name, tc := range map[string]struct {
		tls      *tls.Config
		answered bool
	}{
		"no certificate":             {ca.ClientTLS(""), true},
		"an instance's":              {ca.ClientTLS(naming.CertCNInstance), true},
		"the replication account's":  {ca.ClientTLS(naming.CertCNReplication), true},
		"a name that begins alike":   {ca.ClientTLS(naming.CertCNViewer + "s"), true},
		"a viewer's of another CA":   {trusting(agenttest.NewCA(t).ClientTLS(naming.CertCNViewer)), false},
		"the manager's, another CA":  {trusting(agenttest.NewCA(t).ClientTLS(naming.CertCNManager)), false},
		"bytes that are none at all": {garbage, false},
	} {
		for _, path := range []string{agentapi.PathStatus, agentapi.PathStream} {
			code, body, err := ask(t, tc.tls, http.MethodGet, address, path, "")
			if tc.answered && (err != nil || code != http.StatusForbidden || !strings.Contains(body, string(agentapi.ErrUnauthorized))) {
				t.Errorf("%s, %s: %d %s %v, want 403", name, path, code, body, err)
			}
			if !tc.answered && err == nil {
				t.Errorf("%s, %s: answered %d", name, path, code)
			}
		}
	}
}
