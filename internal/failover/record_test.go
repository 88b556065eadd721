package failover_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// TestRecordIsReadBackAsWritten: whatever agents say, the record after a way through JSON equals the decision; else the
// lane would take it for another one and write for ever.
func TestRecordIsReadBackAsWritten(t *testing.T) {
	for name, text := range map[string]string{
		"cut within a rune, 1": strings.Repeat("é", 2000),
		"cut within a rune, 2": "x" + strings.Repeat("é", 2000),
		"three bytes, 1":       strings.Repeat("€", 2000),
		"three bytes, 2":       "x" + strings.Repeat("€", 2000),
		"three bytes, 3":       "xx" + strings.Repeat("€", 2000),
		"no text at all":       strings.Repeat("\xff\xc3", 2000),
		"short and no text":    "caf\xe9",
	} {
		for where, change := range map[string]func(*agentapi.Status){
			"volume": func(st *agentapi.Status) { st.Data.State, st.Data.Error = agentapi.DataUnknown, text },
			"failed": func(st *agentapi.Status) { st.Data.State, st.Data.Error = agentapi.DataFailed, text },
			"exit": func(st *agentapi.Status) {
				st.Process.State, st.Process.LastExit, st.Process.Exits, st.Server = agentapi.ProcessCrashed, text, 1, nil
			},
			"applier": func(st *agentapi.Status) {
				st.Server.Replication.Applier, st.Server.Replication.ApplierErrno, st.Server.Replication.ApplierError = "OFF", 1062, text
			},
			"receiver": func(st *agentapi.Status) {
				st.Server.Replication.Receiver, st.Server.Replication.ReceiverErrno, st.Server.Replication.ReceiverError = "OFF", 13114, text
			},
			"cluster id": func(st *agentapi.Status) { st.ClusterID = text },
			"version":    func(st *agentapi.Status) { st.Process.Version = text },
			"uuid":       func(st *agentapi.Status) { st.Data.ServerUUID = text },
			"primary":    func(st *agentapi.Status) { st.Epoch, st.Primary = st.Epoch+1, text },
		} {
			t.Run(where+"/"+name, func(t *testing.T) {
				s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
				s.settle()
				st, err := s.world.Status("orders-2")
				if err != nil {
					t.Fatal(err)
				}
				change(&st)
				s.manager.Hear(st, s.clock, s.clock)
				d := s.manager.Plan(s.spec, s.record, s.clock)
				data, err := json.Marshal(d.Record)
				if err != nil {
					t.Fatal(err)
				}
				var back v1.MySQLTopologyStatus
				if err := json.Unmarshal(data, &back); err != nil {
					t.Fatal(err)
				}
				if !equality.Semantic.DeepEqual(back, d.Record) {
					t.Errorf("%s: the record read back differs:\n%+v\n%+v", d.Row, d.Record, back)
				}
				if len(data) > 16<<10 {
					t.Errorf("%s: the record has %d bytes", d.Row, len(data))
				}
			})
		}
	}
}
