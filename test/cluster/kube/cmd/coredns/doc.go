// Command coredns is CoreDNS with only the plugins that a cluster's DNS needs. Compiling in all of them would take several times as
// long and bring in the client libraries of every cloud.
package main
