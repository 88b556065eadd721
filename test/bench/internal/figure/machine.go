package figure

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine is where a figure was measured.
type Machine struct {
	Cores     int     `json:"cores"`
	Processor string  `json:"processor"`
	MemoryGiB float64 `json:"memoryGiB"`
	Kernel    string  `json:"kernel"`
	System    string  `json:"system"`
	// UsedPercent is how much of its processor time was in use in the seconds before anything was measured or built: what
	// others were doing.
	UsedPercent float64 `json:"usedPercent"`
}

// busyPercent is how much use by others spoils figures.
const busyPercent = 10

// ThisMachine describes the machine that this runs on, watching it for a while. What the system does not tell stays empty.
func ThisMachine(watch time.Duration) Machine {
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
	before := read("/proc/stat")
	<-time.After(watch) // What is wanted is the use over a time.
	m.UsedPercent = usedPercent(before, read("/proc/stat"))
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

// usedPercent is the part of processor time that was in use between two readings of /proc/stat. Time that a hypervisor gave
// to others counts as used: it is missing as well.
func usedPercent(before, after string) float64 {
	read := func(text string) (idle, all float64) {
		for i, word := range strings.Fields(field(text, "cpu", " ")) {
			n, err := strconv.ParseFloat(word, 64)
			if err != nil || i > 7 { // guest and guest_nice are in user and nice already.
				break
			}
			all += n
			if i == 3 || i == 4 { // idle, iowait
				idle += n
			}
		}
		return idle, all
	}
	idleBefore, allBefore := read(before)
	idle, all := read(after)
	if all <= allBefore {
		return 0
	}
	return 100 * (1 - (idle-idleBefore)/(all-allBefore))
}

// Busy says whether others were at work before the measurement began.
func (m Machine) Busy() bool { return m.UsedPercent > busyPercent }

// String is the machine in a line.
func (m Machine) String() string {
	text := fmt.Sprintf("%d cores (%s), %.1f GiB of memory, Linux %s, %s; %.0f %% of its processor time in use before the start", m.Cores, m.Processor, m.MemoryGiB, m.Kernel, m.System, m.UsedPercent)
	if m.Busy() {
		text += " (BUSY: others were at work, do not trust this figure)"
	}
	return text
}
