package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

const (
	stateFile   = "state.json"
	stateFormat = 1
	// markFile in a data directory says which incarnation it is. It is written last, so a directory with it is complete.
	markFile = "porpoise.json"
	// newSuffix names a directory that is being made, oldSuffix one that is being replaced by it.
	newSuffix = ".new"
	oldSuffix = ".old"
)

// state is what the agent must never forget (INV-3).
type state struct {
	Format    int              `json:"format"`
	ClusterID string           `json:"clusterID,omitempty"`
	Epoch     int64            `json:"epoch"`
	Role      agentapi.Role    `json:"role,omitempty"`
	Primary   *agentapi.Peer   `json:"primary,omitempty"`
	Quorum    *agentapi.Quorum `json:"quorum,omitempty"`
	// PrimaryEpoch is the epoch in which Primary was named.
	PrimaryEpoch int64 `json:"primaryEpoch,omitempty"`

	Data        agentapi.DataState `json:"data"`
	DataError   string             `json:"dataError,omitempty"`
	Incarnation string             `json:"incarnation,omitempty"`
	// Fenced is the epoch of the Fence since which nothing is received; 0: none is in force.
	Fenced int64 `json:"fenced,omitempty"`
	// WasPrimary and CutTail are as in agentapi.DataStatus.
	WasPrimary bool   `json:"wasPrimary,omitempty"`
	CutTail    string `json:"cutTail,omitempty"`
	// Settled is true when the former primary was made read-only with nothing waiting for acknowledgement: all that its binary
	// log holds was acknowledged, so there is nothing to cut off.
	Settled bool `json:"settled,omitempty"`
	// MadeBy is the operation that made the data directory.
	MadeBy string `json:"madeBy,omitempty"`
	// Quarantined is as in agentapi.DataStatus.
	Quarantined string `json:"quarantined,omitempty"`
	// Rebuild is the copy that is made beside the data directory, of which all else here tells; nil: none is.
	Rebuild *rebuildState `json:"rebuild,omitempty"`

	// AccountsSalt and AccountsHash tell whether the mounted accounts are applied already.
	AccountsSalt string `json:"accountsSalt,omitempty"`
	AccountsHash string `json:"accountsHash,omitempty"`
}

// primaryNow is the primary of the present epoch; nil: nobody was named, as in an epoch of fencing.
func (s state) primaryNow() *agentapi.Peer {
	if s.PrimaryEpoch != s.Epoch {
		return nil
	}
	return s.Primary
}

// mark is the content of markFile.
type mark struct {
	ClusterID   string `json:"clusterID"`
	Incarnation string `json:"incarnation"`
}

// stateStore keeps the state on disk and in memory. All changes go through update.
type stateStore struct {
	dir, dataDir string

	mu     sync.Mutex
	loaded bool
	now    state
}

func newStateStore(dir, dataDir string) *stateStore { return &stateStore{dir: dir, dataDir: dataDir} }

// load reads the state and compares it with the data directory. It fails, and will again until the cause is gone, when
// the file cannot be read or does not belong to the data: starting afresh could forget an epoch or wipe data.
func (s *stateStore) load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", explain(err))
	}
	st, err := s.read()
	if err != nil {
		return err
	}
	before := st.Data
	// A state written before the flag existed: whoever holds the role may have written.
	st.WasPrimary = st.WasPrimary || st.Role == agentapi.RolePrimary
	if st.Primary != nil && st.PrimaryEpoch == 0 {
		st.PrimaryEpoch = st.Epoch
	}
	if err := s.reconcile(&st); err != nil {
		return err
	}
	// Written in any case: a volume on which the state cannot be written must be noticed before it is needed.
	if err := s.write(st); err != nil {
		return fmt.Errorf("write the agent's state (data was %s): %w", before, err)
	}
	s.now, s.loaded = st, true
	return nil
}

