package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Record identifies one process for ever.
type Record struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"startTime"` // clock ticks since boot
	BootID    string `json:"bootID"`
}

// Identify reads the record of a process that is running now.
func Identify(pid int) (Record, error) {
	start, err := startTime(pid)
	if err != nil {
		return Record{}, err
	}
	boot, err := bootID()
	if err != nil {
		return Record{}, err
	}
	return Record{PID: pid, StartTime: start, BootID: boot}, nil
}

// Load reads a record that Save wrote. A missing file gives the zero Record, which is never Alive.
func Load(path string) (Record, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, fmt.Errorf("read process record: %w", err)
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("parse process record %s: %w", path, err)
	}
	return r, nil
}

// Save writes the record so that a reader sees the old or the new one, never a half.
func (r Record) Save(path string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode process record %s: %w", path, err)
	}
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write process record: %w", err)
	}
	return os.Rename(path+".new", path)
}

// Alive tells whether exactly the recorded process still runs.
func (r Record) Alive() bool {
	if r.PID == 0 {
		return false
	}
	now, err := Identify(r.PID)
	return err == nil && now == r
}

// Kill sends SIGKILL to the recorded process and waits until it is gone. A process that already ended is success.
func (r Record) Kill(timeout time.Duration) error { return r.end(unix.SIGKILL, timeout) }

// Terminate sends SIGTERM and, if the process has not ended after grace, SIGKILL.
func (r Record) Terminate(grace time.Duration) error {
	if err := r.end(unix.SIGTERM, grace); err == nil {
		return nil
	}
	return r.Kill(10 * time.Second)
}

func (r Record) end(signal unix.Signal, timeout time.Duration) error {
	if r.PID == 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(r.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", r.PID, err)
	}
	defer unix.Close(fd)
	if !r.Alive() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %s to process %d: %w", unix.SignalName(signal), r.PID, err)
	}
	return waitGone(fd, r.PID, timeout)
}

func waitGone(pidfd, pid int, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("process %d still runs after %s", pid, timeout)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for process %d: %w", pid, err)
		}
		if n > 0 {
			return nil
		}
	}
}

func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read state of process %d: %w", pid, err)
	}
	return parseStartTime(data)
}

// parseStartTime finds field 22. The second field is the program's name in parentheses and may itself hold spaces and
// parentheses, so counting begins after the last one.
func parseStartTime(stat []byte) (uint64, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, fmt.Errorf("process state %q: no program name", stat)
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("process state %q: too few fields", stat)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, errors.New("process has ended")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
