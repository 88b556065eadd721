package figure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

// beginMark is the line before what UpdateDocument writes; endMark is the line after it.
var beginMark = regexp.MustCompile(`(?m)^<!-- begin figure ([a-z0-9-]+) -->\n`)

const endMark = "<!-- end figure -->\n"

// UpdateDocument replaces what stands between the marks of a document by the figures in a folder. Sections whose figure
// was not measured stay as they are. It returns the ids of those that it wrote.
func UpdateDocument(path, dir string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	fresh, ids, err := Rewrite(string(text), func(id string) (string, error) {
		f, err := Load(dir, id)
		if err != nil {
			return "", err
		}
		return f.Markdown(), nil
	})
	if err != nil {
		return nil, fmt.Errorf("update %s: %w", path, err)
	}
	if fresh == string(text) {
		return ids, nil
	}
	if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
		return nil, fmt.Errorf("update %s: %w", path, err)
	}
	return ids, nil
}

// Rewrite replaces each marked section by what section returns for its id; one whose error is fs.ErrNotExist stays.
func Rewrite(text string, section func(id string) (string, error)) (fresh string, ids []string, err error) {
	var out strings.Builder
	for {
		at := beginMark.FindStringSubmatchIndex(text)
		if at == nil {
			out.WriteString(text)
			return out.String(), ids, nil
		}
		id, rest := text[at[2]:at[3]], text[at[1]:]
		end := strings.Index(rest, endMark)
		if next := beginMark.FindStringIndex(rest); end < 0 || len(next) > 0 && next[0] < end {
			return "", nil, fmt.Errorf("the section of figure %s has no line %q", id, strings.TrimSpace(endMark))
		}
		old := rest[:end]
		body, err := section(id)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			body = old
		case err != nil:
			return "", nil, err
		default:
			body = "\n" + strings.TrimSpace(body) + "\n\n"
			ids = append(ids, id)
		}
		out.WriteString(text[:at[1]] + body + endMark)
		text = rest[end+len(endMark):]
	}
}
