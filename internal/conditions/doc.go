// Package conditions turns what was observed of a cluster into its status: phase and conditions. It is pure; the time of
// a transition is an argument.
package conditions
