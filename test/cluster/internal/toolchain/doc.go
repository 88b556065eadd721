// Package toolchain provides what a cluster runs: Debian packages, and programs and images built from Go modules and cached.
//
// The cache lies outside of the work tree (${PORPOISE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/porpoise}/cluster/KEY) and its key
// covers everything that decides the result: the versions, every file of the module test/cluster/kube, the compiler and the flags.
// A directory with the key's name appears only when it is complete, so an interrupted build is never used.
package toolchain
