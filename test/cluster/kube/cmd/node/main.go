package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// config is written by the command line tool (internal/render.NodeConfig).
type config struct {
	Hostname string   `json:"hostname"`
	VarLib   string   `json:"varLib"` // directory shown as /var/lib
	VarLog   string   `json:"varLog"` // directory shown as /var/log
	BinDir   string   `json:"binDir"` // directory shown as /var/lib/porpoise/bin
	Daemons  []daemon `json:"daemons"`
}

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	if len(os.Args) != 2 || os.Getpid() != 1 {
		log.Fatal("usage: node CONFIG, as process 1 of new mount, PID, network, UTS and IPC namespaces")
	}
	cfg, err := readConfig(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := prepare(cfg); err != nil {
		log.Fatal(err)
	}
	words := bufio.NewReader(os.Stdin)
	if _, err := words.ReadString('\n'); err != nil {
		log.Fatalf("wait for the network: %v", err)
	}
	if err := forwardPackets(); err != nil {
		log.Fatal(err)
	}
	supervise(cfg.Daemons, func() {
		// Without the word, because the command was interrupted, they start all the same and try until there is an API server.
		_, _ = words.ReadString('\n')
	})
}

func readConfig(path string) (config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return config{}, fmt.Errorf("read config: %w", err)
	}
	var cfg config
	if err := json.Unmarshal(data, &cfg); err != nil {
		return config{}, fmt.Errorf("parse config %s: %w", path, err)
	}
	return cfg, nil
}

// prepare gives the node its own host name, /proc, /run, /var/lib and /var/log. kubelet, containerd and their plugins have paths
// in all of these compiled in, so several nodes would otherwise disturb each other and leave things behind.
func prepare(cfg config) error {
	if err := unix.Sethostname([]byte(cfg.Hostname)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("leave the start directory: %w", err)
	}
	binDir := filepath.Join(cfg.VarLib, "porpoise", "bin")
	if err := os.MkdirAll(binDir, 0o755); err != nil {
		return fmt.Errorf("make bin directory: %w", err)
	}
	steps := []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		// Nothing mounted from here on reaches the machine.
		{"", "/", "", unix.MS_PRIVATE | unix.MS_REC, ""},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		// The order matters: the sources of later steps may lie below the targets of earlier ones.
		{cfg.BinDir, binDir, "", unix.MS_BIND, ""},
		{cfg.VarLog, "/var/log", "", unix.MS_BIND, ""},
		{cfg.VarLib, "/var/lib", "", unix.MS_BIND | unix.MS_REC, ""},
		{"run", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		// Pods that ask for mount propagation need a shared parent.
		{"", "/", "", unix.MS_SHARED | unix.MS_REC, ""},
	}
	for _, s := range steps {
		if err := unix.Mount(s.source, s.target, s.kind, s.flags, s.data); err != nil {
			return fmt.Errorf("mount %q on %s: %w", s.source, s.target, err)
		}
	}
	return nil
}

// forwardPackets turns the node into the router of its pods.
func forwardPackets() error {
	for _, setting := range []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/conf/all/forwarding"} {
		if err := os.WriteFile(setting, []byte("1"), 0o644); err != nil {
			return fmt.Errorf("switch on forwarding: %w", err)
		}
	}
	return nil
}
