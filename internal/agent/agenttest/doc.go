// Package agenttest runs agents with real mysqlds on one machine, for tests and benchmarks: each instance has a loopback
// address of its own (ClaimHost), a directory, and certificates of a test CA; a client speaks to them as the manager.
//
//	c := agenttest.New(t, 3)        // directories, addresses, certificates; nothing runs yet
//	c.StartAll()
//	c.Bootstrap(1)                  // instance 0 primary, the others clone and follow, one acknowledgement
//	db := c.Instances[0].AppDB()    // as the application
//	c.Instances[0].KillMysqld()
//
// Agents run within the test's process, or, with Options.Processes, each in a process of its own that can be killed or
// stopped; the test's TestMain must call RunChild first for that.
//
// mysqld comes from the directory in PORPOISE_MYSQL_BIN. As root, mysqlds run as uid 65532.
package agenttest
