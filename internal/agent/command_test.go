package agent

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

const anUUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

func TestDecodeCommand(t *testing.T) {
	good := `{"clusterID":"c","epoch":1,"operationID":"o","type":"Follow","primary":{"instance":"db-1","host":"h","port":3306}}`
	if cmd, err := decodeCommand(strings.NewReader(good)); err != nil || cmd.Primary.Host != "h" {
		t.Fatalf("%+v, %v", cmd, err)
	}
	for body, names := range map[string]string{
		``:                                                               "decode",
		good + good:                                                      "follows",
		strings.Replace(good, `"h"`, `""`, 1):                            "primary",
		strings.Replace(good, "3306", "0", 1):                            "primary.port: 0",
		strings.Replace(good, `"o"`, `""`, 1):                            "operationID",
		strings.Replace(good, `:1,`, `:-1,`, 1):                          "epoch: -1",
		strings.Replace(good, "Follow", "Fly", 1):                        "Fly",
		strings.Replace(good, "Follow", "Clone", 1):                      "donor",
		strings.Replace(good, "Follow", "Promote", 1):                    "quorum",
		strings.Replace(good, `"type"`, `"kind"`, 1):                     "kind",
		strings.Replace(good, `"c"`, `"`+strings.Repeat("c", 65)+`"`, 1): "clusterID",
		strings.Replace(good, `"primary"`, `"quorum":{"generation":1,"requiredAcks":1},"primary"`, 1):                          "requiredAcks: 1",
		strings.Replace(good, `"primary"`, `"quorum":{"generation":1,"members":[{"name":"a","serverUUID":"x"}]},"primary"`, 1): "members[0]",
		strings.Repeat(" ", agentapi.MaxCommandBytes+1):                                                                        "longer",
	} {
		if _, err := decodeCommand(strings.NewReader(body)); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("%.80q: error %v should name %q", body, err, names)
		}
	}
}

// FuzzDecodeCommand: nothing panics, and what is taken is complete for its type and reads back as itself.
func FuzzDecodeCommand(f *testing.F) {
	for _, seed := range []string{
		`{"clusterID":"c","epoch":1,"operationID":"o","type":"Initialize"}`,
		`{"clusterID":"c","epoch":1,"operationID":"o","type":"Promote","quorum":{"generation":1,"requiredAcks":1,"members":[{"name":"a","serverUUID":"` + anUUID + `","incarnation":"i"}]}}`,
		`{"clusterID":"c","epoch":9223372036854775807,"operationID":"o","type":"Clone","donor":{"instance":"a","host":"b","port":65535}}`,
		`{"clusterID":"c","epoch":2,"operationID":"o","type":"Fence"}`, `{"clusterID":"c","epoch":2,"operationID":"o","type":"Start"}`,
		`{"clusterID":"c","epoch":3,"operationID":"o","type":"Follow","primary":{"instance":"a","host":"b","port":1},"promotedGTIDSet":"` + anUUID + `:1-5:tag:7"}`,
		`{"clusterID":"c","epoch":3,"operationID":"o","type":"Promote","quorum":{"generation":1},"processStartedAt":"2026-12-01T00:00:00.5Z"}`,
		`null`, `[]`, `{"epoch":1e3}`, `{"type":"Follow","primary":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		cmd, err := decodeCommand(bytes.NewReader(body))
		if err != nil {
			return
		}
		need := needs[cmd.Type]
		if cmd.Epoch < 1 || cmd.ClusterID == "" || need.primary && cmd.Primary == nil || need.donor && cmd.Donor == nil || need.quorum && cmd.Quorum == nil {
			t.Fatalf("%q is taken as %+v", body, cmd)
		}
		text, err := json.Marshal(cmd)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeCommand(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%q prints %q, which is refused: %v", body, text, err)
		}
		if second, _ := json.Marshal(again); !bytes.Equal(text, second) {
			t.Fatalf("%q became %q", text, second)
		}
	})
}
