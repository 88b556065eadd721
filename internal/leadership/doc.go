// Package leadership lets a lane of the manager act only while it holds its Lease, without taking anything down when the
// Lease is lost. Caches, queues and streams belong to the process and stay warm; what comes and goes is the right to act.
//
// That right is held in terms. A term begins when the Lease is taken and ends, for good, when it is lost: contexts given to
// reconciles end with it, and whoever still runs by then is refused every write and every command (INV-2, INV-6). The next
// term begins only after everything of the last one has returned, forgets what the last one remembered, and looks at every
// object once.
//
// Within a term acting is refused, by the clock, once the Lease has not been renewed for so long that another manager might
// soon take it. A process that was frozen or starved therefore acts no more when it wakes up, before it knows of any loss.
// This narrows the overlap of two leaders as far as clocks can; that the overlap does no harm is the doing of epochs
// (INV-3) and of compare and swap.
package leadership
