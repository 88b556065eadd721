package plugin

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// style is how a piece of text looks on a terminal.
type style string

const (
	plain  style = ""
	bold   style = "\x1b[1m"
	faint  style = "\x1b[2m"
	red    style = "\x1b[31m"
	green  style = "\x1b[32m"
	yellow style = "\x1b[33m"
	cyan   style = "\x1b[36m"
	reset        = "\x1b[0m"
)

// Values of --color.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// wantsColor decides by the flag; auto means a terminal, unless NO_COLOR or TERM=dumb say otherwise (no-color.org).
func wantsColor(flag string, out io.Writer, getenv func(string) string) bool {
	switch flag {
	case ColorAlways:
		return true
	case ColorNever:
		return false
	}
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && isTerminal(out)
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func isTerminalInput(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// clean makes text from the cluster safe for a terminal: control characters, escape sequences among them, and
// characters that turn the direction of writing become visible or blank.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\r':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == utf8.RuneError:
			return '\uFFFD'
		}
		return r
	}, text)
}

// page collects what is printed; its writes to memory cannot fail.
type page struct {
	strings.Builder
	color bool
}

// paint returns the cleaned text in a style.
func (p *page) paint(s style, text string) string {
	text = clean(text)
	if !p.color || s == plain || text == "" {
		return text
	}
	return string(s) + text + reset
}

func (p *page) linef(format string, args ...any) {
	fmt.Fprintf(p, format+"\n", args...)
}

// cell is one cell of a table. Pieces are painted one by one, so that a tree's branches stay plain.
type cell struct {
	text  string
	style style
	// prefix is printed plain before the text.
	prefix string
}

func (c cell) width() int { return utf8.RuneCountInString(clean(c.prefix) + clean(c.text)) }

// table prints rows in columns as wide as their widest cell; the last cell of a row is not padded.
func (p *page) table(indent string, rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], c.width())
		}
	}
	for _, row := range rows {
		line := indent
		for i, c := range row {
			line += clean(c.prefix) + p.paint(c.style, c.text)
			if i < len(row)-1 {
				line += strings.Repeat(" ", widths[i]-c.width()+2)
			}
		}
		p.linef("%s", strings.TrimRight(line, " "))
	}
}
