package clip_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/porpoise-dev/porpoise/internal/clip"
)

func TestText(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""},
		{"short", 5, "short"},
		{"longer", 5, "lo…"},
		{"größer", 6, "gr…"},
		{"größer", 8, "größer"},
		{"bad \xff byte", 40, "bad  byte"},
		{"€€€", 2, ""},
	} {
		if got := clip.Text(test.text, test.most); got != test.want {
			t.Errorf("Text(%q, %d) = %q, want %q", test.text, test.most, got, test.want)
		}
	}
}

// FuzzText: what comes out fits, survives JSON as it is, and is not cut further the second time.
func FuzzText(f *testing.F) {
	f.Add("größer €€", 6)
	f.Add("\xe2\x82", 3)
	f.Add(strings.Repeat("€", 100), 160)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(most, 0)
		got := clip.Text(text, most)
		if len(got) > most || !utf8.ValidString(got) || clip.Text(got, most) != got {
			t.Fatalf("Text(%q, %d) = %q", text, most, got)
		}
		data, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal(data, &back); err != nil || back != got {
			t.Fatalf("JSON makes %q of %q: %v", back, got, err)
		}
	})
}
