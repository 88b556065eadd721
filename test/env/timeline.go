package env

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Timeline prints what happens, when, and how long it took. On a terminal the step that runs shows its state in a line
// that is written over; elsewhere it is printed again when it changed, at most every few seconds.
type Timeline struct {
	mu       sync.Mutex
	out      io.Writer
	start    time.Time
	terminal bool
	// transient is the text of the line that will be written over.
	transient string
}

// plainInterval is the least time between two progress lines of a step where there is no terminal.
const plainInterval = 5 * time.Second

// NewTimeline starts the clock. A nil out prints nothing.
func NewTimeline(out io.Writer) *Timeline {
	if out == nil {
		out = io.Discard
	}
	file, ok := out.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return &Timeline{out: out, start: time.Now(), terminal: terminal}
}

// Elapsed since the timeline began.
func (t *Timeline) Elapsed() time.Duration { return time.Since(t.start) }

// Section prints a headline.
func (t *Timeline) Section(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	fmt.Fprintf(t.out, "\n%s\n", t.paint("1", fmt.Sprintf(format, args...)))
}

// Note prints a line without a mark.
func (t *Timeline) Note(format string, args ...any) { t.line(" ", "2", fmt.Sprintf(format, args...)) }

// Begin starts a step; end it with Done or Fail.
func (t *Timeline) Begin(format string, args ...any) *Step {
	s := &Step{timeline: t, what: fmt.Sprintf(format, args...), start: time.Now()}
	if t.terminal {
		s.Update("")
	} else {
		t.line("…", "", s.what)
	}
	return s
}

// Step is something that takes time.
type Step struct {
	timeline *Timeline
	what     string
	start    time.Time

	mu      sync.Mutex
	last    string
	printed time.Time
	ended   bool
}

// Update shows how far the step is.
func (s *Step) Update(state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state = oneLine(state)
	t := s.timeline
	if s.ended {
		return
	}
	if t.terminal {
		t.showTransient(s.text(state))
		return
	}
	if state == s.last || time.Since(s.printed) < plainInterval {
		return
	}
	s.last, s.printed = state, time.Now()
	t.line("…", "2", s.text(state))
}

func (s *Step) text(state string) string {
	text := fmt.Sprintf("%s (%s)", s.what, seconds(time.Since(s.start)))
	if state != "" {
		text += ": " + state
	}
	return text
}

// Done ends the step well.
func (s *Step) Done(format string, args ...any) {
	if s.end() {
		s.timeline.line("✓", "32", s.text(oneLine(fmt.Sprintf(format, args...))))
	}
}

// Fail ends the step with an error, which it returns.
func (s *Step) Fail(err error) error {
	if s.end() {
		s.timeline.line("✗", "31", s.text("failed"))
	}
	return err
}

func (s *Step) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.ended
	s.ended = true
	return !ended
}

func (t *Timeline) line(mark, color, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	fmt.Fprintf(t.out, "%s %s %s\n", t.paint("2", fmt.Sprintf("%7s", seconds(time.Since(t.start)))), t.paint(color, mark), text)
}

func (t *Timeline) showTransient(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text = fmt.Sprintf("%7s … %s", seconds(time.Since(t.start)), text)
	if width := t.width(); len([]rune(text)) >= width {
		text = string([]rune(text)[:width-1])
	}
	if text == t.transient {
		return
	}
	t.clear()
	fmt.Fprint(t.out, text)
	t.transient = text
}

// clear removes the line that is to be written over.
func (t *Timeline) clear() {
	if t.transient != "" {
		fmt.Fprint(t.out, "\r\x1b[K")
		t.transient = ""
	}
}

func (t *Timeline) width() int {
	if file, ok := t.out.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 10 {
			return width
		}
	}
	return 80
}

func (t *Timeline) paint(code, text string) string {
	if !t.terminal || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
