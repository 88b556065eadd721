package mycnf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxText bounds an option file given by a user, in bytes; a ConfigMap holds no more.
const MaxText = 1 << 20

// value of an option: bare options have none ("skip_name_resolve"), which differs from an empty one ("init_connect=").
type value struct {
	text string
	bare bool
}

// Settings are options of the [mysqld] section by canonical name. The zero value is none. Settings do not change once
// made.
type Settings struct {
	options map[string]value
}

// Names returns the canonical names, sorted.
func (s Settings) Names() []string { return slices.Sorted(maps.Keys(s.options)) }

// Get returns the value of an option by its canonical name, and whether it is set. A bare option has the value "".
func (s Settings) Get(name string) (string, bool) {
	v, ok := s.options[name]
	return v.text, ok
}

// has says whether an option is set in any spelling of its own: plain, loose, skip or its like.
func (s Settings) has(name string) bool {
	for key := range s.options {
		if slices.Contains(meanings(key), name) {
			return true
		}
	}
	return false
}

// Merge joins settings; later ones win.
func Merge(all ...Settings) Settings {
	out := Settings{options: map[string]value{}}
	for _, s := range all {
		maps.Copy(out.options, s.options)
	}
	return out
}

// FromMap reads options by name, as in spec.config.
func FromMap(options map[string]string) (Settings, error) {
	out := Settings{options: map[string]value{}}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		key, err := canonical(name)
		if err != nil {
			return Settings{}, err
		}
		if _, twice := out.options[key]; twice {
			return Settings{}, fmt.Errorf("option %q: given twice in different spellings", name)
		}
		text := options[name]
		if i := strings.IndexFunc(text, notPrintable); i >= 0 {
			return Settings{}, fmt.Errorf("option %q: its value has the control character %q; allowed is one line of text", name, text[i])
		}
		out.options[key] = value{text: strings.TrimSpace(text)}
	}
	return out, nil
}

func notPrintable(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// Text renders the settings as an option file: one section, sorted, the same for equal settings. ParseUser reads it back.
func (s Settings) Text() string {
	if len(s.options) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("[mysqld]\n")
	for _, name := range s.Names() {
		b.WriteString(line(name, s.options[name]))
	}
	return b.String()
}

func line(name string, v value) string {
	if v.bare {
		return name + "\n"
	}
	return name + "=" + quote(v.text) + "\n"
}

// quote writes a value so that mysqld reads the same one: its option files know backslash escapes, comments after '#',
// and quotes around the whole value.
func quote(text string) string {
	plain := !strings.ContainsAny(text, "\\#'\"\t\n\r\b") && text == strings.TrimSpace(text)
	if plain {
		return text
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`, "\n", `\n`, "\r", `\r`, "\b", `\b`).Replace(text) + `"`
}
