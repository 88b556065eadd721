// Package process starts long-running programs that outlive the command and later finds and kills exactly these.
//
// A process is recorded as its pid together with its start time (field 22 of /proc/PID/stat, in clock ticks since boot) and the
// machine's boot id. A pid alone may by then belong to a stranger; the three together never do. Signals go through a pidfd that
// is opened before the record is compared, so that the process cannot be replaced between the check and the kill.
package process
