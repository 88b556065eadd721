package mycnf

import "strconv"

const mib = 1 << 20

const (
	// baseMemory is what mysqld 9.7 takes before a client connects: code, data dictionary, performance_schema as
	// rendered here, replication and log buffers (about 250 MiB resident, measured with a small pool), with headroom.
	baseMemory = 320 * mib
	// connectionMemory is what a connection takes on average: thread stack and net buffers, some with sort or join
	// buffers (256 KiB each) in use.
	connectionMemory = mib / 2
	// minimumPool is the least that is useful; less memory than that is the user's wish.
	minimumPool = 64 * mib
	// fallbackPool is MySQL's own default, for containers without a limit: guessing from the node's memory would take
	// what other pods were promised.
	fallbackPool = 128 * mib
	// fallbackConnections is MySQL's own default.
	fallbackConnections = 151
)

// Connections returns the default of max_connections: one per 8 MiB of the limit, 100 to 2000; 151 without a limit.
// (Managed services take one per 12 MiB of memory; with half a MiB each, 8 MiB leaves 94 % to other uses.)
func Connections(memoryBytes int64) int64 {
	if memoryBytes <= 0 {
		return fallbackConnections
	}
	return min(max(memoryBytes/(8*mib), 100), 2000)
}

// BufferPool returns innodb_buffer_pool_size in bytes:
//
//	min(70 % of the limit, limit - 320 MiB - 0.5 MiB * connections), at least 64 MiB, rounded down to whole chunks
//
// 70 % is what the MySQL manual's 50 to 75 % of a dedicated server comes to, less the page cache that the kernel charges
// to the container (binary logs, relay logs); the second term keeps small containers from being killed for memory when
// all connections are in use. Without a limit it is 128 MiB, MySQL's default.
func BufferPool(memoryBytes, connections int64) int64 {
	if memoryBytes <= 0 {
		return fallbackPool
	}
	pool := min(memoryBytes/10*7, memoryBytes-baseMemory-connections*connectionMemory)
	pool = max(pool, minimumPool)
	unit := poolChunk(pool) * poolInstances(pool)
	return pool / unit * unit
}

// poolInstances is innodb_buffer_pool_instances: one per GiB, 1 to 8; it is rendered, so that the size is a multiple of
// chunk times instances and mysqld does not round it up.
func poolInstances(pool int64) int64 { return min(max(pool/(1024*mib), 1), 8) }

// poolChunk is innodb_buffer_pool_chunk_size: small for small pools, so that little is lost by rounding.
func poolChunk(pool int64) int64 {
	if pool < 1024*mib {
		return 16 * mib
	}
	return 128 * mib
}

// sized returns the options that depend on memory.
func sized(i Instance) []option {
	connections := Connections(i.MemoryBytes)
	if text, ok := i.User.Get("max_connections"); ok {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n <= 100_000 {
			connections = n
		}
	}
	out := []option{{"max_connections", strconv.FormatInt(connections, 10)}}
	if i.User.has("innodb_buffer_pool_size") {
		return out
	}
	pool := BufferPool(i.MemoryBytes, connections)
	return append(out,
		option{"innodb_buffer_pool_chunk_size", strconv.FormatInt(poolChunk(pool), 10)},
		option{"innodb_buffer_pool_instances", strconv.FormatInt(poolInstances(pool), 10)},
		option{"innodb_buffer_pool_size", strconv.FormatInt(pool, 10)},
	)
}
