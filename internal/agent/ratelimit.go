package agent

import (
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// complaintEvery is how often one kind of complaint is logged; the rest is counted.
const complaintEvery = time.Minute

// maxComplaints bounds the kinds remembered.
const maxComplaints = 256

// complaints logs what others cause (bad requests, failed handshakes) once per kind and minute, so that nobody can fill
// the log from outside.
type complaints struct {
	logger logr.Logger

	mu    sync.Mutex
	kinds map[string]*complaint
}

type complaint struct {
	last       time.Time
	suppressed int
}

func newComplaints(log logr.Logger) *complaints {
	return &complaints{logger: log, kinds: map[string]*complaint{}}
}

func (c *complaints) log(kind, message string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kinds) >= maxComplaints {
		clear(c.kinds)
	}
	k := c.kinds[kind]
	if k == nil {
		k = &complaint{}
		c.kinds[kind] = k
	}
	if time.Since(k.last) < complaintEvery {
		k.suppressed++
		return
	}
	c.logger.Info(message, "error", err.Error(), "suppressed", k.suppressed)
	k.last, k.suppressed = time.Now(), 0
}

var addresses = regexp.MustCompile(`(\[[0-9a-fA-F:.%]+\]|\d+\.\d+\.\d+\.\d+):\d+`)

// Write takes the lines of net/http's error log; a line without addresses is its kind.
func (c *complaints) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	c.log(addresses.ReplaceAllString(text, "ADDRESS"), "HTTPS", textError(text))
	return len(p), nil
}

type textError string

func (e textError) Error() string { return string(e) }
