package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

const (
	// stableAfter: a mysqld that lived so long was no rapid repeat.
	stableAfter = 30 * time.Second
	// maxBackoff between rapid repeats; the first restart is at once.
	maxBackoff = 30 * time.Second
	// logPatience is how long an exit waits for the last lines of the log before it is reported.
	logPatience = 20 * time.Millisecond
)

// errNotWanted: halt came between the decision to start and the start.
var errNotWanted = errors.New("mysqld is not wanted any more")

// child is one life of mysqld.
type child struct {
	pid     int
	started time.Time
	// secret is the password of the local account in this life.
	secret string
	// done is closed when it has ended; exit is set before.
	done chan struct{}
	exit string
	// asked is true when the agent ends it, or knows that it will end by itself. Guarded by process.mu.
	asked bool
}

// alive says whether it has not ended.
func (c *child) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

func (c *child) signal(sig syscall.Signal) {
	if c.alive() {
		_ = syscall.Kill(c.pid, sig)
	}
}

// waitFor waits until it has ended, at most for the bound; it says whether it has.
func (c *child) waitFor(bound time.Duration) bool {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return !c.alive()
	}
}

// process runs mysqld as long as it is wanted. Its goroutine (run) is the only one that starts it.
type process struct {
	cfg    Config
	log    logr.Logger
	hub    *hub
	reaper *reaper
	// mustHold says that a mysqld that has ended is not to be started again before begin.
	mustHold func() bool
	// attend is called for each life, in a goroutine of its own; it returns soon after the life ends.
	attend func(context.Context, *child)

	mu     sync.Mutex
	wanted bool
	// last is true when the agent ends: what begins no life now begins none any more.
	last  bool
	child *child
	wake  chan struct{}
	rapid int
	// notBefore is the end of the pause after rapid repeats; a begin ends it.
	notBefore time.Time
}

// retire makes begin do nothing any more; a mysqld that is wanted goes on until halt.
func (p *process) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = true
}

