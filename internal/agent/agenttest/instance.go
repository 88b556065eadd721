package agenttest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/go-logr/logr/funcr"
	driver "github.com/go-sql-driver/mysql"

	"github.com/porpoise-dev/porpoise/internal/agent"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// childConfig carries the configuration to an agent in a process of its own.
const childConfig = "PORPOISE_AGENTTEST_CONFIG"

// Instance is one agent with its mysqld.
type Instance struct {
	c      *Cluster
	Config agent.Config
	// Host is its loopback address.
	Host string
	dir  string

	stop    context.CancelFunc
	done    chan error
	process *exec.Cmd
}

func (i *Instance) makeDirs() {
	p := i.Config.Paths
	for _, dir := range []string{filepath.Dir(p.Data), p.Run, p.Tmp, p.TLS, p.Config, p.Accounts} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			i.c.T.Fatal(err)
		}
	}
	for _, dir := range []string{filepath.Dir(p.Data), p.Tmp} {
		i.own(dir)
	}
}

func (i *Instance) own(path string) {
	if cred := i.Config.Credential; cred != nil {
		if err := os.Chown(path, int(cred.Uid), int(cred.Gid)); err != nil {
			i.c.T.Fatal(err)
		}
	}
}

// WriteCertificates issues new certificates of a CA for the instance, and writes them with the CA's.
func (i *Instance) WriteCertificates(ca *CA) {
	cert, key := ca.Leaf(naming.CertCNInstance, i.Host, "127.0.0.1", "localhost")
	replCert, replKey := ca.Leaf(naming.CertCNReplication)
	for name, text := range map[string][]byte{naming.FileCA: ca.PEM, naming.FileTLSCert: cert, naming.FileTLSKey: key,
		naming.FileReplicationCert: replCert, naming.FileReplicationKey: replKey} {
		i.WriteTLSFile(name, text)
	}
}

// WriteTLSFile replaces one certificate file.
func (i *Instance) WriteTLSFile(name string, text []byte) {
	i.write(filepath.Join(i.Config.Paths.TLS, name), text)
}

// WriteAccount replaces the files of an account: app or admin.
func (i *Instance) WriteAccount(account string, files map[string]string) {
	dir := filepath.Join(i.Config.Paths.Accounts, account)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		i.c.T.Fatal(err)
	}
	for name, text := range files {
		i.write(filepath.Join(dir, name), []byte(text))
	}
}

func (i *Instance) write(path string, text []byte) {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		i.c.T.Fatal(err)
	}
	i.own(tmp)
	if err := os.Rename(tmp, path); err != nil {
		i.c.T.Fatal(err)
	}
}

// Start starts the agent and waits until it answers.
func (i *Instance) Start() {
	i.c.T.Helper()
	i.done = make(chan error, 1)
	if i.c.opts.Processes {
		i.startProcess()
	} else {
		ctx, cancel := context.WithCancel(context.Background())
		i.stop = cancel
		a := agent.New(i.Config, funcr.New(i.log, funcr.Options{LogTimestamp: true}).WithName(i.Config.Instance))
		go func() { i.done <- a.Run(ctx) }()
	}
	i.c.T.Cleanup(func() { i.Terminate() })
	i.Await("agent answers", func(agentapi.Status) bool { return true })
}

// log writes where the test's output goes, also after the test's end.
func (i *Instance) log(prefix, args string) {
	if os.Getenv("PORPOISE_AGENTTEST_LOG") != "" {
		_, _ = os.Stderr.WriteString(prefix + " " + args + "\n")
	}
}

func (i *Instance) startProcess() {
	text, err := json.Marshal(i.Config)
	if err != nil {
		i.c.T.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childConfig+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getenv("PORPOISE_AGENTTEST_LOG") != "" {
		cmd.Stderr = os.Stderr
	}
	if folder := i.c.opts.Logs; folder != "" {
		log, err := os.OpenFile(filepath.Join(folder, i.Config.Instance+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			i.c.T.Fatal(err)
		}
		defer func() { _ = log.Close() }() // The process has its own.
		cmd.Stderr = log
	}
	if err := startLocked(cmd, i.done); err != nil {
		i.c.T.Fatal(err)
	}
	i.process = cmd
	i.stop = func() { _ = cmd.Process.Signal(syscall.SIGTERM) }
}

// Terminate sends the agent SIGTERM (or its like within the process) and waits until it has ended.
func (i *Instance) Terminate() {
	if i.stop == nil {
		return
	}
	i.stop()
	i.stop = nil
	select {
	case err := <-i.done:
		if err != nil {
			i.c.T.Errorf("%s: agent: %v", i.Config.Instance, err)
		}
	case <-time.After(Deadline):
		i.c.T.Errorf("%s: the agent did not end", i.Config.Instance)
	}
}

// KillAgent kills the agent's process, and mysqld with it, as a lost node would.
func (i *Instance) KillAgent() {
	i.c.T.Helper()
	if i.process == nil {
		i.c.T.Fatal("KillAgent needs Options.Processes")
	}
	if err := i.process.Process.Kill(); err != nil {
		i.c.T.Errorf("kill the agent of %s: %v", i.Config.Instance, err)
	}
	if err := <-i.done; err != nil {
		i.c.T.Logf("the killed agent of %s: %v", i.Config.Instance, err)
	}
	i.stop = nil
}

// AgentPID is the process id of an agent with a process of its own; 0: it has none.
func (i *Instance) AgentPID() int {
	if i.process == nil {
		return 0
	}
	return i.process.Process.Pid
}

// KillMysqld kills mysqld and returns its process id.
func (i *Instance) KillMysqld() int {
	i.c.T.Helper()
	pid := i.Status().Process.PID
	if pid == 0 {
		i.c.T.Fatalf("%s: mysqld does not run", i.Config.Instance)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		i.c.T.Fatal(err)
	}
	return pid
}

// AppDB opens a pool as the application, to the database app.
func (i *Instance) AppDB() *sql.DB { return i.DB("app", "app-Secret_1'\\", "app") }

// DB opens a pool over TLS.
func (i *Instance) DB(user, password, database string) *sql.DB {
	i.c.T.Helper()
	cfg := driver.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = user, password, database
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(i.Host, strconv.Itoa(i.Config.Port))
	cfg.TLS = i.c.CA.ClientTLS("")
	cfg.TLS.ServerName = i.Host
	cfg.Timeout = 10 * time.Second
	cfg.Logger = &driver.NopLogger{}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		i.c.T.Fatal(err)
	}
	db := sql.OpenDB(connector)
	i.c.T.Cleanup(func() { _ = db.Close() })
	return db
}

// Peer names the instance in commands.
func (i *Instance) Peer() *agentapi.Peer {
	return &agentapi.Peer{Instance: i.Config.Instance, Host: i.Host, Port: i.Config.Port}
}

// IsErrorCode says whether an error is a refusal of that code.
func IsErrorCode(err error, code agentapi.ErrorCode) bool {
	var e *agentapi.Error
	return errors.As(err, &e) && e.Code == code
}
