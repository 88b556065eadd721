package chaos

import (
	"fmt"
	"net"
	"os/exec"
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
