package agentclient_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/porpoise-dev/porpoise/internal/agentclient"
)

// TestStreamsAreCounted: heard while documents come, silent after, gone when the cluster is forgotten.
func TestStreamsAreCounted(t *testing.T) {
	end := make(chan struct{})
	pool := serve(t, func(rw http.ResponseWriter, req *http.Request) {
		select {
		case <-end:
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		default:
		}
		_, _ = fmt.Fprintln(rw, `{"instance":"orders-0","sequence":1}`)
		_ = http.NewResponseController(rw).Flush()
		select {
		case <-end:
		case <-req.Context().Done():
		}
	})
	eventually(t, "heard", func() bool { return pool.Streams()[key] == agentclient.Streams{Heard: 1} })
	close(end)
	eventually(t, "silent", func() bool { return pool.Streams()[key] == agentclient.Streams{Silent: 1} })
	pool.Forget(key)
	if got := pool.Streams(); len(got) != 0 {
		t.Errorf("after forgetting: %v", got)
	}
}
