// Package binlog reads the last binary log file of a mysqld that does not run, and cuts off its end.
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
package binlog
