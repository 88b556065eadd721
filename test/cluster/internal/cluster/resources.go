package cluster

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
)

// Resources says what nodes offer to pods, by node number; 0 stands for all nodes not named. Absent means: all that the machine has.
type Resources struct {
	Memory map[int]int64 `json:"memory,omitempty"` // bytes
	CPU    map[int]int64 `json:"cpu,omitempty"`    // thousandths of a processor
}

// ParseResources reads the values of --node-memory and --node-cpu: "4Gi" for all nodes or "3=512Mi" for node 3.
func ParseResources(memory, cpu []string) (Resources, error) {
	r := Resources{}
	var err error
	if r.Memory, err = parsePerNode("--node-memory", memory, parseBytes); err != nil {
		return Resources{}, err
	}
	r.CPU, err = parsePerNode("--node-cpu", cpu, parseMilli)
	return r, err
}

func parsePerNode(flag string, values []string, parse func(string) (int64, error)) (map[int]int64, error) {
	result := map[int]int64{}
	for _, value := range values {
		number, amount := 0, value
		if left, right, ok := strings.Cut(value, "="); ok {
			n, err := strconv.Atoi(left)
			if err != nil || n < 1 || n > plan.MaxNodes {
				return nil, fmt.Errorf("%s %q: the node must be a number from 1 to %d", flag, value, plan.MaxNodes)
			}
			number, amount = n, right
		}
		parsed, err := parse(amount)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", flag, value, err)
		}
		result[number] = parsed
	}
	return result, nil
}

func parseBytes(s string) (int64, error) {
	for suffix, shift := range map[string]uint{"Ki": 10, "Mi": 20, "Gi": 30} {
		if digits, ok := strings.CutSuffix(s, suffix); ok {
			n, err := strconv.ParseInt(digits, 10, 64)
			if err == nil && n > 0 && n <= math.MaxInt64>>shift {
				return n << shift, nil
			}
		}
	}
	return 0, fmt.Errorf("must be a positive whole number followed by Ki, Mi or Gi, such as 4Gi")
}

func parseMilli(s string) (int64, error) {
	factor := int64(1000)
	digits, milli := strings.CutSuffix(s, "m")
	if milli {
		factor = 1
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("must be a positive number of processors, such as 2 or 500m")
	}
	return n * factor, nil
}

// reserve is what kubelet must withhold so that the wanted amount remains.
func (r Resources) reserve(number int, total, totalMilli int64) (memory, cpu string, err error) {
	if wanted, ok := pick(r.Memory, number); ok {
		if wanted > total {
			return "", "", fmt.Errorf("--node-memory: node %d should have %d MiB, but the machine has only %d MiB", number, wanted>>20, total>>20)
		}
		memory = strconv.FormatInt(total-wanted, 10)
	}
	if wanted, ok := pick(r.CPU, number); ok {
		if wanted > totalMilli {
			return "", "", fmt.Errorf("--node-cpu: node %d should have %dm, but the machine has only %dm", number, wanted, totalMilli)
		}
		cpu = fmt.Sprintf("%dm", totalMilli-wanted)
	}
	return memory, cpu, nil
}

func pick(values map[int]int64, number int) (int64, bool) {
	if v, ok := values[number]; ok {
		return v, true
	}
	v, ok := values[0]
	return v, ok
}

// machine reads what the machine has, as kubelet does.
func machine() (memory, milli int64, err error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, int64(runtime.NumCPU()) * 1000, err
		}
	}
	return 0, 0, fmt.Errorf("read the machine's memory: /proc/meminfo has no MemTotal")
}
