package agent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/mycnf"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Paths the agent works with; DefaultPaths are those of a pod.
type Paths struct {
	Data, State, Run, Tmp, TLS, Config, Accounts string
}

// DefaultPaths returns the paths of naming.
func DefaultPaths() Paths {
	return Paths{Data: naming.PathData, State: naming.PathState, Run: naming.PathRun, Tmp: "/tmp",
		TLS: naming.PathTLS, Config: naming.PathConfig, Accounts: naming.PathAccounts}
}

// Config of an agent.
type Config struct {
	// Namespace, Cluster and Instance say who this is.
	Namespace, Cluster, Instance string
	// ServerID of mysqld, from 1, unique in the cluster.
	ServerID uint32
	// ReportHost is the name by which others reach this instance; its certificate carries it.
	ReportHost string
	// MemoryBytes is the container's memory limit; 0: none.
	MemoryBytes int64
	// Paths of files.
	Paths Paths
	// Mysqld is the path of the server binary.
	Mysqld string
	// BindAddress and Port are mysqld's, AdminAddress and AdminPort its loopback listener's.
	BindAddress  string
	Port         int
	AdminAddress string
	AdminPort    int
	// APIAddress is where the agent listens, host:port.
	APIAddress string
	// Credential runs mysqld as another user; nil: as the agent's.
	Credential *syscall.Credential
	// Extra are options for tests (small buffers); they are not checked.
	Extra map[string]string

	// ShutdownBound is the longest time from SIGTERM until mysqld has ended, whatever the agent was doing. It is to stay a
	// few seconds below the pod's grace period: at its end the kubelet kills everything. All other bounds give way to it.
	ShutdownBound time.Duration
	// FenceBound is how long a demotion or shutdown tries to make a primary read-only before mysqld is killed.
	FenceBound time.Duration
	// StopBound is how long mysqld may take to end after SIGTERM before it is killed.
	StopBound time.Duration
	// ApplyBound is how long Follow and Promote wait for the applier before they refuse.
	ApplyBound time.Duration
	// LoginBound is how long logins may hang on a primary with waiting commits before mysqld is killed: replicas cannot
	// log in either, so nothing else ends that state.
	LoginBound time.Duration
	// FilesInterval is how often mounted files are looked at for changes.
	FilesInterval time.Duration
}

// DefaultConfig returns a configuration with every default that does not depend on the instance.
func DefaultConfig() Config {
	return Config{
		Paths: DefaultPaths(), Mysqld: "mysqld",
		BindAddress: "*", Port: naming.PortMySQL, AdminAddress: "127.0.0.1", AdminPort: naming.PortMySQLAdmin,
		APIAddress:    net.JoinHostPort("", strconv.Itoa(naming.PortAgent)),
		ShutdownBound: agentapi.TerminationGrace - 10*time.Second,
		FenceBound:    20 * time.Second, StopBound: 60 * time.Second, ApplyBound: 8 * time.Second,
		LoginBound: 30 * time.Second, FilesInterval: 2 * time.Second,
	}
}

// Environment variables that a pod sets.
const (
	EnvNamespace = "POD_NAMESPACE"
	EnvCluster   = "PORPOISE_CLUSTER"
	EnvInstance  = "PORPOISE_INSTANCE"
	// EnvMemory is the memory limit in bytes; absent: none.
	EnvMemory = "PORPOISE_MEMORY_LIMIT"
	// EnvExpectVersion is the series or release that validate-config expects of mysqld.
	EnvExpectVersion = "PORPOISE_EXPECT_VERSION"
)

// ConfigFromEnv reads the environment of a pod; getenv is os.Getenv.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	c := DefaultConfig()
	for name, target := range map[string]*string{EnvNamespace: &c.Namespace, EnvCluster: &c.Cluster, EnvInstance: &c.Instance} {
		if *target = getenv(name); *target == "" {
			return Config{}, fmt.Errorf("environment variable %s: not set; the operator sets it in the pod", name)
		}
	}
	ordinal, err := naming.Ordinal(c.Cluster, c.Instance)
	if err != nil {
		return Config{}, fmt.Errorf("environment variable %s: %w", EnvInstance, err)
	}
	c.ServerID = uint32(ordinal) + 1
	c.ReportHost = naming.Host(c.Cluster, c.Namespace, c.Instance)
	c.MemoryBytes, err = memoryLimit(getenv(EnvMemory))
	return c, err
}

func memoryLimit(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("environment variable %s: %q; allowed is a number of bytes", EnvMemory, text)
	}
	return n, nil
}

func (c Config) tlsFile(name string) string { return filepath.Join(c.Paths.TLS, name) }

// optionFile returns what mysqld's option file depends on.
func (c Config) optionFile(dataDir, initFile string) (mycnf.Instance, error) {
	user, err := c.userSettings()
	if err != nil {
		return mycnf.Instance{}, err
	}
	extra, err := mycnf.FromMap(c.Extra)
	if err != nil {
		return mycnf.Instance{}, fmt.Errorf("extra options: %w", err)
	}
	return mycnf.Instance{
		ServerID: c.ServerID, DataDir: dataDir, RunDir: c.Paths.Run, TmpDir: c.Paths.Tmp, InitFile: initFile,
		BindAddress: c.BindAddress, Port: c.Port, AdminAddress: c.AdminAddress, AdminPort: c.AdminPort, ReportHost: c.ReportHost,
		CAFile: c.tlsFile(naming.FileCA), CertFile: c.tlsFile(naming.FileTLSCert), KeyFile: c.tlsFile(naming.FileTLSKey),
		MemoryBytes: c.MemoryBytes, User: mycnf.Merge(user, extra),
	}, nil
}

// userSettings reads the mounted user.cnf and checks it again: the ConfigMap could have been edited by hand.
func (c Config) userSettings() (mycnf.Settings, error) {
	path := filepath.Join(c.Paths.Config, naming.FileUserConfig)
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return mycnf.Settings{}, nil
	}
	if err != nil {
		return mycnf.Settings{}, fmt.Errorf("read the user's options: %w", err)
	}
	settings, err := mycnf.ParseUser(path, string(text))
	if err != nil {
		return mycnf.Settings{}, fmt.Errorf("read the user's options: %w", err)
	}
	if err := mycnf.Check(settings); err != nil {
		return mycnf.Settings{}, fmt.Errorf("check the user's options in %s: %w", path, err)
	}
	return settings, nil
}
