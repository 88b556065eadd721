package fakeagent

// Flaw is a rule of MySQL or of the agent that a world breaks on purpose, so that it is shown that the protocol rests on it.
type Flaw string

const (
	// Degrades acknowledges by time: a source that waits for replicas gives up waiting (rpl_semi_sync_source_timeout).
	Degrades Flaw = "semi-sync never gives up waiting"
	// ForgetsReceived throws away what was received and not applied when mysqld starts (relay_log_recovery=ON).
	ForgetsReceived Flaw = "a restarted replica keeps what it acknowledged"
	// ReleasesAtStop lets what waits for acknowledgement commit when a pod ends, as a clean shutdown of mysqld does.
	ReleasesAtStop Flaw = "what waits for acknowledgement is killed, not shut down"
	// OpensAlone opens a new primary before it waits for anybody.
	OpensAlone Flaw = "semi-sync is on before a primary is open"
)

// Spoil makes a world break a rule from now on.
func (w *World) Spoil(f Flaw) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flaw = f
}

// Heed ends the flaw.
func (w *World) Heed() { w.Spoil("") }
