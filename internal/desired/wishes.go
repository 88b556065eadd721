package desired

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// MaxWish is how many characters an annotation that asks for something may have: the whole of it is the request's id.
const MaxWish = 128

// ParseSwitchover reads the value of naming.AnnotationSwitchover. An instance that does not exist now is the topology lane's
// to refuse, which knows them; a name that no instance can have is an error, which names annotation, value and what is
// allowed.
func ParseSwitchover(cluster, value string) (*v1.SwitchoverRequest, error) {
	to, _, _ := strings.Cut(value, "@")
	problem := wishProblem(value)
	if problem == "" && to != naming.SwitchoverToAny {
		if _, err := naming.Ordinal(cluster, to); err != nil {
			problem = fmt.Sprintf("%q is no instance of this cluster", to)
		}
	}
	if problem != "" {
		return nil, fmt.Errorf("annotation %s: %q: %s; allowed is TO or TO@ANYTHING in at most %d characters, where TO is an instance such as %s or %q for the best one",
			naming.AnnotationSwitchover, shown(value), problem, MaxWish, naming.Instance(cluster, 0), naming.SwitchoverToAny)
	}
	if to == naming.SwitchoverToAny {
		to = ""
	}
	return &v1.SwitchoverRequest{ID: value, To: to}, nil
}

// ParseAcceptDataLoss reads the value of naming.AnnotationAcceptDataLoss. The name may contain an @, the time cannot. Its
// error names annotation, value and what is allowed.
func ParseAcceptDataLoss(value string) (*v1.DataLossAcceptance, error) {
	at := strings.LastIndex(value, "@")
	problem := wishProblem(value)
	var when time.Time
	switch {
	case problem != "":
	case at < 0 || strings.TrimSpace(value[:at]) == "":
		problem = "does not say who"
	default:
		var err error
		if when, err = time.Parse(time.RFC3339, value[at+1:]); err != nil {
			problem = fmt.Sprintf("%q is not a time", value[at+1:])
		}
	}
	if problem != "" {
		return nil, fmt.Errorf("annotation %s: %q: %s; allowed is WHO@TIME in at most %d characters, with the time as in 2026-05-01T12:00:00Z",
			naming.AnnotationAcceptDataLoss, shown(value), problem, MaxWish)
	}
	return &v1.DataLossAcceptance{ID: value, By: value[:at], At: metav1.NewTime(when.UTC().Truncate(time.Second))}, nil
}

func wishProblem(value string) string {
	switch {
	case value == "":
		return "is empty"
	case utf8.RuneCountInString(value) > MaxWish:
		return fmt.Sprintf("has %d characters", utf8.RuneCountInString(value))
	case strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "contains a character that cannot be printed"
	}
	return ""
}

// shown is a value as an error quotes it: an annotation may be as long as 256 KiB.
func shown(value string) string {
	if runes := []rune(value); len(runes) > MaxWish {
		return string(runes[:MaxWish]) + "…"
	}
	return value
}

// Failover is what the cluster lane tells the topology lane about failovers.
func Failover(spec v1.FailoverSpec) v1.TopologyFailover {
	return v1.TopologyFailover{
		Manual:       spec.Mode == v1.FailoverManual,
		HoldErrant:   spec.ErrantTransactions == v1.ErrantHold,
		MaxFailovers: spec.MaxFailovers,
	}
}
