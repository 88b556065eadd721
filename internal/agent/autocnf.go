package agent

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// autoCnf is where mysqld keeps its server UUID, and makes one when the file is missing.
const autoCnf = "auto.cnf"

// readServerUUID reads the server's UUID from auto.cnf, where mysqld keeps it; empty: it has none yet.
func readServerUUID(dataDir string) string {
	text, err := os.ReadFile(filepath.Join(dataDir, autoCnf))
	if err != nil {
		return ""
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		if strings.TrimSpace(name) != "server-uuid" {
			continue
		}
		if uuid, err := gtid.ParseUUID(strings.TrimSpace(value)); err == nil {
			return uuid.String()
		}
	}
	return ""
}
