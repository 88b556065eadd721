package failover

import (
	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

// Row is one line of the state machine.
type Row struct {
	// Phase in which the row is looked at.
	Phase v1.TopologyPhase
	// Name of the row, unique in its phase.
	Name string
	// When holds the guards that must all hold; none: always.
	When []Guard
	// Next phase.
	Next v1.TopologyPhase
	// Reason of the next status.
	Reason string
	// Do names the steps, in order.
	Do []Step
}

const (
	bootstrapping = v1.TopologyBootstrapping
	stable        = v1.TopologyStable
	recovering    = v1.TopologyRecovering
	blocked       = v1.TopologyBlocked
)

// Table is the state machine. In each phase the first row whose guards hold is taken; the last one has no guards.
var Table = []Row{
	{bootstrapping, "suspended", when(suspended), bootstrapping, v1.TopologySuspended, nil},
	{bootstrapping, "foreign-volume", when(recordEmpty, foreignVolume), blocked, v1.TopologyForeignVolume, nil},
	{bootstrapping, "adopt", when(recordEmpty, keptData, adoptionReady), recovering, v1.TopologyRecordAdopted, do(stepRecordAdoption)},
	{bootstrapping, "adopt-unclear", when(recordEmpty, keptData, adoptionUnclear), blocked, v1.TopologyPrimaryAmbiguous, nil},
	{bootstrapping, "adopt-waits", when(recordEmpty, keptData), bootstrapping, v1.TopologyWaitingForInstances, nil},
	{bootstrapping, "begin", when(recordEmpty, freshStart), bootstrapping, v1.TopologyInitializing, do(stepRecordBootstrap)},
	{bootstrapping, "begin-waits", when(recordEmpty), bootstrapping, v1.TopologyWaitingForAgents, nil},
	{bootstrapping, "agents-ahead", when(agentsAhead), blocked, v1.TopologyRecordBehind, nil},
	{bootstrapping, "data-lost", when(primaryDataLost), blocked, v1.TopologyPrimaryDataLost, nil},
	{bootstrapping, "primary-silent", when(not(primaryAnswers)), bootstrapping, v1.TopologyWaitingForAgents, nil},
	{bootstrapping, "initialize", when(primaryNoData), bootstrapping, v1.TopologyInitializing, do(stepInitializePrimary, stepInitializeOthers)},
	{bootstrapping, "initializing", when(primaryMakesData), bootstrapping, v1.TopologyInitializing, do(stepInitializeOthers)},
	{bootstrapping, "starting", when(not(primaryRuns)), bootstrapping, v1.TopologyInitializing, do(stepInitializeOthers)},
	{bootstrapping, "record-primary", when(not(primaryRecorded)), bootstrapping, v1.TopologyPromoting, do(stepRecordPrimary)},
	{bootstrapping, "generation-behind", when(not(primaryOpen), generationBehind), bootstrapping, v1.TopologyPromoting, do(stepRecordGeneration)},
	{bootstrapping, "promote", when(not(primaryOpen)), bootstrapping, v1.TopologyPromoting, do(stepPromote, stepInitializeOthers)},
	{bootstrapping, "open", when(acksReached), stable, v1.TopologyDegraded, do(stepRoute, stepCloseOperation, stepReplicas)},
	{bootstrapping, "quorum-record", when(quorumRecord), bootstrapping, v1.TopologyWaitingForMembers, do(stepRecordQuorum, stepReplicas)},
	{bootstrapping, "quorum-tell", when(quorumTell), bootstrapping, v1.TopologyWaitingForMembers, do(stepTell, stepReplicas)},
	{bootstrapping, "quorum-act", when(quorumAct), bootstrapping, v1.TopologyWaitingForMembers, do(stepSetQuorum, stepReplicas)},
	{bootstrapping, "open-at-barrier", when(quorumPassed, quorumSuffices), stable, v1.TopologyDegraded, do(stepRecordQuorum, stepRoute, stepCloseOperation, stepReplicas)},
	{bootstrapping, "quorum-barrier-passed", when(quorumPassed), bootstrapping, v1.TopologyWaitingForMembers, do(stepRecordQuorum, stepReplicas)},
	{bootstrapping, "quorum-barrier-waits", when(quorumWaits), bootstrapping, v1.TopologyWaitingForMembers, do(stepAwaitProgress, stepReplicas)},
	{bootstrapping, "members-wanted", nil, bootstrapping, v1.TopologyWaitingForMembers, do(stepReplicas)},

	{stable, "suspended", when(suspended), stable, v1.TopologySuspended, nil},
	{stable, "adopt", when(agentsAhead, adoptionReady), recovering, v1.TopologyRecordAdopted, do(stepRecordAdoption)},
	{stable, "agents-ahead", when(agentsAhead), blocked, v1.TopologyRecordBehind, nil},
	{stable, "data-lost", when(primaryDataLost), blocked, v1.TopologyPrimaryDataLost, nil},
	{stable, "primary-pod-gone", when(primaryDown, not(primaryAnswers)), recovering, v1.TopologyPrimaryGone, do(stepRecordResume)},
	{stable, "primary-down", when(primaryDown), recovering, v1.TopologyPrimaryStarting, do(stepRecordResume)},
	{stable, "primary-unreachable", when(not(primaryAnswers)), stable, v1.TopologyPrimaryUnreachable, nil},
	{stable, "primary-unresponsive", when(not(primaryRuns)), stable, v1.TopologyPrimaryUnresponsive, nil},
	{stable, "confirm-primary", when(not(primaryOpen)), stable, v1.TopologyDegraded, do(stepPromote)},
	{stable, "quorum-record", when(quorumRecord), stable, v1.TopologyChangingQuorum, do(stepRecordQuorum, stepReplicas)},
	{stable, "quorum-tell", when(quorumTell), stable, v1.TopologyChangingQuorum, do(stepTell, stepReplicas)},
	{stable, "quorum-act", when(quorumAct), stable, v1.TopologyChangingQuorum, do(stepSetQuorum, stepReplicas)},
	{stable, "quorum-barrier-passed", when(quorumPassed), stable, v1.TopologyChangingQuorum, do(stepRecordQuorum, stepReplicas)},
	{stable, "quorum-barrier-waits", when(quorumWaits), stable, v1.TopologyChangingQuorum, do(stepAwaitProgress, stepReplicas)},
	{stable, "open", when(not(routed), acksReached), stable, v1.TopologyDegraded, do(stepRoute, stepReplicas)},
	{stable, "writes-blocked", when(writesBlocked), stable, v1.TopologyWritesBlocked, do(stepReplicas)},
	{stable, "members-wanted", when(not(routed)), stable, v1.TopologyWaitingForMembers, do(stepReplicas)},
	{stable, "healthy", when(allServe), stable, v1.TopologyHealthy, do(stepReplicas, stepInform)},
	{stable, "degraded", nil, stable, v1.TopologyDegraded, do(stepReplicas, stepInform)},

	{recovering, "suspended", when(suspended), recovering, v1.TopologySuspended, nil},
	{recovering, "adopt", when(agentsAhead, adoptionReady), recovering, v1.TopologyRecordAdopted, do(stepRecordAdoption)},
	{recovering, "agents-ahead", when(agentsAhead), blocked, v1.TopologyRecordBehind, nil},
	{recovering, "data-lost", when(primaryDataLost), blocked, v1.TopologyPrimaryDataLost, nil},
	{recovering, "resumed", when(primaryOpen), stable, v1.TopologyDegraded, do(stepCloseOperation, stepReplicas)},
	{recovering, "primary-gone", when(not(primaryAnswers), primaryPodGone), recovering, v1.TopologyPrimaryGone, nil},
	{recovering, "primary-unreachable", when(not(primaryAnswers)), recovering, v1.TopologyPrimaryUnreachable, nil},
	{recovering, "primary-starting", when(not(primaryRuns)), recovering, v1.TopologyPrimaryStarting, nil},
	{recovering, "primary-behind", when(primaryBehind), blocked, v1.TopologyPrimaryBehind, nil},
	{recovering, "primary-sample", when(behindUnclear), recovering, v1.TopologyResuming, do(stepSamplePrimary)},
	{recovering, "generation-behind", when(generationBehind), recovering, v1.TopologyResuming, do(stepRecordGeneration)},
	{recovering, "confirm", when(primaryWritable), recovering, v1.TopologyResuming, do(stepPromote)},
	{recovering, "resume", when(membersHoldAll), recovering, v1.TopologyResuming, do(stepPromote, stepReplicas)},
	{recovering, "members-wanted", nil, recovering, v1.TopologyWritesBlocked, do(stepAwaitProgress, stepReplicas)},

	// What Blocked rests on is kept until it is refuted: the reason is its memory, so no other reason takes its place.
	{blocked, "suspended-primary-behind", when(suspended, behindStands), blocked, v1.TopologyPrimaryBehind, nil},
	{blocked, "suspended-record-behind", when(suspended, recordBehind), blocked, v1.TopologyRecordBehind, nil},
	{blocked, "suspended", when(suspended), blocked, v1.TopologySuspended, nil},
	{blocked, "foreign-volume", when(recordEmpty, foreignVolume), blocked, v1.TopologyForeignVolume, nil},
	{blocked, "adopt-unclear", when(recordEmpty, adoptionUnclear), blocked, v1.TopologyPrimaryAmbiguous, nil},
	{blocked, "record-empty", when(recordEmpty), bootstrapping, v1.TopologyWaitingForAgents, nil},
	{blocked, "adopt", when(agentsAhead, adoptionReady), recovering, v1.TopologyRecordAdopted, do(stepRecordAdoption)},
	{blocked, "agents-ahead", when(agentsAhead), blocked, v1.TopologyRecordBehind, nil},
	{blocked, "agents-ahead-stands", when(recordBehind), blocked, v1.TopologyRecordBehind, nil},
	{blocked, "primary-behind", when(primaryBehind), blocked, v1.TopologyPrimaryBehind, nil},
	{blocked, "primary-behind-stands", when(behindStands), blocked, v1.TopologyPrimaryBehind, nil},
	{blocked, "data-lost", when(primaryDataLost), blocked, v1.TopologyPrimaryDataLost, nil},
	{blocked, "bootstrap-again", when(bootstrapRuns), bootstrapping, v1.TopologyWaitingForAgents, nil},
	{blocked, "recover", nil, recovering, v1.TopologyPrimaryStarting, do(stepRecordResume)},
}

func when(g ...Guard) []Guard { return g }

func do(s ...Step) []Step { return s }

// String is PHASE/NAME.
func (r Row) String() string { return string(r.Phase) + "/" + r.Name }

// choose returns the first row of a phase whose guards hold, by the given evaluation of guards.
func choose(phase v1.TopologyPhase, holds func(Guard) bool) (Row, bool) {
rows:
	for _, row := range Table {
		if row.Phase != phase {
			continue
		}
		for _, g := range row.When {
			if !holds(g) {
				continue rows
			}
		}
		return row, true
	}
	return Row{}, false
}
