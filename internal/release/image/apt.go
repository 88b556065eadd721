package image

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// AptSource is one place that apt takes packages from. Sources with several URIs or suites are
// split, so each has exactly one of both.
type AptSource struct {
	URI        string
	Suite      string
	Components []string
	// SignedBy is the path of the keyring, empty when the source names none.
	SignedBy string
}

// defaultKeyring is where package debian-archive-keyring puts Debian's keys.
const defaultKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// DebianMirror finds the mirror of the Debian archive in apt's configuration folder (/etc/apt). The
// mirror of the machine is used, because it is the one known to be reachable from it. The result
// has the URI and the keyring; its suite is the machine's, which the caller replaces.
func DebianMirror(aptDir string) (AptSource, error) {
	sources, err := readAptSources(aptDir)
	if err != nil {
		return AptSource{}, err
	}
	for _, s := range sources {
		if !isDebianArchive(s) {
			continue
		}
		if s.SignedBy == "" {
			s.SignedBy = defaultKeyring
		}
		return s, nil
	}
	return AptSource{}, fmt.Errorf("no Debian mirror among the %d package sources in %s: "+
		"a source of type deb with component main whose suite is a Debian release is needed", len(sources), aptDir)
}

// isDebianArchive tells the main archive from others: those for security and updates have their
// own suites and do not carry sid, and other vendors' do not have the component main together with a
// path named debian.
func isDebianArchive(s AptSource) bool {
	u, err := url.Parse(s.URI)
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "http", "https", "file":
	default:
		return false
	}
	for _, partial := range []string{"-security", "-updates", "-backports", "/updates"} {
		if strings.Contains(s.Suite, partial) {
			return false
		}
	}
	return slices.Contains(s.Components, "main") &&
		strings.Contains(u.Host+u.Path, "debian") && !strings.Contains(u.Path, "debian-security")
}

// readAptSources reads sources.list and sources.list.d/*.{list,sources} in apt's own order.
func readAptSources(aptDir string) ([]AptSource, error) {
	files := []string{filepath.Join(aptDir, "sources.list")}
	parts, err := os.ReadDir(filepath.Join(aptDir, "sources.list.d"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list apt's sources: %w", err)
	}
	for _, p := range parts {
		files = append(files, filepath.Join(aptDir, "sources.list.d", p.Name()))
	}
	var all []AptSource
	for _, f := range files {
		var parse func(string) []AptSource
		switch filepath.Ext(f) {
		case ".list":
			parse = parseOneLine
		case ".sources":
			parse = parseDeb822
		default:
			continue
		}
		text, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read apt's sources: %w", err)
		}
		all = append(all, parse(string(text))...)
	}
	return all, nil
}

// parseOneLine reads the older format: "deb [option=value …] URI suite component…".
func parseOneLine(text string) []AptSource {
	var out []AptSource
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		rest, isDeb := strings.CutPrefix(strings.TrimSpace(line), "deb ")
		if !isDeb {
			continue
		}
		var source AptSource
		rest = strings.TrimSpace(rest)
		if options, after, found := strings.Cut(rest, "]"); found && strings.HasPrefix(options, "[") {
			rest = after
			for option := range strings.FieldsSeq(options[1:]) {
				if value, ok := strings.CutPrefix(option, "signed-by="); ok {
					source.SignedBy = keyringPath(value)
				}
			}
		}
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			continue
		}
		source.URI, source.Suite, source.Components = fields[0], fields[1], fields[2:]
		out = append(out, source)
	}
	return out
}

// parseDeb822 reads the newer format: paragraphs of "Field: value", a value going on in lines that
// begin with a blank.
func parseDeb822(text string) []AptSource {
	var out []AptSource
	fields := map[string]string{}
	last := ""
	flush := func() {
		out = append(out, sourcesOf(fields)...)
		fields, last = map[string]string{}, ""
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			flush()
		case line[0] == ' ' || line[0] == '\t':
			fields[last] += "\n" + strings.TrimSpace(line)
		default:
			name, value, _ := strings.Cut(line, ":")
			last = strings.ToLower(name)
			fields[last] = strings.TrimSpace(value)
		}
	}
	flush()
	return out
}

func sourcesOf(fields map[string]string) []AptSource {
	if !slices.Contains(strings.Fields(fields["types"]), "deb") || strings.EqualFold(fields["enabled"], "no") {
		return nil
	}
	var out []AptSource
	for uri := range strings.FieldsSeq(fields["uris"]) {
		for suite := range strings.FieldsSeq(fields["suites"]) {
			out = append(out, AptSource{
				URI: uri, Suite: suite, Components: strings.Fields(fields["components"]),
				SignedBy: keyringPath(fields["signed-by"]),
			})
		}
	}
	return out
}

// keyringPath returns the first keyring of a Signed-By value, empty when the value holds
// fingerprints or the key itself instead of a path.
func keyringPath(value string) string {
	if strings.Contains(value, "BEGIN PGP") {
		return ""
	}
	for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		if strings.HasPrefix(part, "/") {
			return part
		}
	}
	return ""
}
