// Package version tells which build of Porpoise a program is. The values are set when the program
// is linked (see the Makefile), so that all programs of a build agree.
package version
