package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/porpoise-dev/porpoise/test/env"
)

// operatorUser is who the operator is to the API server.
const operatorUser = "system:serviceaccount:" + env.OperatorNamespace + ":porpoise-manager"

// auditEvent is what matters of a line of the audit log.
type auditEvent struct {
	Stage string `json:"stage"`
	Verb  string `json:"verb"`
	User  struct {
		Username string `json:"username"`
		Groups   []string
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Received time.Time `json:"requestReceivedTimestamp"`
}

// auditCount are the writes in a window of time.
type auditCount struct {
	// operator writes, apart from the others below, by "verb resource".
	operator map[string]int
	// leases are the operator's renewals; reviews are about the token that the measurement shows to read metrics.
	leases, reviews int
	// others are writes of the control plane and nodes in the measured namespace, by "user: verb resource".
	others map[string]int
	// last is the newest event of all.
	last time.Time
}

var writeVerbs = []string{"create", "update", "patch", "delete", "deletecollection"}

// countAudit counts the writes of lines of an audit log with begin ≤ time < end. The administrator's do not count: that is
// the measurement itself.
func (c *auditCount) read(r io.Reader, begin, end time.Time) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // What has no end of line yet is being written.
		}
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		if e.Received.After(c.last) {
			c.last = e.Received
		}
		if e.Received.Before(begin) || !e.Received.Before(end) || !slices.Contains(writeVerbs, e.Verb) || e.Stage == "ResponseStarted" {
			continue
		}
		c.add(e)
	}
}

func (c *auditCount) add(e auditEvent) {
	what := e.Verb + " " + e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		what += "/" + e.ObjectRef.Subresource
	}
	switch {
	case e.User.Username == operatorUser && e.ObjectRef.Resource == "leases":
		c.leases++
	case e.User.Username == operatorUser && strings.HasSuffix(e.ObjectRef.Resource, "reviews"):
		c.reviews++
	case e.User.Username == operatorUser:
		c.operator[what]++
	case e.ObjectRef.Namespace == benchNamespace && !slices.Contains(e.User.Groups, "system:masters") && e.ObjectRef.Subresource != "portforward":
		c.others[e.User.Username+": "+what]++
	}
}

// countAudit reads the log of the local cluster, the rotated file too.
func countAudit(logs string, begin, end time.Time) (*auditCount, error) {
	c := &auditCount{operator: map[string]int{}, others: map[string]int{}}
	paths, err := filepath.Glob(filepath.Join(logs, "audit*.log"))
	if err != nil {
		return nil, fmt.Errorf("find the audit log: %w", err)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("find the audit log: %w", &fs.PathError{Op: "open", Path: filepath.Join(logs, "audit.log"), Err: fs.ErrNotExist})
	}
	for _, path := range paths {
		if err := readFile(path, func(r io.Reader) error { return c.read(r, begin, end) }); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func readFile(path string, read func(io.Reader) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	return read(file)
}

// sum adds counts up.
func sum(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// listing names what was counted, the most frequent first.
func listing(counts map[string]int) string {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := counts[b] - counts[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s ×%d", name, counts[name])
	}
	return strings.Join(names, ", ")
}
