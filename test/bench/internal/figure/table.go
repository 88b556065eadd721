package figure

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

var header = []string{"", "median", "min", "max", "unit", "runs"}

// cells are the table of a figure, without its header.
func (f *Figure) cells() [][]string {
	var out [][]string
	for _, r := range f.Rows {
		s := Summarize(r.Values)
		if s.Runs == 0 {
			out = append(out, []string{r.Name, "-", "-", "-", r.Unit, "0"})
			continue
		}
		out = append(out, []string{r.Name, Number(s.Median), Number(s.Min), Number(s.Max), r.Unit, strconv.Itoa(s.Runs)})
	}
	return out
}

// WriteText writes the figure for a terminal.
func (f *Figure) WriteText(w io.Writer) error {
	var b strings.Builder
	b.WriteString("\n" + f.Title + "\n")
	rows := append([][]string{header}, f.cells()...)
	widths := widthsOf(rows)
	for _, row := range rows {
		line := " "
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 || i == len(row)-2 { // Text stands left, numbers right.
				line += " " + cell + gap + " "
			} else {
				line += " " + gap + cell + " "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	for _, line := range f.about() {
		b.WriteString("  " + line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func widthsOf(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// Markdown returns the figure as a section of a document.
func (f *Figure) Markdown() string {
	var b strings.Builder
	b.WriteString("| " + f.Title + " | median | min | max | unit | runs |\n|---|---:|---:|---:|---|---:|\n")
	for _, row := range f.cells() {
		for i, cell := range row {
			row[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	b.WriteString("\n")
	for _, line := range f.about() {
		b.WriteString("- " + line + "\n")
	}
	return b.String()
}
