package mycnf

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOwnedOptionsAreDocumented: who writes a configuration must be able to look up what is refused, and why.
func TestOwnedOptionsAreDocumented(t *testing.T) {
	const page, title = "../../docs/using.md", "\n## Options that belong to the operator\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), title)
	if !found {
		t.Fatalf("%s has no section %q", page, strings.TrimSpace(title))
	}
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, name := range regexp.MustCompile("`[^`]+`").FindAllString(cells[2], -1) {
			listed[strings.Trim(name, "`")] = strings.TrimSpace(cells[1])
		}
	}
	options := OwnedOptions()
	for _, option := range options {
		why := owned[option]
		if prefix, family := strings.CutSuffix(option, "*"); family {
			why = ownedPrefixes[prefix]
		}
		if got := listed[option]; got != why {
			t.Errorf("%s gives %q as the reason why %s is owned, want %q", page, got, option, why)
		}
	}
	for option := range listed {
		if !slices.Contains(options, option) {
			t.Errorf("%s lists %s, which is not owned", page, option)
		}
	}
}
