package agent

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Install copies the running binary to dest/agent (or to dest itself, where that is no directory), executable for all, so
// that another image can run it. The copy appears as a whole.
func Install(dest string) (path string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the running binary: %w", err)
	}
	path = dest
	if info, err := os.Stat(dest); err == nil && info.IsDir() {
		path = filepath.Join(dest, "agent")
	}
	in, err := os.Open(self)
	if err != nil {
		return "", fmt.Errorf("open the running binary: %w", err)
	}
	defer func() { _ = in.Close() }()
	tmp, err := os.CreateTemp(filepath.Dir(path), ".agent.*")
	if err != nil {
		return "", fmt.Errorf("install the agent: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if _, err := io.Copy(tmp, in); err != nil {
		return "", fmt.Errorf("copy the agent to %s: %w", path, err)
	}
	if err := tmp.Chmod(0o755); err != nil {
		return "", fmt.Errorf("make %s executable: %w", path, err)
	}
	if err := tmp.Close(); err != nil {
		return "", fmt.Errorf("copy the agent to %s: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return "", fmt.Errorf("install the agent: %w", err)
	}
	return path, nil
}
