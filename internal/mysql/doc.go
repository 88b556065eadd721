// Package mysql is how the agent talks SQL to its own mysqld. It is the only place that knows MySQL's error numbers,
// statement spellings and table layouts; everything here works on 8.4 and 9.7.
//
// # Sessions
//
// A Server holds two pools over the unix socket: one for status, one for commands. Their sessions are opened at boot and
// never given up, since a new login may be impossible later: an account statement that waits for an acknowledgement
// holds the lock that each login needs. When the socket does not admit a session (all connections taken), the
// admin listener on the loopback address is tried.
//
// Every call has a deadline. Statements that may wait for locks set lock_wait_timeout, so that they end by themselves
// and their session lives on.
//
// # Worked example
//
//	server, err := mysql.Connect(ctx, mysql.Options{Socket: "/run/porpoise/mysqld.sock", User: "porpoise", Password: p})
//	status, err := server.Status(ctx)
//	err = server.SetReadOnly(ctx)        // trust only its success: INV-2
//	if mysql.IsLockWait(err) { … }       // commits wait for acknowledgement: never shut down cleanly now
package mysql
