// Package agent is the supervisor that runs as PID 1 beside mysqld in an instance's pod. It makes the data directory,
// renders the option file, runs mysqld and starts it again when it dies, tells the manager how things are, and does
// what the manager commands. It decides nothing about who is primary.
//
// # Rules
//
//   - Every boot of mysqld is read-only and without replication. The role comes from a command (Promote, Follow).
//   - {cluster id, epoch, primary, quorum, role} are fsynced outside the data directory before they are acted on, and a
//     lower epoch is refused (INV-3). When that file cannot be read, nothing is done at all.
//   - A clean shutdown of a source that waits for acknowledgement tells clients OK for commits that no replica has, so
//     mysqld gets SIGTERM only after super_read_only has succeeded with no commit waiting; else SIGKILL (INV-1).
//   - Source semi-sync is never switched off to unblock anything. Only members of the stored quorum acknowledge (INV-4).
//   - A relay log with unapplied transactions is never deleted.
//   - A fenced instance receives nothing until a Follow or Promote of a higher epoch; a life of mysqld that begins meanwhile
//     boots without replication anyway (INV-2).
//   - What a primary's binary log holds without an acknowledgement becomes visible by a start of mysqld. So a former primary
//     whose quorum has members is held when it has ended: Start shows it, Follow with the promoted set saves it and cuts it off
//     first (INV-1, INV-9).
//
// # A rebuild
//
// Rebuild replaces data by a copy of a donor's. In this order, so that at any moment the old or the new directory is complete:
//
//  1. mysqld is killed; state: Cloning, still of the old incarnation
//  2. the quarantine is written from all binary logs; what is missing there ends the rebuild, with the old data as it was
//  3. state: the copy's incarnation beside the old one; the copy is made in mysql.new/ and gets its mark last
//  4. what the binary logs hold beyond the copy, if anything, is saved as well
//  5. mysql/ becomes mysql.old/, mysql.new/ becomes mysql/; state: the new incarnation; mysql.old/ is removed
//
// Only where there is no room for both the old directory goes after step 2, its mark first; from then on it is a Clone.
//
// # Who owns what
//
// One command runs at a time (Agent.turn). The state on disk is changed only through stateStore.update, which is atomic.
// The mysqld process belongs to the goroutine process.run; others ask it to begin, halt or kill. What is reported lives in
// the hub: its parts are replaced, never modified, so a copy of the document may be read without a lock. A session to
// mysqld lives and dies with its process (Agent.attend).
//
// # Worked example
//
// A cluster of two, from nothing; the manager's commands in order:
//
//	to orders-0  Initialize {epoch 1}                                  data: Empty → Initializing → Ready
//	to orders-0  Promote    {epoch 1, quorum {gen 1, W 0}}             writable; the replication account is made
//	to orders-1  Clone      {epoch 1, donor orders-0}                  data: Empty → Cloning → Ready
//	to orders-1  Follow     {epoch 1, primary orders-0, quorum gen 1}  catches up; does not acknowledge: not a member
//	to orders-1  SetQuorum  {epoch 1, quorum {gen 2, W 0, members [orders-1]}}   acknowledges from now on
//	to orders-0  SetQuorum  {epoch 1, quorum {gen 3, W 1, members [orders-1]}}   commits wait for it
//
// mysqld of orders-0 is killed: its agent reports the exit on the stream at once, and holds it. The manager fails over:
//
//	to orders-1  Fence      {epoch 2}                              its receiver ends; the answer shows what it holds
//	to orders-0  Demote     {epoch 2}                              no role; still held
//	to orders-1  Promote    {epoch 3, quorum {gen 4, W 0}}         all received is applied, then writable
//	to orders-0  Follow     {epoch 3, primary orders-1, promotedGTIDSet G}   what G lacks is cut off, mysqld starts
//	to orders-0  Follow     (the same again)                       executed is within G: it follows, no longer held
//
// Could nobody be promoted, the manager would send Start {epoch 2} to orders-0, and open it again by Promote once orders-1 has
// received everything in its binary log.
//
// # On the volume
//
//	agent/state.json        the state above
//	agent/tails/            what was cut off binary logs, the newest ten; mysqlbinlog reads them
//	agent/quarantine/       what replaced data directories alone held, the newest ten; mysqlbinlog reads them, people the dumps beside
//	mysql/                  the data directory
//	mysql/porpoise.json     which incarnation of which cluster it is; written last when it is made
//	mysql.new/              a data directory being made; nothing unique is in it
//	mysql.old/              a data directory that mysql/ has replaced, or is about to: see settleRebuild
package agent
