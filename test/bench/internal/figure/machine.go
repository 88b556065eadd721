package figure

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine is where a figure was measured.
type Machine struct {
	Cores     int     `json:"cores"`
	Processor string  `json:"processor"`
	MemoryGiB float64 `json:"memoryGiB"`
	Kernel    string  `json:"kernel"`
	System    string  `json:"system"`
	// Load of the last minute when the measurement began: runnable and blocked processes. Far from 0, others were at work.
	Load float64 `json:"load"`
}

// ThisMachine describes the machine that this runs on. What the system does not tell stays empty.
func ThisMachine() Machine {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		return string(text)
	}
	m := Machine{
		Cores: runtime.NumCPU(), Processor: field(read("/proc/cpuinfo"), "model name", ":"),
		Kernel: strings.TrimSpace(read("/proc/sys/kernel/osrelease")),
		System: strings.Trim(field(read("/etc/os-release"), "PRETTY_NAME", "="), `"`),
	}
	if kib, _, ok := strings.Cut(field(read("/proc/meminfo"), "MemTotal", ":"), " "); ok {
		if n, err := strconv.ParseFloat(kib, 64); err == nil {
			m.MemoryGiB = n / (1 << 20)
		}
	}
	if first, _, ok := strings.Cut(read("/proc/loadavg"), " "); ok {
		if n, err := strconv.ParseFloat(first, 64); err == nil {
			m.Load = n
		}
	}
	return m
}

// field returns the value of the first line "NAME SEPARATOR VALUE".
func field(text, name, separator string) string {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, separator)
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Busy says whether others were at work when the measurement began.
func (m Machine) Busy() bool { return m.Load > float64(m.Cores)/2 }

// String is the machine in a line.
func (m Machine) String() string {
	text := fmt.Sprintf("%d cores (%s), %.1f GiB of memory, Linux %s, %s; load at the start %.2f", m.Cores, m.Processor, m.MemoryGiB, m.Kernel, m.System, m.Load)
	if m.Busy() {
		text += " (BUSY: others were at work, do not trust this figure)"
	}
	return text
}