// begin makes mysqld run, from now on.
func (p *process) begin() {
	p.mu.Lock()
	if p.last {
		p.mu.Unlock()
		return
	}
	p.wanted = true
	if p.child == nil || !p.child.alive() {
		p.rapid, p.notBefore = 0, time.Time{}
		p.hub.update(func(s *agentapi.Status) { s.Process.State = agentapi.ProcessStarting })
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// use makes the lives that begin from now on work in another data directory. None may be wanted.
func (p *process) use(dataDir string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cfg.Paths.Data = dataDir
}

// boot is begin, unless mysqld is to be held.
func (p *process) boot() {
	if !p.mustHold() {
		p.begin()
		return
	}
	p.log.Info("mysqld is held: what it was writing as primary may be unacknowledged")
	p.held()
}

// held reports that mysqld does not run and waits for a manager.
func (p *process) held() {
	p.hub.update(func(s *agentapi.Status) { s.Process.State = agentapi.ProcessHeld })
}

// halt makes mysqld stay ended once it ends, and returns its present life, nil if there is none. The caller signals it.
func (p *process) halt() *child {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = false
	if p.child == nil || !p.child.alive() {
		return nil
	}
	p.child.asked = true
	p.hub.update(func(s *agentapi.Status) { s.Process.State = agentapi.ProcessStopping })
	return p.child
}

// kill ends the present life at once, without its clean shutdown; it is started again if it is wanted and not to be held.
func (p *process) kill(why string) {
	p.mu.Lock()
	c := p.child
	if c != nil {
		c.asked = true
	}
	p.mu.Unlock()
	if c == nil || !c.alive() {
		return
	}
	p.log.Info("Killing mysqld", "why", why, "pid", c.pid)
	c.signal(syscall.SIGKILL)
	<-c.done
}

// expectExit says that the present life will end by itself and that this is no crash.
func (p *process) expectExit(expected bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child != nil {
		p.child.asked = expected
	}
}

// run is the supervising loop; it returns when ctx ends. mysqld is then ended already, or killed by the kernel with the
// agent.
func (p *process) run(ctx context.Context) {
	for {
		if !p.awaitWanted(ctx) {
			return
		}
		c, logs, err := p.start(ctx)
		if errors.Is(err, errNotWanted) {
			continue
		}
		if err != nil {
			p.failed(err)
			continue
		}
		<-c.done
		p.ended(c, logs)
	}
}

// awaitWanted waits until mysqld is wanted and the pause after rapid repeats is over.
func (p *process) awaitWanted(ctx context.Context) bool {
	for {
		p.mu.Lock()
		wanted, left := p.wanted, time.Until(p.notBefore)
		p.mu.Unlock()
		if ctx.Err() != nil {
			return false
		}
		if wanted && left <= 0 {
			return true
		}
		timer := time.NewTimer(max(left, 0))
		elapsed := timer.C
		if !wanted {
			elapsed = nil
		}
		select {
		case <-ctx.Done():
		case <-elapsed:
		case <-p.wake:
		}
		timer.Stop()
	}
}

// backoff is the pause before the start after n ends in rapid succession: none, half a second, doubled.
func backoff(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	return min(time.Second/4<<min(n-1, 16), maxBackoff)
}

func (p *process) start(ctx context.Context) (*child, *mysqldLog, error) {
	p.mu.Lock()
	cfg := p.cfg
	p.mu.Unlock()
	secret, file, err := cfg.prepareBoot()
	if err != nil {
		return nil, nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe for mysqld's log: %w", err)
	}
	cmd := exec.Command(cfg.Mysqld, "--defaults-file="+file)
	cmd.Stdout, cmd.Stderr = write, write
	cmd.Dir = cfg.Paths.Run
	// A mysqld without its agent would go on acknowledging with nobody to fence it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Credential: cfg.Credential}
	c := &child{secret: secret, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err = errNotWanted; p.wanted && p.cfg.Paths.Data == cfg.Paths.Data {
		err = p.launch(cmd, c)
	}
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		return nil, nil, fmt.Errorf("start %s: %w", cfg.Mysqld, err)
	}
	logs := newMysqldLog(p.log)
	go func() {
		logs.copy(read)
		_ = read.Close()
	}()
	p.child = c
	p.log.Info("Started mysqld", "pid", c.pid)
	p.hub.update(func(s *agentapi.Status) {
		started := c.started.UTC()
		s.Process.State, s.Process.PID, s.Process.StartedAt = agentapi.ProcessStarting, c.pid, &started
		s.Process.LoginBlocked, s.Server = false, nil
	})
	go p.attend(ctx, c)
	return c, logs, nil
}

// launch starts the command on a thread of its own that lives as long as it: the kernel sends Pdeathsig when the thread
// that forked ends, not the process.
func (p *process) launch(cmd *exec.Cmd, c *child) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.reaper.start(cmd)
		if err != nil {
			started <- err
			return
		}
		c.pid, c.started = cmd.Process.Pid, time.Now()
		started <- nil
		_ = cmd.Wait()
		p.reaper.forget(c.pid)
		c.exit = cmd.ProcessState.String()
		close(c.done)
	}()
	return <-started
}

// ended reports the end of a life at once, and decides on the pause before the next.
func (p *process) ended(c *child, logs *mysqldLog) {
	exit := c.exit
	if last := logs.last(logPatience); last != "" {
		exit += ": " + last
	}
	p.mu.Lock()
	asked := c.asked
	if asked || time.Since(c.started) >= stableAfter {
		p.rapid = 0
	}
	if !asked {
		p.rapid++
	}
	pause := backoff(p.rapid)
	p.notBefore = time.Now().Add(pause)
	held := p.wanted && p.mustHold()
	if held {
		p.wanted = false
	}
	p.mu.Unlock()
	p.log.Info("mysqld ended", "pid", c.pid, "exit", exit, "asked", asked, "held", held, "pause", pause.String())
	p.hub.update(func(s *agentapi.Status) {
		s.Server, s.Process.PID, s.Process.LastExit, s.Process.LoginBlocked = nil, 0, exit, false
		s.Process.State = agentapi.ProcessStopped
		if !asked {
			s.Process.State = agentapi.ProcessCrashed
			s.Process.Exits++
		}
		if held {
			s.Process.State = agentapi.ProcessHeld
		}
	})
}

// failed reports that mysqld could not even be started.
func (p *process) failed(err error) {
	p.log.Error(err, "Starting mysqld failed")
	p.mu.Lock()
	p.rapid = max(p.rapid+1, 2)
	p.notBefore = time.Now().Add(backoff(p.rapid))
	p.mu.Unlock()
	p.hub.update(func(s *agentapi.Status) {
		s.Process.State, s.Process.PID, s.Process.LastExit = agentapi.ProcessCrashed, 0, strings.TrimSpace(err.Error())
	})
}
