package chaos

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// iptables inserts or deletes a rule. Rules name an address that belongs to one instance of one test alone.
func iptables(action string, rule []string) error {
	out, err := exec.Command("iptables", append([]string{"-w", action}, rule...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables %s %s: %w: %s", action, strings.Join(rule, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// addRule inserts a rule, which is deleted once: by the returned function, or at the end of the test, however it ends.
func (w *World) addRule(rule []string) (remove func() error, err error) {
	if err := iptables("-I", rule); err != nil {
		return nil, err
	}
	remove = sync.OnceValue(func() error { return iptables("-D", rule) })
	w.T.Cleanup(func() {
		if err := remove(); err != nil {
			w.T.Error(err)
		}
	})
	return remove, nil
}

// dropRules deletes rules about an address that a test left which was killed: whoever holds the address now made none yet.
func dropRules(host string) error {
	out, err := exec.Command("iptables", "-w", "-S", "OUTPUT").Output()
	if err != nil {
		return fmt.Errorf("list rules of iptables: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "-A" || !slices.Contains(fields, host+"/32") {
			continue
		}
		if err := iptables("-D", fields[1:]); err != nil {
			return err
		}
	}
	return nil
}

func splitPort(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: %w", address, err)
	}
	port, err = strconv.Atoi(text)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: %w", address, err)
	}
	return host, port, nil
}
