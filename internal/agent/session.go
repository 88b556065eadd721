package agent

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/mysql"
)

const (
	connectEvery = 20 * time.Millisecond
	// pollEvery is how often the server's status is read; pollActive applies for a while after a command or a change.
	pollEvery  = 200 * time.Millisecond
	pollActive = 50 * time.Millisecond
	activeFor  = 5 * time.Second
	// loginEvery is how often a login is tried while commits wait or SQL does not answer.
	loginEvery   = 2 * time.Second
	loginTimeout = 2 * time.Second
)

// session is the SQL access to one life of mysqld.
type session struct {
	server *mysql.Server
	child  *child
	// appliedQuorum is the generation of the quorum that is in force in this life.
	appliedQuorum atomic.Int64
	// mayReceive is true from before the receiver is first started in this life until it is known to have stopped. mysqld
	// boots without replication, so it begins as false.
	mayReceive atomic.Bool
	// open is true from the opening for writes in this life until they have ended.
	open atomic.Bool
	// ending counts beginnings and ends of attempts to end writes: odd while one is under way.
	ending atomic.Int64
}

// attend accompanies one life of mysqld: it opens the sessions, then reads the status until the life ends.
func (a *Agent) attend(ctx context.Context, c *child) {
	server := a.connect(ctx, c)
	if server == nil {
		return
	}
	defer server.Close()
	// The password is known to the running server alone from here on.
	_ = os.Remove(filepath.Join(a.cfg.Paths.Run, initFileName))
	s := &session{server: server, child: c}
	uuid, version, err := server.Identity(ctx)
	if err != nil {
		a.log.Error(err, "Reading mysqld's identity failed")
	}
	a.openSession(s)
	defer a.closeSession(s)
	a.sampling.Lock()
	status, _ := a.readStatus(ctx, s)
	a.hub.update(func(d *agentapi.Status) {
		if !c.alive() {
			return
		}
		d.Data.ServerUUID, d.Process.Version, d.Server = uuid, version, status
		if d.Process.State == agentapi.ProcessStarting {
			d.Process.State = agentapi.ProcessRunning
		}
	})
	a.sampling.Unlock()
	a.log.Info("mysqld accepts sessions", "version", version, "serverUUID", uuid, "after", time.Since(c.started).Round(time.Millisecond).String())
	a.monitor(ctx, s)
}

// connect tries until mysqld admits the agent, or ends. A login that is refused stays so: the init-file failed.
func (a *Agent) connect(ctx context.Context, c *child) *mysql.Server {
	options := mysql.Options{Socket: a.cfg.socket(), User: localUser, Password: c.secret,
		AdminAddress: net.JoinHostPort(a.cfg.AdminAddress, strconv.Itoa(a.cfg.AdminPort)), TLS: a.certs.adminClient()}
	ticker := time.NewTicker(connectEvery)
	defer ticker.Stop()
	complained := false
	for {
		server, err := mysql.Connect(ctx, options)
		if err == nil {
			return server
		}
		if mysql.IsAccessDenied(err) && !complained {
			complained = true
			a.log.Error(err, "mysqld refuses the local account; its boot statements failed, see its log")
		}
		a.setLoginBlocked(c, isTimeout(err))
		select {
		case <-c.done:
			return nil
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) && e.Timeout()
}

// readStatus reads the server's status and adds what the agent knows.
func (a *Agent) readStatus(ctx context.Context, s *session) (*agentapi.ServerStatus, error) {
	// Before the sample: what it shows is from after that quorum came into force, and from after the receiver's end.
	applied := s.appliedQuorum.Load()
	fenced := int64(0)
	if !s.mayReceive.Load() {
		fenced = a.state.get().Fenced
	}
	open, ending := s.open.Load(), s.ending.Load()
	status, err := s.server.Status(ctx)
	if err != nil {
		return nil, err
	}
	if open && (ending%2 == 1 || ending != s.ending.Load()) {
		// While the statement that ends writes waits for commits, the variable reads as if it had succeeded already (INV-2).
		status.SuperReadOnly, status.ReadOnly = false, false
	}
	status.AppliedQuorum, status.FencedEpoch = applied, fenced
	status.AccountsApplied, status.AccountsError = a.accounts.report()
	return status, nil
}

// refresh reads the status now and reports it. Samples are taken and reported one after the other, so a later document
// never shows an earlier sample. That whoever asked gives up says nothing about mysqld, and must neither be reported as its
// silence nor cost the session: a primary was taken for unresponsive, and a switchover given up, for that.
func (a *Agent) refresh(ctx context.Context, s *session) *agentapi.ServerStatus {
	a.sampling.Lock()
	defer a.sampling.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	status, err := a.readStatus(context.WithoutCancel(ctx), s)
	a.hub.update(func(d *agentapi.Status) {
		if !s.child.alive() || d.Process.PID != s.child.pid {
			return
		}
		d.Server = status
		if err == nil {
			d.Process.UnresponsiveSince = nil
		} else if d.Process.UnresponsiveSince == nil {
			now := time.Now().UTC()
			d.Process.UnresponsiveSince = &now
		}
	})
	if err != nil && s.child.alive() {
		a.garbage.log("status", "Reading mysqld's status failed", err)
	}
	return status
}

// monitor reads the status until the life ends: often after a command or a change, seldom else.
func (a *Agent) monitor(ctx context.Context, s *session) {
	var lastLogin time.Time
	var login loginProbe
	var nudge nudge
	active := time.Now().Add(activeFor)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.child.done:
			return
		case <-ctx.Done():
			return
		case <-a.poke:
			active = time.Now().Add(activeFor)
		case <-timer.C:
		}
		status := a.refresh(ctx, s)
		if clientsOf(status) > 0 && a.guardQuorum(ctx, s, status) {
			active = time.Now().Add(activeFor) // It reconnects at once.
		}
		if nudge.stuck(status, time.Now()) {
			active = time.Now().Add(activeFor)
			a.nudge(ctx, s)
		}
		if time.Since(lastLogin) >= loginEvery && (status == nil || status.SemiSync.WaitSessions > 0) {
			lastLogin = time.Now()
			login.try(ctx, a, s, status)
		} else if status != nil && status.SemiSync.WaitSessions == 0 {
			login.pass(a, s)
		}
		every := pollEvery
		if time.Now().Before(active) {
			every = pollActive
		}
		timer.Reset(every)
	}
}

