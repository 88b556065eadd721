// Package agentclient talks to agents: one-shot requests, and one watched status stream per instance.
//
// What agents send is not trusted: documents are bounded, one that does not parse or names another instance ends the
// stream, and silence makes what was known unknown. Addresses are pod IPs, certificates are checked for the instance's
// stable host name (naming.Host) and the cluster's own CA.
package agentclient
