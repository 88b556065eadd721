package mycnf

import (
	"fmt"
	"strings"
)

// maxName is longer than any option of mysqld.
const maxName = 96

// ParseUser reads an option file of a user. The name says in errors which one. Options stand in the section [mysqld] or
// before any section; other sections and !include are refused, since nothing would read them. The last of two equal
// options wins, as in mysqld.
func ParseUser(name, text string) (Settings, error) {
	if len(text) > MaxText {
		return Settings{}, fmt.Errorf("%s: %d bytes; allowed are %d", name, len(text), MaxText)
	}
	out := Settings{options: map[string]value{}}
	for i, raw := range strings.Split(text, "\n") {
		if err := out.parseLine(strings.TrimSpace(raw)); err != nil {
			return Settings{}, fmt.Errorf("%s: line %d: %w", name, i+1, err)
		}
	}
	return out, nil
}

func (s Settings) parseLine(text string) error {
	switch {
	case text == "" || text[0] == '#' || text[0] == ';':
		return nil
	case text[0] == '!':
		return fmt.Errorf("%q: includes are not supported; list each source in spec.configFrom", text)
	case text[0] == '[':
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return fmt.Errorf("%q: the section has no closing bracket", text)
		}
		if section := strings.TrimSpace(text[1:end]); section != "mysqld" {
			return fmt.Errorf("section [%s]: only [mysqld] is allowed", section)
		}
		return nil
	}
	name, rest, hasValue := strings.Cut(text, "=")
	if !hasValue {
		name, _, _ = strings.Cut(name, "#")
	}
	key, err := canonical(strings.TrimSpace(name))
	if err != nil {
		return err
	}
	if !hasValue {
		s.options[key] = value{bare: true}
		return nil
	}
	v, err := unquote(strings.TrimSpace(rest))
	if err != nil {
		return fmt.Errorf("option %q: %w", key, err)
	}
	if i := strings.IndexFunc(v, notPrintable); i >= 0 {
		return fmt.Errorf("option %q: its value has the control character %q; allowed is one line of text", key, v[i])
	}
	s.options[key] = value{text: v}
	return nil
}

// canonical returns the name with underscores, in lower case.
func canonical(name string) (string, error) {
	key := strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	if key == "" || len(key) > maxName || key[0] < 'a' || key[0] > 'z' {
		return "", fmt.Errorf("option name %q: it must begin with a letter and have 1 to %d characters", name, maxName)
	}
	for _, c := range key {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '.' {
			return "", fmt.Errorf("option name %q: has %q; letters, digits, dashes, underscores and dots are allowed", name, c)
		}
	}
	return key, nil
}

// unquote reads a value as mysqld does: a '#' outside quotes begins a comment, one pair of quotes around the whole is
// taken away, and \b \t \n \r \s \\ \" \' are escapes.
func unquote(text string) (string, error) {
	text = strings.TrimSpace(cutComment(text))
	if n := len(text); n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		text = text[1 : n-1]
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch text[i] {
		case 'b':
			b.WriteByte('\b')
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 's':
			b.WriteByte(' ')
		case '\\', '"', '\'':
			b.WriteByte(text[i])
		default:
			b.WriteByte('\\')
			b.WriteByte(text[i])
		}
	}
	out := b.String()
	if strings.ContainsAny(out, "\n\r\x00") {
		return "", fmt.Errorf("its value has more than one line; allowed is one line of text")
	}
	return out, nil
}

// cutComment cuts at a '#' outside quotes.
func cutComment(text string) string {
	var open byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case open != 0:
			if c == open {
				open = 0
			}
		case c == '"' || c == '\'':
			open = c
		case c == '#':
			return text[:i]
		}
	}
	return text
}