// poll makes the monitor read at once, and often for a while.
func (a *Agent) poll() {
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

func clientsOf(status *agentapi.ServerStatus) int {
	if status == nil {
		return 0
	}
	return status.SemiSync.Clients
}

// guardQuorum ends semi-sync streams to replicas that are no members, found by the server UUID that they connected with, at
// each reading: it would be counted though nobody counts on what it holds (INV-4). It is the second line, since it sees such
// a stream only some 50 to 200 ms after it began: the first is that a replica acknowledges only by the quorum that it was
// told, and is told before it leaves. It says whether it ended some.
func (a *Agent) guardQuorum(ctx context.Context, s *session, status *agentapi.ServerStatus) bool {
	if status == nil || !status.SemiSync.SourceEnabled {
		return false
	}
	n, err := s.server.EndForeignDumps(ctx, memberUUIDs(a.state.get().Quorum))
	if err != nil {
		a.garbage.log("guard", "Looking for replicas that are no members failed", err)
		return false
	}
	if n > 0 {
		a.log.Info("Ended semi-sync streams to replicas that are no members", "streams", n)
	}
	return n > 0
}

func memberUUIDs(q *agentapi.Quorum) []string {
	if q == nil {
		return nil
	}
	out := make([]string, 0, len(q.Members))
	for _, m := range q.Members {
		out = append(out, m.ServerUUID)
	}
	return out
}

// loginProbe recognises "port accepts, login hangs".
type loginProbe struct{ blockedSince time.Time }

func (l *loginProbe) try(ctx context.Context, a *Agent, s *session, status *agentapi.ServerStatus) {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	if err := s.server.Login(ctx); err == nil || !isTimeout(err) {
		l.pass(a, s)
		return
	}
	if l.blockedSince.IsZero() {
		l.blockedSince = time.Now()
		a.log.Info("Logins hang: an account statement waits for an acknowledgement")
	}
	a.setLoginBlocked(s.child, true)
	waiting := status != nil && status.SemiSync.WaitSessions > 0
	if waiting && a.state.get().Role == agentapi.RolePrimary && time.Since(l.blockedSince) >= a.cfg.LoginBound {
		// Replicas cannot log in to acknowledge. Nothing that waits was acknowledged, so nothing is lost by this.
		a.process.kill("logins have hung for " + a.cfg.LoginBound.String() + " behind an account statement without acknowledgement")
	}
}

func (l *loginProbe) pass(a *Agent, s *session) {
	if !l.blockedSince.IsZero() {
		l.blockedSince = time.Time{}
		a.setLoginBlocked(s.child, false)
	}
}

func (a *Agent) setLoginBlocked(c *child, blocked bool) {
	a.hub.update(func(d *agentapi.Status) {
		if c.alive() && d.Process.PID == c.pid {
			d.Process.LoginBlocked = blocked
		}
	})
}

func (a *Agent) openSession(s *session) {
	a.sessionMu.Lock()
	defer a.sessionMu.Unlock()
	a.session = s
}

// closeSession takes it away, unless the next life's has taken its place already.
func (a *Agent) closeSession(s *session) {
	a.sessionMu.Lock()
	defer a.sessionMu.Unlock()
	if a.session == s {
		a.session = nil
	}
}

// current returns the session, nil if there is none now.
func (a *Agent) current() *session {
	a.sessionMu.Lock()
	defer a.sessionMu.Unlock()
	if a.session != nil && !a.session.child.alive() {
		return nil
	}
	return a.session
}
