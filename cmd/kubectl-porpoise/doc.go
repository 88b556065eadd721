// Command kubectl-porpoise is the person's tool: with it on PATH, `kubectl porpoise status orders` shows a MySQL
// cluster's topology, lag, conditions and last events. The work is done by internal/plugin.
package main
