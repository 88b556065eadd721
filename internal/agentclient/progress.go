package agentclient

import (
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// withoutProgress copies a document and takes out what moves with each commit or with time. Errors of a receiver that
// goes on trying carry counters in their texts: their numbers stay, their texts go.
func withoutProgress(st *agentapi.Status) agentapi.Status {
	out := *st
	out.Sequence = 0
	if st.Operation != nil {
		op := *st.Operation
		op.Progress = ""
		out.Operation = &op
	}
	if st.Server == nil {
		return out
	}
	server := *st.Server
	server.GTIDExecuted, server.GTIDPurged = gtid.Set{}, gtid.Set{}
	server.SemiSync.WaitSessions = 0
	if server.Replication != nil {
		repl := *server.Replication
		repl.Received = gtid.Set{}
		repl.LastHeard = time.Time{}
		repl.LagSeconds = nil
		if repl.Receiver != "OFF" {
			repl.ReceiverError = ""
		}
		server.Replication = &repl
	}
	out.Server = &server
	return out
}
