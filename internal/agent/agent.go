package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/version"
)

// lastWords is how long streams carry the end of mysqld before they are closed.
const lastWords = 200 * time.Millisecond

// Agent supervises one instance.
type Agent struct {
	cfg      Config
	log      logr.Logger
	state    *stateStore
	hub      *hub
	process  *process
	reaper   *reaper
	certs    *certStore
	accounts *accounts
	garbage  *complaints
	turn     turn
	poke     chan struct{}

	// life ends when the agent is asked to end. commands ends later: when it can wait no more for the command under way.
	life        context.Context
	commands    context.Context
	cutCommands context.CancelFunc
	// gone is closed when streams shall end.
	gone chan struct{}

	// sampling is held from the reading of a status to its report.
	sampling sync.Mutex

	sessionMu sync.Mutex
	session   *session
}

// New makes an agent; Run makes it work.
func New(cfg Config, log logr.Logger) *Agent {
	a := &Agent{
		cfg: cfg, log: log, state: newStateStore(cfg.Paths.State, cfg.Paths.Data), hub: newHub(cfg.Instance), reaper: newReaper(),
		certs: &certStore{cfg: cfg}, accounts: newAccounts(), garbage: newComplaints(log), turn: newTurn(), poke: make(chan struct{}, 1),
		gone: make(chan struct{}), life: context.Background(),
	}
	a.commands, a.cutCommands = context.WithCancel(context.Background())
	a.process = &process{cfg: cfg, log: log, hub: a.hub, reaper: a.reaper, attend: a.attend, mustHold: a.mustHold, wake: make(chan struct{}, 1)}
	return a
}

// Run works until ctx ends (SIGTERM), then ends mysqld by the shutdown rule and returns. An error means that it could
// not start to work.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.prepareRunDir(); err != nil {
		return err
	}
	if _, err := a.certs.load(); err != nil {
		return fmt.Errorf("load certificates: %w", err)
	}
	listener, err := a.listen()
	if err != nil {
		return err
	}
	a.life = ctx
	// The helpers outlive ctx: the shutdown needs sessions, the process loop and the streams.
	helpers, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var running sync.WaitGroup
	for _, helper := range []func(context.Context){a.reaper.run, a.process.run, a.watchFiles, a.watchAccounts} {
		running.Go(func() { helper(helpers) })
	}
	a.log.Info("Agent started", "version", version.Version(), "instance", a.cfg.Instance, "cluster", a.cfg.Cluster, "namespace", a.cfg.Namespace)
	a.loadState()
	served := make(chan error, 1)
	go func() { served <- a.serve(helpers, listener) }()
	select {
	case <-ctx.Done():
	case err = <-served:
		a.log.Error(err, "The API ended")
	}
	a.shutdown()
	stop()
	running.Wait()
	if err != nil {
		return err
	}
	return <-served
}

// loadState loads the state and starts mysqld if there is data, and it need not be held. While it cannot be loaded nothing is done but saying why.
func (a *Agent) loadState() {
	if err := a.state.load(); err != nil {
		a.garbage.log("state", "The agent's state cannot be used; every command is refused", err)
		a.hub.update(func(d *agentapi.Status) {
			d.Data.State, d.Data.Error = agentapi.DataUnknown, err.Error()
		})
		return
	}
	a.reportState()
	st := a.state.get()
	a.log.Info("State", "clusterID", st.ClusterID, "epoch", st.Epoch, "role", st.Role, "data", st.Data, "incarnation", st.Incarnation)
	if st.Data == agentapi.DataReady {
		a.removeRemains()
		a.process.boot()
	}
}

// reportState copies the state into the document.
func (a *Agent) reportState() {
	if !a.state.ready() {
		return
	}
	st := a.state.get()
	a.hub.update(func(d *agentapi.Status) {
		d.ClusterID, d.Epoch, d.Role, d.Quorum, d.Primary = st.ClusterID, st.Epoch, st.Role, st.Quorum, ""
		if st.Primary != nil {
			d.Primary, d.PrimaryEpoch = st.Primary.Instance, st.PrimaryEpoch
		}
		d.Data.State, d.Data.Incarnation, d.Data.Error = st.Data, st.Incarnation, st.DataError
		d.Data.WasPrimary, d.Data.CutTail, d.Data.Quarantined = st.WasPrimary, st.CutTail, st.Quarantined
		if st.Rebuild != nil {
			d.Data.Incarnation = st.Rebuild.Incarnation // What mysqld shows from now on is of the copy.
		}
		if st.Data == agentapi.DataReady && d.Data.ServerUUID == "" {
			d.Data.ServerUUID = readServerUUID(a.cfg.Paths.Data)
		}
	})
}

func (a *Agent) setConfirmed(confirmed bool) {
	a.hub.update(func(d *agentapi.Status) { d.Confirmed = confirmed })
}

// Status returns the last reported document.
func (a *Agent) Status() agentapi.Status { return a.hub.peek() }

// prepareRunDir makes the directories in memory usable by mysqld.
func (a *Agent) prepareRunDir() error {
	if err := os.MkdirAll(a.cfg.Paths.Run, 0o750); err != nil {
		return fmt.Errorf("make the run directory: %w", explain(err))
	}
	if a.cfg.Credential == nil {
		return nil
	}
	return a.cfg.own(a.cfg.Paths.Run)
}

func (c Config) socket() string { return filepath.Join(c.Paths.Run, "mysqld.sock") }

// APIPort returns the port of APIAddress.
func (c Config) APIPort() string {
	_, port, _ := net.SplitHostPort(c.APIAddress)
	return port
}
