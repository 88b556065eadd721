package figure

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Figure is one measurement with everything needed to judge and repeat it.
type Figure struct {
	// ID names the file and the section of the document: lower case letters, digits and dashes.
	ID string `json:"id"`
	// Title in a line.
	Title string `json:"title"`
	// Command that measured it, to be given in the root of the work tree.
	Command string `json:"command"`
	// Measured is when it began.
	Measured time.Time `json:"measured"`
	// Version of the operator.
	Version string `json:"version"`
	// Machine that it was measured on.
	Machine Machine `json:"machine"`
	// Target says what is hoped for; empty: nothing.
	Target string `json:"target,omitempty"`
	// Notes say what the reader must know of this very measurement.
	Notes []string `json:"notes,omitempty"`
	// Rows in the order in which they are shown.
	Rows []Row `json:"rows"`
}

// Row is one quantity.
type Row struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Values of each run, in order.
	Values []float64 `json:"values"`
	// Summary of Values, for those who read the JSON.
	Summary Summary `json:"summary"`
}

// Add appends a row.
func (f *Figure) Add(name, unit string, values ...float64) {
	f.Rows = append(f.Rows, Row{Name: name, Unit: unit, Values: values, Summary: Summarize(values)})
}

// Put appends values to the row of a name, which it makes when it is not there.
func (f *Figure) Put(name, unit string, values ...float64) {
	for i := range f.Rows {
		if r := &f.Rows[i]; r.Name == name {
			r.Values = append(r.Values, values...)
			r.Summary = Summarize(r.Values)
			return
		}
	}
	f.Add(name, unit, values...)
}

// Note appends a note.
func (f *Figure) Note(format string, args ...any) {
	f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
}

// Save writes DIR/ID.json and returns its path.
func (f *Figure) Save(dir string) (string, error) {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode figure %s: %w", f.ID, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the folder of figures: %w", err)
	}
	path := filepath.Join(dir, f.ID+".json")
	// A file that is replaced as a whole never shows half a figure.
	if err := os.WriteFile(path+".tmp", append(text, '\n'), 0o644); err != nil {
		return "", fmt.Errorf("write figure %s: %w", f.ID, err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return "", fmt.Errorf("write figure %s: %w", f.ID, err)
	}
	return path, nil
}

// Load reads the figure of an id from a folder.
func Load(dir, id string) (Figure, error) {
	path := filepath.Join(dir, id+".json")
	text, err := os.ReadFile(path)
	if err != nil {
		return Figure{}, fmt.Errorf("read figure %s: %w", id, err)
	}
	var f Figure
	if err := json.Unmarshal(text, &f); err != nil {
		return Figure{}, fmt.Errorf("read figure %s: %w", path, err)
	}
	if f.ID != id {
		return Figure{}, fmt.Errorf("read figure %s: it is called %q", path, f.ID)
	}
	for i := range f.Rows {
		f.Rows[i].Summary = Summarize(f.Rows[i].Values)
	}
	return f, nil
}

// about tells in sentences where the figure comes from.
func (f *Figure) about() []string {
	out := []string{
		"Command: `" + f.Command + "`",
		fmt.Sprintf("Machine: %s", f.Machine),
		fmt.Sprintf("Measured: %s, operator %s", f.Measured.UTC().Format("2006-01-02 15:04 MST"), f.Version),
	}
	if f.Target != "" {
		out = append(out, "Target: "+f.Target)
	}
	for _, note := range f.Notes {
		out = append(out, strings.TrimSpace(note))
	}
	return out
}
