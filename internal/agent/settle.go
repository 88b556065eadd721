package agent

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// rebuildState is a copy that is being made beside the data directory.
type rebuildState struct {
	// Incarnation that the copy will be.
	Incarnation string `json:"incarnation"`
	// MadeBy is the operation that makes it.
	MadeBy string `json:"madeBy"`
}

// becomeRebuilt makes the state tell of the copy: another incarnation, without a role or a past as primary.
func (s *state) becomeRebuilt() {
	s.Incarnation, s.MadeBy, s.Rebuild = s.Rebuild.Incarnation, s.Rebuild.MadeBy, nil
	s.Role = agentapi.RoleNone
	s.WasPrimary, s.Settled, s.CutTail, s.DataError = false, false, "", ""
}

// settleRebuild ends a rebuild that was cut short, by what is on disk: with the copy where it is complete and the old directory
// was moved away already, else with the old one. One of the two is complete at any moment (INV-9).
func settleRebuild(dataDir string, st *state) error {
	if st.Rebuild == nil {
		return nil
	}
	m, err := readMark(dataDir)
	if err != nil {
		return err
	}
	for _, from := range []struct{ suffix, incarnation string }{{newSuffix, st.Rebuild.Incarnation}, {oldSuffix, st.Incarnation}} {
		if m != nil {
			break
		}
		if m, err = moveBack(dataDir, from.suffix, from.incarnation); err != nil {
			return err
		}
	}
	switch {
	case m == nil:
		return fmt.Errorf("neither %s nor what is beside it is a complete data directory, though one was being replaced by a copy", dataDir)
	case m.Incarnation == st.Rebuild.Incarnation:
		st.becomeRebuilt()
	}
	st.Rebuild = nil
	return nil
}

// moveBack makes a directory beside the data directory the data directory, if it is the given incarnation and complete.
func moveBack(dataDir, suffix, incarnation string) (*mark, error) {
	m, err := readMark(dataDir + suffix)
	if err != nil || m == nil || m.Incarnation != incarnation {
		return nil, err
	}
	if err := os.Rename(dataDir+suffix, dataDir); err != nil {
		return nil, fmt.Errorf("put %s in its place: %w", dataDir+suffix, explain(err))
	}
	return m, syncDir(filepath.Dir(dataDir))
}
