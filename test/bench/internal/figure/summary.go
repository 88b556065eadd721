package figure

import (
	"math"
	"slices"
	"strconv"
)

// Summary of a row. Its zero value is that of no values.
type Summary struct {
	Runs   int     `json:"runs"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Summarize returns the summary of values. The median of an even number of values is the mean of the middle two. Values
// that are not numbers (no measurement) do not count.
func Summarize(values []float64) Summary {
	sorted := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	n := len(sorted)
	if n == 0 {
		return Summary{}
	}
	slices.Sort(sorted)
	return Summary{Runs: n, Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}

// Number formats a value for a table: whole where it is whole, else with as many digits as help.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case v == math.Trunc(v) && a < 1e15, a >= 1000:
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
}

// Percentile returns the smallest value that at least p of 100 values do not exceed (nearest rank); 0 of none.
func Percentile(values []float64, p int) float64 {
	sorted := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(sorted) == 0 {
		return 0
	}
	slices.Sort(sorted)
	rank := int(math.Ceil(float64(p) / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
