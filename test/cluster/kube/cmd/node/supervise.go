package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A daemon that ends is started again after this pause: long enough not to burn a processor when it cannot start.
const restartPause = 500 * time.Millisecond

type daemon struct {
	Name string   `json:"name"` // of the log, /var/log/NAME.log
	Args []string `json:"args"` // Args[0] is a path
	// NeedsAPI holds the first start back until the API server serves.
	NeedsAPI bool `json:"needsAPI"`
}

// supervise starts every daemon, restarts those that end, reaps every orphan of the node, and never returns. awaitAPI returns when
// daemons that need the API server may start.
func supervise(daemons []daemon, awaitAPI func()) {
	running := map[int]daemon{}
	ended := make(chan int)
	restart := make(chan daemon, len(daemons))
	wake := make(chan struct{}, 1)
	go reap(ended, wake)
	for _, d := range daemons {
		if !d.NeedsAPI {
			restart <- d
		}
	}
	go func() {
		awaitAPI()
		for _, d := range daemons {
			if d.NeedsAPI {
				restart <- d
			}
		}
	}()
	for {
		select {
		case d := <-restart:
			pid, err := start(d)
			if err != nil {
				log.Printf("%s: %v", d.Name, err)
				later(d, restart)
				continue
			}
			log.Printf("%s: started as process %d", d.Name, pid)
			running[pid] = d
			select {
			case wake <- struct{}{}:
			default:
			}
		case pid := <-ended:
			if d, ok := running[pid]; ok {
				log.Printf("%s: process %d ended; starting it again", d.Name, pid)
				delete(running, pid)
				later(d, restart)
			}
		}
	}
}

func later(d daemon, restart chan<- daemon) {
	time.AfterFunc(restartPause, func() { restart <- d })
}

// reap reports every child that ends. It waits for all children alike, since the orphans of a PID namespace become children of
// process 1; os/exec would take the daemons out of its hands.
func reap(ended chan<- int, wake <-chan struct{}) {
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		switch {
		case err == nil:
			ended <- pid
		case errors.Is(err, unix.ECHILD):
			<-wake
		}
	}
}

func start(d daemon) (int, error) {
	logFile, err := os.OpenFile(filepath.Join("/var/log", d.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, fmt.Errorf("open log: %w", err)
	}
	defer logFile.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("open stdin: %w", err)
	}
	defer null.Close()
	process, err := os.StartProcess(d.Args[0], d.Args, &os.ProcAttr{
		Dir:   "/",
		Env:   os.Environ(),
		Files: []*os.File{null, logFile, logFile},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("start: %w", err)
	}
	pid := process.Pid
	return pid, process.Release()
}