func (s *stateStore) read() (state, error) {
	path := filepath.Join(s.dir, stateFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		empty, err := isEmptyDir(s.dataDir)
		if err != nil {
			return state{}, fmt.Errorf("look at the data directory: %w", explain(err))
		}
		if kept, err := readMark(s.dataDir + oldSuffix); err != nil || kept != nil {
			return state{}, errors.Join(err, fmt.Errorf("%s is missing though %s holds data: restore the file, or move the data away to start with an empty volume", path, s.dataDir+oldSuffix))
		}
		if !empty {
			return state{}, fmt.Errorf("%s is missing though %s holds data: which epoch it knows is lost; restore the file, or move the data away to start with an empty volume", path, s.dataDir)
		}
		return state{Format: stateFormat, Data: agentapi.DataEmpty}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("read the agent's state: %w", explain(err))
	}
	var st state
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&st); err != nil {
		return state{}, fmt.Errorf("the agent's state %s is damaged (%w): restore the file; nothing is done until then", path, err)
	}
	if st.Format != stateFormat || st.Data == "" {
		return state{}, fmt.Errorf("the agent's state %s has format %d, this agent knows %d: nothing is done", path, st.Format, stateFormat)
	}
	return st, nil
}

// reconcile settles what a kill in the middle of making a data directory left behind.
func (s *stateStore) reconcile(st *state) error {
	if err := settleRebuild(s.dataDir, st); err != nil {
		return err
	}
	m, err := readMark(s.dataDir)
	if err != nil {
		return err
	}
	switch {
	case m != nil && m.Incarnation == st.Incarnation && m.ClusterID == st.ClusterID:
		// Complete: the kill came between the directory and the state.
		st.Data, st.DataError = agentapi.DataReady, ""
	case m != nil:
		return fmt.Errorf("%s holds incarnation %s of cluster %s, but the agent's state says incarnation %q of cluster %q: nothing is done until they agree",
			s.dataDir, m.Incarnation, m.ClusterID, st.Incarnation, st.ClusterID)
	case st.Data == agentapi.DataReady:
		return fmt.Errorf("%s should hold incarnation %s but has no %s: the data is missing or is not the operator's", s.dataDir, st.Incarnation, markFile)
	case st.Data == agentapi.DataInitializing || st.Data == agentapi.DataCloning:
		st.DataError = fmt.Sprintf("the agent ended while the data directory was %s", st.Data)
		st.Data = agentapi.DataFailed
	}
	if st.Data == agentapi.DataEmpty {
		empty, err := isEmptyDir(s.dataDir)
		if err != nil {
			return fmt.Errorf("look at the data directory: %w", explain(err))
		}
		if !empty {
			return fmt.Errorf("%s holds files though the agent's state says that it was never made: move them away", s.dataDir)
		}
	}
	return nil
}

func readMark(dataDir string) (*mark, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, markFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the data directory's mark: %w", explain(err))
	}
	m := &mark{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("the data directory's mark in %s is damaged: %w", dataDir, err)
	}
	return m, nil
}

func writeMark(dataDir string, m mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the data directory's mark: %w", err)
	}
	if err := writeDurable(filepath.Join(dataDir, markFile), text); err != nil {
		return fmt.Errorf("write the data directory's mark: %w", err)
	}
	return nil
}

// get returns the state. Its pointers are shared and never written through.
func (s *stateStore) get() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// ready says whether the state could be loaded.
func (s *stateStore) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded
}

// update changes the state; when it returns without error the change is on disk. On an error nothing has changed.
func (s *stateStore) update(change func(*state)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded {
		return errors.New("the agent's state is not loaded")
	}
	next := s.now
	change(&next)
	if err := s.write(next); err != nil {
		return fmt.Errorf("write the agent's state: %w", err)
	}
	s.now = next
	return nil
}

func (s *stateStore) write(st state) error {
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	return writeDurable(filepath.Join(s.dir, stateFile), append(text, '\n'))
}
