package clip

import "strings"

// ellipsis marks a cut.
const ellipsis = "…"

// Text returns the text without invalid UTF-8, cut to at most that many bytes, the mark of a cut included.
func Text(text string, most int) string {
	text = strings.ToValidUTF8(text, "")
	switch {
	case len(text) <= most:
		return text
	case most < len(ellipsis):
		return ""
	}
	return strings.ToValidUTF8(text[:most-len(ellipsis)], "") + ellipsis
}
