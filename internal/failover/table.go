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
	fencing       = v1.TopologyFencing
	promoting     = v1.TopologyPromoting
	draining      = v1.TopologyDraining
	adopting      = v1.TopologyAdopting
)

// Table is the state machine. In each phase the first row whose guards hold is taken; the last one has no guards.
var Table = []Row{
	{bootstrapping, "suspended", when(suspended), bootstrapping, v1.TopologySuspended, nil},
	{bootstrapping, "foreign-volume", when(recordEmpty, foreignVolume), blocked, v1.TopologyForeignVolume, nil},
	{bootstrapping, "adopt", when(recordEmpty, keptData, adoptionReady), adopting, v1.TopologyRecordAdopted, do(stepBeginAdoption)},
	{bootstrapping, "adopt-unclear", when(recordEmpty, keptData, adoptionUnclear), blocked, v1.TopologyPrimaryAmbiguous, nil},
	{bootstrapping, "adopt-waits", when(recordEmpty, keptData), bootstrapping, v1.TopologyWaitingForInstances, do(stepStartAdopted)},
	{bootstrapping, "begin", when(recordEmpty, freshStart), bootstrapping, v1.TopologyInitializing, do(stepRecordBootstrap)},
	{bootstrapping, "begin-waits", when(recordEmpty), bootstrapping, v1.TopologyWaitingForAgents, nil},
	{bootstrapping, "agents-ahead", when(agentsAhead), blocked, v1.TopologyRecordBehind, nil},
	{bootstrapping, "data-lost", when(primaryDataLost), blocked, v1.TopologyPrimaryDataLost, nil},
	{bootstrapping, "primary-silent", when(not(primaryAnswers)), bootstrapping, v1.TopologyWaitingForAgents, nil},
	{bootstrapping, "initialize", when(primaryNoData), bootstrapping, v1.TopologyInitializing, do(stepInitializePrimary, stepInitializeOthers)},
	{bootstrapping, "initializing", when(primaryMakesData), bootstrapping, v1.TopologyInitializing, do(stepInitializeOthers)},
	{bootstrapping, "primary-held", when(primaryHeld), bootstrapping, v1.TopologyInitializing, do(stepStart, stepInitializeOthers)},
	{bootstrapping, "starting", when(not(primaryRuns)), bootstrapping, v1.TopologyInitializing, do(stepInitializeOthers)},
	{bootstrapping, "record-primary", when(not(primaryRecorded)), bootstrapping, v1.TopologyOpening, do(stepRecordPrimary)},
	{bootstrapping, "generation-behind", when(not(primaryOpen), generationBehind), bootstrapping, v1.TopologyOpening, do(stepRecordGeneration)},
	{bootstrapping, "promote", when(not(primaryOpen)), bootstrapping, v1.TopologyOpening, do(stepPromote, stepInitializeOthers)},
	{bootstrapping, "open", when(acksReached), stable, v1.TopologyDegraded, do(stepRoute, stepCloseOperation, stepReplicas)},
	{bootstrapping, "quorum-record", when(quorumRecord), bootstrapping, v1.TopologyWaitingForMembers, do(stepRecordQuorum, stepReplicas)},
	{bootstrapping, "quorum-tell", when(quorumTell), bootstrapping, v1.TopologyWaitingForMembers, do(stepTell, stepReplicas)},
	{bootstrapping, "quorum-act", when(quorumAct), bootstrapping, v1.TopologyWaitingForMembers, do(stepSetQuorum, stepReplicas)},
	{bootstrapping, "open-at-barrier", when(quorumPassed, quorumSuffices), stable, v1.TopologyDegraded, do(stepRecordQuorum, stepRoute, stepCloseOperation, stepReplicas)},
	{bootstrapping, "quorum-barrier-passed", when(quorumPassed), bootstrapping, v1.TopologyWaitingForMembers, do(stepRecordQuorum, stepReplicas)},
	{bootstrapping, "quorum-barrier-waits", when(quorumWaits), bootstrapping, v1.TopologyWaitingForMembers, do(stepAwaitProgress, stepReplicas)},
	{bootstrapping, "members-wanted", nil, bootstrapping, v1.TopologyWaitingForMembers, do(stepReplicas)},

	// Commands of the lost record may still be under way: who was primary counts once none of them can reach anybody.
	{adopting, "suspended", when(suspended), adopting, v1.TopologySuspended, nil},
	{adopting, "begin-again", when(agentsAhead), adopting, v1.TopologyRecordAdopted, do(stepBeginAdoption)},
	{adopting, "adopt", when(toldEverybody, adoptionReady), recovering, v1.TopologyRecordAdopted, do(stepRecordAdoption)},
	{adopting, "adopt-unclear", when(toldEverybody, adoptionUnclear), blocked, v1.TopologyPrimaryAmbiguous, nil},
	{adopting, "tell", nil, adopting, v1.TopologyWaitingForInstances, do(stepTellEverybody, stepStartAdopted)},

	{stable, "suspended", when(suspended), stable, v1.TopologySuspended, nil},
	{stable, "adopt", when(agentsAhead, adoptionReady), adopting, v1.TopologyRecordAdopted, do(stepBeginAdoption)},
	{stable, "agents-ahead", when(agentsAhead), blocked, v1.TopologyRecordBehind, nil},
	{stable, "fail-over", when(primaryLost, failoverPossible), fencing, v1.TopologyFencingMembers, do(stepRecordFencing)},
	{stable, "data-lost", when(primaryDataLost), blocked, v1.TopologyPrimaryDataLost, nil},
	{stable, "primary-hung", when(primaryHung), recovering, v1.TopologyPrimaryHung, do(stepRecordResume, stepRestart)},
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
	{stable, "switch-over", when(switchoverWanted, switchoverFit), draining, v1.TopologyDrainingPrimary, do(stepRecordDraining)},
	{stable, "switchover-refused", when(switchoverAsked), stable, v1.TopologyDegraded, do(stepRefuseSwitchover, stepReplicas)},
	{stable, "open", when(not(routed), acksReached), stable, v1.TopologyDegraded, do(stepRoute, stepReplicas)},
	{stable, "writes-blocked", when(writesBlocked), stable, v1.TopologyWritesBlocked, do(stepReplicas)},
	{stable, "members-wanted", when(not(routed)), stable, v1.TopologyWaitingForMembers, do(stepReplicas)},
	{stable, "healthy", when(allServe), stable, v1.TopologyHealthy, do(stepReplicas, stepInform)},
	{stable, "degraded", nil, stable, v1.TopologyDegraded, do(stepReplicas, stepInform)},

	{recovering, "suspended", when(suspended), recovering, v1.TopologySuspended, nil},
	{recovering, "adopt", when(agentsAhead, adoptionReady), adopting, v1.TopologyRecordAdopted, do(stepBeginAdoption)},
	{recovering, "agents-ahead", when(agentsAhead), blocked, v1.TopologyRecordBehind, nil},
	{recovering, "accept-loss", when(primaryLost, lossAccepted), fencing, v1.TopologyFencingMembers, do(stepRecordFencing)},
	{recovering, "fail-over", when(primaryLost, failoverPossible), fencing, v1.TopologyFencingMembers, do(stepRecordFencing)},
	{recovering, "data-lost", when(primaryDataLost), blocked, v1.TopologyPrimaryDataLost, nil},
	{recovering, "resumed", when(primaryOpen), stable, v1.TopologyDegraded, do(stepCloseSwitchover, stepCloseOperation, stepReplicas)},
	{recovering, "primary-held", when(primaryHeld, waitedEnough), recovering, v1.TopologyPrimaryStarting, do(stepStart)},
	{recovering, "primary-held-waits", when(primaryHeld), recovering, v1.TopologyPrimaryStarting, do(stepRecheck)},
	{recovering, "primary-gone", when(not(primaryAnswers), primaryPodGone), recovering, v1.TopologyPrimaryGone, nil},
	{recovering, "primary-unreachable", when(not(primaryAnswers)), recovering, v1.TopologyPrimaryUnreachable, nil},
	{recovering, "primary-hung", when(primaryHung), recovering, v1.TopologyPrimaryHung, do(stepRestart)},
	{recovering, "primary-starting", when(not(primaryRuns)), recovering, v1.TopologyPrimaryStarting, nil},
	{recovering, "primary-behind", when(primaryBehind), blocked, v1.TopologyPrimaryBehind, nil},
	{recovering, "primary-sample", when(behindUnclear), recovering, v1.TopologyResuming, do(stepSamplePrimary)},
	{recovering, "generation-behind", when(generationBehind), recovering, v1.TopologyResuming, do(stepRecordGeneration)},
	{recovering, "confirm", when(primaryWritable), recovering, v1.TopologyResuming, do(stepPromote)},
	{recovering, "resume", when(membersHoldAll), recovering, v1.TopologyResuming, do(stepPromote, stepReplicas)},
	{recovering, "lower-acks", when(resumeStuck, not(acksLowered)), recovering, v1.TopologyResuming, do(stepLowerAcks)},
	{recovering, "resume-lowered", when(resumeStuck), recovering, v1.TopologyResuming, do(stepPromote, stepReplicas)},
	{recovering, "members-wanted", nil, recovering, v1.TopologyWritesBlocked, do(stepAwaitProgress, stepReplicas)},

	{draining, "suspended", when(suspended), draining, v1.TopologySuspended, nil},
	{draining, "adopt", when(agentsAhead, adoptionReady), adopting, v1.TopologyRecordAdopted, do(stepBeginAdoption)},
	{draining, "agents-ahead", when(agentsAhead), blocked, v1.TopologyRecordBehind, nil},
	{draining, "swap", when(targetHoldsAll), promoting, v1.TopologyOpening, do(stepSwap)},
	{draining, "fail-over", when(primaryLost, failoverPossible), fencing, v1.TopologyFencingMembers, do(stepRecordFencing)},
	{draining, "give-up", when(drainFailed), recovering, v1.TopologyRolledBack, do(stepRollBack)},
	{draining, "drain", nil, draining, v1.TopologyDrainingPrimary, do(stepDrain)},

	// Nobody is primary in an epoch of fencing.
	{fencing, "suspended", when(suspended), fencing, v1.TopologySuspended, nil},
	{fencing, "adopt", when(agentsAhead, adoptionReady), adopting, v1.TopologyRecordAdopted, do(stepBeginAdoption)},
	{fencing, "agents-ahead", when(agentsAhead), blocked, v1.TopologyRecordBehind, nil},
	{fencing, "elect", when(candidateFound), promoting, v1.TopologyOpening, do(stepElect)},
	{fencing, "primary-back", when(primaryWritable), recovering, v1.TopologyRolledBack, do(stepRollBack)},
	{fencing, "primary-resumable", when(primaryRuns, membersHoldAll), recovering, v1.TopologyRolledBack, do(stepRollBack)},
	{fencing, "primary-held", when(primaryHeld, not(failoverPossible)), recovering, v1.TopologyRolledBack, do(stepRollBack)},
	{fencing, "accept-loss", when(lossAccepted, bestFound), promoting, v1.TopologyOpening, do(stepElect)},
	{fencing, "members-lost", when(membersLost, not(lossAccepted)), blocked, v1.TopologyMembersLost, nil},
	{fencing, "no-candidate", when(fencedEnough), blocked, v1.TopologyNoCandidate, do(stepFence)},
	{fencing, "fence", nil, fencing, v1.TopologyFencingMembers, do(stepFence)},

	{promoting, "suspended", when(suspended), promoting, v1.TopologySuspended, nil},
	{promoting, "adopt", when(agentsAhead, adoptionReady), adopting, v1.TopologyRecordAdopted, do(stepBeginAdoption)},
	{promoting, "agents-ahead", when(agentsAhead), blocked, v1.TopologyRecordBehind, nil},
	{promoting, "opened", when(primaryOpen), stable, v1.TopologyDegraded, do(stepCloseSwitchover, stepCloseOperation, stepReplicas)},
	{promoting, "candidate-lost", when(candidateLost), fencing, v1.TopologyFencingMembers, do(stepRecordFencing)},
	{promoting, "generation-behind", when(generationBehind), promoting, v1.TopologyOpening, do(stepRecordGeneration)},
	{promoting, "promote", nil, promoting, v1.TopologyOpening, do(stepPromote, stepReplicas)},

	// What Blocked rests on is kept until it is refuted: the reason is its memory, so no other reason takes its place.
	{blocked, "suspended-primary-behind", when(suspended, behindStands), blocked, v1.TopologyPrimaryBehind, nil},
	{blocked, "suspended-record-behind", when(suspended, recordBehind), blocked, v1.TopologyRecordBehind, nil},
	{blocked, "suspended", when(suspended), blocked, v1.TopologySuspended, nil},
	{blocked, "foreign-volume", when(recordEmpty, foreignVolume), blocked, v1.TopologyForeignVolume, nil},
	{blocked, "adopt-unclear", when(recordEmpty, adoptionUnclear), blocked, v1.TopologyPrimaryAmbiguous, nil},
	{blocked, "record-empty", when(recordEmpty), bootstrapping, v1.TopologyWaitingForAgents, nil},
	{blocked, "adopt", when(agentsAhead, adoptionReady), adopting, v1.TopologyRecordAdopted, do(stepBeginAdoption)},
	{blocked, "agents-ahead", when(agentsAhead), blocked, v1.TopologyRecordBehind, do(stepStartAdopted)},
	{blocked, "agents-ahead-stands", when(recordBehind), blocked, v1.TopologyRecordBehind, nil},
	{blocked, "accept-loss", when(primaryLost, lossAccepted), fencing, v1.TopologyFencingMembers, do(stepRecordFencing)},
	{blocked, "no-candidate-held", when(noCandidateStands, primaryHeld), recovering, v1.TopologyRolledBack, do(stepRollBack)},
	{blocked, "no-candidate", when(noCandidateStands), blocked, v1.TopologyNoCandidate, nil},
	{blocked, "members-lost", when(membersLostStand), blocked, v1.TopologyMembersLost, nil},
	{blocked, "fence-again", when(fencingEpoch), fencing, v1.TopologyFencingMembers, do(stepRecordFencing)},
	{blocked, "fail-over", when(primaryLost, failoverPossible), fencing, v1.TopologyFencingMembers, do(stepRecordFencing)},
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
