package desired

import (
	"strings"
	"testing"
	"time"
)

func TestParseSwitchover(t *testing.T) {
	for value, to := range map[string]string{
		"orders-1":                             "orders-1",
		"orders-9@2026-05-01T12:00:00Z":        "orders-9", // It may exist one day: the topology lane refuses it today.
		"any":                                  "",
		"any@release 7":                        "",
		"orders-0@a@b":                         "orders-0",
		"orders-0@" + strings.Repeat("ä", 119): "orders-0",
	} {
		got, err := ParseSwitchover("orders", value)
		if err != nil || got.ID != value || got.To != to {
			t.Errorf("%q: %+v, %v; want to %q", value, got, err, to)
		}
	}
	for value, want := range map[string]string{
		"":                                `"": is empty`,
		"@x":                              `"" is no instance of this cluster`,
		"other-1":                         `"other-1": "other-1" is no instance of this cluster`,
		"orders-01":                       "is no instance",
		"Any":                             `"Any" is no instance`,
		"any@\x1b[2J":                     "cannot be printed",
		"any@\n":                          "cannot be printed",
		"any@" + strings.Repeat("x", 125): "has 129 characters",
	} {
		_, err := ParseSwitchover("orders", value)
		if err == nil {
			t.Errorf("%q is accepted", value)
			continue
		}
		for _, part := range []string{"annotation porpoise.dev/switchover", want, "allowed is TO or TO@ANYTHING in at most 128 characters, where TO is an instance such as orders-0 or \"any\""} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %q lacks %q", value, err, part)
			}
		}
		if strings.ContainsAny(err.Error(), "\x1b\n") || len(err.Error()) > 1000 {
			t.Errorf("%q: the error shows it raw: %q", value, err)
		}
	}
}

func TestParseAcceptDataLoss(t *testing.T) {
	got, err := ParseAcceptDataLoss("ann@example.org@2026-05-01T14:00:00.7+02:00")
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC); got.By != "ann@example.org" || !got.At.Time.Equal(want) || got.ID != "ann@example.org@2026-05-01T14:00:00.7+02:00" {
		t.Errorf("got %+v", got)
	}
	for value, want := range map[string]string{
		"":                             "is empty",
		"yes":                          `"yes": does not say who`,
		"@2026-05-01T12:00:00Z":        "does not say who",
		"ann@today":                    `"today" is not a time`,
		"ann@2026-05-01":               `"2026-05-01" is not a time`,
		"ann@2026-13-01T12:00:00Z":     "is not a time",
		"a\x00nn@2026-05-01T12:00:00Z": "cannot be printed",
		strings.Repeat("a", 300) + "@2026-05-01T12:00:00Z": "has 321 characters",
	} {
		_, err := ParseAcceptDataLoss(value)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "annotation porpoise.dev/accept-data-loss") || !strings.Contains(err.Error(), "allowed is WHO@TIME") {
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
}
