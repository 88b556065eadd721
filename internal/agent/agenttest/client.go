package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// client speaks as the manager with a certificate of a CA.
func (i *Instance) client() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: i.c.CA.ClientTLS(naming.CertCNManager), DisableKeepAlives: true}, Timeout: time.Minute}
}

// Get reads a path with a client; it returns status and body.
func (i *Instance) Get(client *http.Client, path string) (int, string, error) {
	response, err := client.Get("https://" + i.Config.APIAddress + path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// TryStatus reads the status.
func (i *Instance) TryStatus() (agentapi.Status, error) {
	code, body, err := i.Get(i.client(), agentapi.PathStatus)
	if err != nil {
		return agentapi.Status{}, err
	}
	if code != http.StatusOK {
		return agentapi.Status{}, fmt.Errorf("status %d: %s", code, body)
	}
	var s agentapi.Status
	return s, json.Unmarshal([]byte(body), &s)
}

// Status reads the status, or fails the test.
func (i *Instance) Status() agentapi.Status {
	i.c.T.Helper()
	s, err := i.TryStatus()
	if err != nil {
		i.c.T.Fatalf("%s: read status: %v", i.Config.Instance, err)
	}
	return s
}

// Await waits until the status fulfils a condition, or fails the test; what says what is awaited.
func (i *Instance) Await(what string, condition func(agentapi.Status) bool) agentapi.Status {
	i.c.T.Helper()
	deadline := time.Now().Add(Deadline)
	for {
		s, err := i.TryStatus()
		if err == nil && condition(s) {
			return s
		}
		if time.Now().After(deadline) {
			text, _ := json.Marshal(s)
			i.c.T.Fatalf("%s: waited in vain: %s; error %v; status %s", i.Config.Instance, what, err, text)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Stream reads status documents until the context ends or the agent closes; each is given to see.
func (i *Instance) Stream(ctx context.Context, see func(agentapi.Status)) error {
	client := i.client()
	client.Timeout = 0
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+i.Config.APIAddress+agentapi.PathStream, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	decoder := json.NewDecoder(response.Body)
	for {
		var s agentapi.Status
		if err := decoder.Decode(&s); err != nil {
			return err
		}
		see(s)
	}
}

// Send sends a command; a refusal is an *agentapi.Error.
func (i *Instance) Send(cmd agentapi.Command) error {
	_, err := i.Ask(cmd)
	return err
}

// Ask is Send that returns the answer's document.
func (i *Instance) Ask(cmd agentapi.Command) (agentapi.Status, error) {
	body, err := json.Marshal(cmd)
	if err != nil {
		return agentapi.Status{}, err
	}
	return i.post(body)
}

// SendRaw sends a command's body as it is.
func (i *Instance) SendRaw(body []byte) error {
	_, err := i.post(body)
	return err
}

func (i *Instance) post(body []byte) (agentapi.Status, error) {
	response, err := i.client().Post("https://"+i.Config.APIAddress+agentapi.PathCommand, "application/json", bytes.NewReader(body))
	if err != nil {
		return agentapi.Status{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return agentapi.Status{}, err
	}
	if response.StatusCode == http.StatusOK {
		var s agentapi.Status
		return s, json.Unmarshal(text, &s)
	}
	refusal := &agentapi.Error{}
	if err := json.Unmarshal(text, refusal); err != nil {
		return agentapi.Status{}, fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	return agentapi.Status{}, refusal
}

// do sends a command that must succeed; what is not ready yet is tried again, as a manager would.
func (i *Instance) do(cmd agentapi.Command) {
	i.c.T.Helper()
	deadline := time.Now().Add(Deadline)
	for {
		err := i.Send(cmd)
		if err == nil {
			return
		}
		again := IsErrorCode(err, agentapi.ErrPrecondition) || IsErrorCode(err, agentapi.ErrBusy)
		if !again || time.Now().After(deadline) {
			i.c.T.Fatalf("%s: %s: %v", i.Config.Instance, cmd.Type, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// finish waits for a long command's end.
func (i *Instance) finish(cmd agentapi.Command) {
	i.c.T.Helper()
	s := i.Await(string(cmd.Type)+" ends", func(s agentapi.Status) bool {
		return s.Operation != nil && s.Operation.ID == cmd.OperationID && !s.Operation.Running
	})
	if s.Operation.Error != "" {
		i.c.T.Fatalf("%s: %s: %s", i.Config.Instance, cmd.Type, s.Operation.Error)
	}
}

// Initialize makes an empty data directory and waits for mysqld.
func (i *Instance) Initialize() {
	i.c.T.Helper()
	cmd := i.c.Command(agentapi.CommandInitialize)
	i.do(cmd)
	i.finish(cmd)
}

// Clone copies a donor's data and waits for mysqld.
func (i *Instance) Clone(donor *Instance) {
	i.c.T.Helper()
	cmd := i.c.Command(agentapi.CommandClone)
	cmd.Donor = donor.Peer()
	i.do(cmd)
	i.finish(cmd)
}

// Follow makes it a replica.
func (i *Instance) Follow(primary *Instance, quorum *agentapi.Quorum) {
	i.c.T.Helper()
	cmd := i.c.Command(agentapi.CommandFollow)
	cmd.Primary, cmd.Quorum = primary.Peer(), quorum
	i.do(cmd)
}

// Promote makes it the primary.
func (i *Instance) Promote(quorum *agentapi.Quorum) {
	i.c.T.Helper()
	cmd := i.c.Command(agentapi.CommandPromote)
	cmd.Quorum = quorum
	i.do(cmd)
}

// SetQuorum gives it a quorum.
func (i *Instance) SetQuorum(quorum *agentapi.Quorum) {
	i.c.T.Helper()
	cmd := i.c.Command(agentapi.CommandSetQuorum)
	cmd.Quorum = quorum
	i.do(cmd)
}

// StartHeld waits until mysqld is held, has it started as it is, and waits until it runs.
func (i *Instance) StartHeld() agentapi.Status {
	i.c.T.Helper()
	i.AwaitHeld()
	i.do(i.c.Command(agentapi.CommandStart))
	return i.Await("mysqld runs", func(s agentapi.Status) bool { return s.Process.State == agentapi.ProcessRunning && s.Server != nil })
}

// AwaitHeld waits until mysqld is held.
func (i *Instance) AwaitHeld() agentapi.Status {
	i.c.T.Helper()
	return i.Await("mysqld is held", func(s agentapi.Status) bool { return s.Process.State == agentapi.ProcessHeld })
}

// Rejoin makes it follow a primary that had executed a set when it was opened, however it is now: a held mysqld is cut and
// started by the first Follow, and follows by the last.
func (i *Instance) Rejoin(primary *Instance, quorum *agentapi.Quorum, promoted *gtid.Set) {
	i.c.T.Helper()
	cmd := i.c.Command(agentapi.CommandFollow)
	cmd.Primary, cmd.Quorum, cmd.PromotedGTIDSet = primary.Peer(), quorum, promoted
	deadline := time.Now().Add(Deadline)
	for {
		i.do(cmd)
		if s := i.Status(); s.Confirmed && s.Server != nil && s.Server.Replication != nil {
			return
		}
		if time.Now().After(deadline) {
			i.c.T.Fatalf("%s: Follow does not lead to replication", i.Config.Instance)
		}
		<-time.After(50 * time.Millisecond)
	}
}
