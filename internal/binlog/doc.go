// Package binlog reads the binary log files of a mysqld that does not run: it cuts off the end of the last one, and copies
// chosen transactions out of all of them.
//
// A primary that crashes while commits wait for acknowledgement has them in its binary log, and makes them visible when it
// starts again. Where another instance was promoted meanwhile they must not come back: nobody was told that they are
// committed, and no other instance has them. As long as mysqld has not been started they can be cut off: InnoDB holds them
// prepared only, and rolls back on recovery what the binary log does not name.
//
// The package is careful rather than clever: whatever it does not understand (an encrypted log, a bad checksum, a
// transaction of the promoted set behind one that is not, a log that was closed cleanly) is ErrRefused, and then nothing is
// to be changed.
//
// # Worked example
//
// The new primary had executed u:1-100 when it was opened. The last file of the old one:
//
//	    4  format description        marked as in use: mysqld crashed
//	  127  previous GTIDs            u:1-90
//	  198  GTID u:91, its events     promoted
//	 ...
//	90210  GTID u:101, its events    the tail begins here: Tail{Offset: 90210, GTIDs: u:101-102}
//	90600  GTID u:102, its events
//	91000  (an event that mysqld did not write to its end: no part of the tail's copy, and cut off with it)
//
// WriteTail copies header and tail into a file that mysqlbinlog reads; then the file is truncated to 90210 bytes.
//
// # Transactions out of all files
//
// Before data is replaced, what it alone holds is taken out of its binary logs. Search looks for a set of transactions, in the
// files that can hold some: v:7 is looked for in the second of these only, since the heads tell what each file added.
//
//	binlog.000001  previous GTIDs: none           (u:1-90)
//	binlog.000002  previous GTIDs: u:1-90         GTID v:7, its events; GTID u:91, its events
//	binlog.000003  previous GTIDs: u:1-91,v:7     GTID u:92 (a crash came before its end: not found)
//
// Findings.Write makes a file of format description and v:7 with all of its events. Transactions are copied as they are, also
// compressed ones, and memory is bounded: only places are kept, not content.
package binlog
