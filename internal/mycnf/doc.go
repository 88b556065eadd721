// Package mycnf makes mysqld's option file: it reads the options that users give, refuses those that the operator owns,
// and renders the file that mysqld is started with. It is pure: no I/O, no clock.
//
// There are three kinds of options:
//
//   - owned: durability, replication, identity, paths and TLS. The promises of the operator rest on them, so a user's
//     setting is refused by name, in whatever spelling mysqld would take (dashes, case, loose-, skip-, a prefix);
//   - defaults: sized from the memory limit or chosen for a container; a user's setting wins;
//   - everything else: the user's, checked by the image's own mysqld (agent validate-config).
//
// # Worked example
//
//	file, err := mycnf.ParseUser("ConfigMap tuning", "[mysqld]\nmax-connections = 300\n")
//	inline, err := mycnf.FromMap(map[string]string{"long_query_time": "0.5"})
//	user := mycnf.Merge(file, inline) // later ones win
//	err = mycnf.Check(user)           // nil; gtid_mode or skip-log-bin would be refused
//	user.Text()                       // "[mysqld]\nlong_query_time=0.5\nmax_connections=300\n"
//	mycnf.Render(mycnf.Instance{ServerID: 1, MemoryBytes: 2 << 30, User: user})
//
// # Memory
//
// See BufferPool for the formula and where its numbers come from.
package mycnf
