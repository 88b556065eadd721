package agenttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Deadline bounds every wait of this package: generous, since machines are busy and nothing waits for it when all is well.
const Deadline = 3 * time.Minute

// mysqldUID runs mysqld where the test is root, as in a pod.
const mysqldUID = 65532

// Cluster is a set of instances of one cluster id.
type Cluster struct {
	T         testing.TB
	ID        string
	CA        *CA
	Instances []*Instance
	dir       string
	epoch     int64
	opts      Options
	operation atomic.Int64
}

// Options of a cluster.
type Options struct {
	// Processes runs each agent in a process of its own; TestMain must call RunChild.
	Processes bool
	// Logs is a folder that gets the log of each agent's process, INSTANCE.log; empty: none.
	Logs string
	// Extra options of mysqld.
	Extra map[string]string
	// Change is applied to each configuration.
	Change func(*agent.Config)
}

// MysqlBin returns the directory with mysqld, or fails the test with the command that provides it.
func MysqlBin(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("PORPOISE_MYSQL_BIN")
	if dir == "" {
		t.Fatal("PORPOISE_MYSQL_BIN is not set: it is the directory with mysqld; run `make test-mysql`, or `make deps` to get one")
	}
	if _, err := os.Stat(filepath.Join(dir, "mysqld")); err != nil {
		t.Fatalf("PORPOISE_MYSQL_BIN: %v; run `make deps`", err)
	}
	return dir
}

// New makes a cluster of n instances; nothing runs yet. At the test's end everything is stopped and removed.
func New(t testing.TB, n int, opts Options) *Cluster {
	t.Helper()
	bin := MysqlBin(t)
	// Neither t.TempDir nor TMPDIR: a socket's path has at most 107 bytes, and mysqld's user must get there.
	dir, err := os.MkdirTemp("/tmp", "agent")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c := &Cluster{T: t, ID: "6a1f7f0e-0000-4000-8000-" + fmt.Sprintf("%012d", os.Getpid()), CA: NewCA(t), dir: dir, epoch: 1, opts: opts}
	for i := range n {
		c.Instances = append(c.Instances, c.newInstance(i, filepath.Join(bin, "mysqld")))
	}
	return c
}

func (c *Cluster) newInstance(ordinal int, mysqld string) *Instance {
	host := ClaimHost(c.T)
	dir := filepath.Join(c.dir, strconv.Itoa(ordinal))
	cfg := agent.DefaultConfig()
	cfg.Namespace, cfg.Cluster, cfg.Instance = "test", "db", naming.Instance("db", ordinal)
	cfg.ServerID, cfg.ReportHost, cfg.Mysqld = uint32(ordinal)+1, host, mysqld
	cfg.Paths = agent.Paths{Data: filepath.Join(dir, "vol/mysql"), State: filepath.Join(dir, "vol/agent"), Run: filepath.Join(dir, "run"),
		Tmp: filepath.Join(dir, "tmp"), TLS: filepath.Join(dir, "tls"), Config: filepath.Join(dir, "config"), Accounts: filepath.Join(dir, "accounts")}
	cfg.BindAddress, cfg.Port, cfg.AdminAddress, cfg.AdminPort = host, portMySQL, host, portAdmin
	cfg.APIAddress = APIAddress(host)
	cfg.FilesInterval = 100 * time.Millisecond
	cfg.Extra = map[string]string{"innodb_buffer_pool_size": "32M", "innodb_redo_log_capacity": "32M", "max_connections": "40"}
	for name, value := range c.opts.Extra {
		cfg.Extra[name] = value
	}
	if os.Geteuid() == 0 {
		cfg.Credential = &syscall.Credential{Uid: mysqldUID, Gid: mysqldUID}
	}
	if c.opts.Change != nil {
		c.opts.Change(&cfg)
	}
	i := &Instance{c: c, Config: cfg, Host: host, dir: dir}
	i.makeDirs()
	i.WriteCertificates(c.CA)
	i.WriteAccount("app", map[string]string{"username": "app", "password": "app-Secret_1'\\", "database": "app"})
	i.WriteAccount("admin", map[string]string{"username": "admin", "password": "admin-Secret_1"})
	return i
}

// StartAll starts every agent.
func (c *Cluster) StartAll() {
	c.T.Helper()
	for _, i := range c.Instances {
		i.Start()
	}
}

// Command returns a command of the cluster's present epoch with a fresh operation id.
func (c *Cluster) Command(kind agentapi.CommandType) agentapi.Command {
	return agentapi.Command{ClusterID: c.ID, Epoch: c.epoch, OperationID: fmt.Sprintf("op-%d", c.operation.Add(1)), Type: kind}
}

// NextEpoch raises the epoch of commands.
func (c *Cluster) NextEpoch() { c.epoch++ }

// Quorum lists members by what their agents report.
func (c *Cluster) Quorum(generation int64, acks int32, members ...*Instance) *agentapi.Quorum {
	q := &agentapi.Quorum{Generation: generation, RequiredAcks: acks}
	for _, m := range members {
		d := m.Status().Data
		q.Members = append(q.Members, agentapi.Member{Name: m.Config.Instance, ServerUUID: d.ServerUUID, Incarnation: d.Incarnation})
	}
	return q
}

// Bootstrap makes instance 0 the primary, and the others, cloned from it, its replicas and the members of a quorum with
// the given acknowledgements.
func (c *Cluster) Bootstrap(acks int32) {
	c.T.Helper()
	primary, others := c.Instances[0], c.Instances[1:]
	primary.Initialize()
	primary.Promote(c.Quorum(1, 0))
	primary.Await("accounts applied", func(s agentapi.Status) bool { return s.Server != nil && s.Server.AccountsApplied })
	for _, o := range others {
		o.Clone(primary)
		o.Follow(primary, nil)
	}
	quorum := c.Quorum(2, acks, others...)
	for _, o := range others {
		o.SetQuorum(quorum)
	}
	primary.Await("replicas acknowledge", func(s agentapi.Status) bool { return s.Server != nil && s.Server.SemiSync.Clients == len(others) })
	primary.SetQuorum(quorum)
}
