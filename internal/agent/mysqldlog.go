package agent

import (
	"bufio"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// maxLogLine bounds a line of mysqld's log; longer ones are cut.
const maxLogLine = 64 << 10

// mysqldLog turns mysqld's log into the agent's and remembers the last error.
type mysqldLog struct {
	log logr.Logger

	// ended is closed when the log is read to its end.
	ended chan struct{}

	mu        sync.Mutex
	lastError string
}

func newMysqldLog(log logr.Logger) *mysqldLog {
	return &mysqldLog{log: log.WithName("mysqld"), ended: make(chan struct{})}
}

// copy reads until the process and all that hold its output have ended.
func (m *mysqldLog) copy(from io.Reader) {
	defer close(m.ended)
	reader := bufio.NewReaderSize(from, maxLogLine)
	for {
		text, tooLong, err := reader.ReadLine()
		if len(text) > 0 {
			m.line(string(text))
		}
		for tooLong && err == nil {
			_, tooLong, err = reader.ReadLine()
		}
		if err != nil {
			return
		}
	}
}

// line logs one line: TIME THREAD [LEVEL] [CODE] [PART] MESSAGE.
func (m *mysqldLog) line(text string) {
	level, code, part, message := parseLogLine(text)
	if level == "ERROR" {
		m.mu.Lock()
		m.lastError = strings.TrimSpace(code + " " + message)
		m.mu.Unlock()
	}
	values := []any{"level_mysqld", level, "code", code, "part", part}
	if level == "" {
		values = nil
	}
	m.log.Info(message, values...)
}

// last returns the last error, after waiting a little for the log's end.
func (m *mysqldLog) last(patience time.Duration) string {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-m.ended:
	case <-timer.C:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastError
}

// parseLogLine splits a line of the server's log; what is not of that form is all message.
func parseLogLine(text string) (level, code, part, message string) {
	fields := strings.SplitN(text, " ", 3)
	if len(fields) < 3 || !strings.Contains(fields[0], "T") {
		return "", "", "", text
	}
	rest := fields[2]
	var found [3]string
	for i := range found {
		inner, ok := strings.CutPrefix(rest, "[")
		end := strings.IndexByte(inner, ']')
		if !ok || end < 0 {
			return "", "", "", text
		}
		found[i], rest = inner[:end], strings.TrimPrefix(inner[end+1:], " ")
	}
	return strings.ToUpper(found[0]), found[1], found[2], rest
}
