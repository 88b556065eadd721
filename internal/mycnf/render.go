package mycnf

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Instance holds what an option file depends on.
type Instance struct {
	// ServerID is unique in the cluster, from 1.
	ServerID uint32
	// DataDir, RunDir and TmpDir are directories; the socket is mysqld.sock in RunDir.
	DataDir, RunDir, TmpDir string
	// InitFile is run at boot; empty: none.
	InitFile string
	// BindAddress and Port are where clients connect, AdminAddress and AdminPort where the agent may.
	BindAddress  string
	Port         int
	AdminAddress string
	AdminPort    int
	// ReportHost is the host name by which other instances reach this one.
	ReportHost string
	// CAFile, CertFile and KeyFile are PEM files for client connections.
	CAFile, CertFile, KeyFile string
	// MemoryBytes is the container's limit; 0: none.
	MemoryBytes int64
	// User holds the user's settings; they come last and have passed Check.
	User Settings
}

type option struct{ name, value string }

type section struct {
	why     string
	options []option
}

// Socket returns the path of the unix socket.
func (i Instance) Socket() string { return filepath.Join(i.RunDir, "mysqld.sock") }

// Render returns the option file of a serving instance. The same arguments give the same text.
func Render(i Instance) string {
	var b strings.Builder
	b.WriteString("# Made by the agent at each start of mysqld; changes are lost.\n[mysqld]\n")
	for _, s := range ownedSections(i) {
		writeSection(&b, s.why, s.options)
	}
	writeSection(&b, "Defaults; settings of the user win.", i.defaults())
	if len(i.User.options) > 0 {
		b.WriteString("\n# Settings of the user.\n")
		for _, name := range i.User.Names() {
			b.WriteString(line(name, i.User.options[name]))
		}
	}
	return b.String()
}

func writeSection(b *strings.Builder, why string, options []option) {
	b.WriteString("\n# " + why + "\n")
	for _, o := range options {
		b.WriteString(line(o.name, value{text: o.value}))
	}
}

func ownedSections(i Instance) []section {
	initFile := []option{}
	if i.InitFile != "" {
		initFile = append(initFile, option{"init_file", i.InitFile})
	}
	return []section{
		{"Identity and paths.", append([]option{
			{"server_id", strconv.FormatUint(uint64(i.ServerID), 10)},
			{"report_host", i.ReportHost},
			{"report_port", strconv.Itoa(i.Port)},
			{"datadir", i.DataDir},
			{"socket", i.Socket()},
			{"pid_file", filepath.Join(i.RunDir, "mysqld.pid")},
			{"tmpdir", i.TmpDir},
			{"secure_file_priv", "NULL"},
			{"log_error", "stderr"},
		}, initFile...)},
		{"Who can connect, and how.", []option{
			{"bind_address", i.BindAddress},
			{"port", strconv.Itoa(i.Port)},
			{"admin_address", i.AdminAddress},
			{"admin_port", strconv.Itoa(i.AdminPort)},
			{"create_admin_listener_thread", "ON"},
			{"mysqlx", "OFF"},
			{"skip_name_resolve", "ON"},
			{"require_secure_transport", "ON"},
			{"tls_version", "TLSv1.2,TLSv1.3"},
			{"ssl_ca", i.CAFile},
			{"ssl_cert", i.CertFile},
			{"ssl_key", i.KeyFile},
			{"auto_generate_certs", "OFF"},
			{"admin_tls_version", "TLSv1.2,TLSv1.3"},
			{"admin_ssl_ca", i.CAFile},
			{"admin_ssl_cert", i.CertFile},
			{"admin_ssl_key", i.KeyFile},
		}},
		{"Every boot is read-only and without replication; the manager's command gives the role.", []option{
			{"super_read_only", "ON"},
			{"skip_replica_start", "ON"},
		}},
		{"One history, found by GTID.", []option{
			{"gtid_mode", "ON"},
			{"enforce_gtid_consistency", "ON"},
			{"log_bin", "binlog"},
			{"log_replica_updates", "ON"},
			{"relay_log", "relay"},
			{"binlog_row_image", "FULL"},
			{"binlog_checksum", "CRC32"},
			{"binlog_error_action", "ABORT_SERVER"},
			{"binlog_order_commits", "ON"},
			{"replica_preserve_commit_order", "ON"},
		}},
		{"Durable: a commit, and a replica's acknowledgement. relay_log_recovery=ON would throw acknowledged ones away.", []option{
			{"sync_binlog", "1"},
			{"innodb_flush_log_at_trx_commit", "1"},
			{"innodb_doublewrite", "ON"},
			{"relay_log_recovery", "OFF"},
			{"sync_relay_log", "1"},
		}},
		{"Semi-sync never gives up waiting; each side is switched on by the role.", []option{
			{"plugin_load_add", "semisync_source.so"},
			{"plugin_load_add", "semisync_replica.so"},
			{"plugin_load_add", "mysql_clone.so"},
			{"rpl_semi_sync_source_enabled", "OFF"},
			{"rpl_semi_sync_replica_enabled", "OFF"},
			{"rpl_semi_sync_source_timeout", "99999999999"},
			{"rpl_semi_sync_source_wait_no_replica", "ON"},
			{"rpl_semi_sync_source_wait_point", "AFTER_SYNC"},
		}},
		{"Replicas are witnesses: they notice a lost source in seconds.", []option{
			{"replica_net_timeout", "2"},
			{"performance_schema", "ON"},
		}},
	}
}

// defaults returns the options that a user may override, without those that the user did.
func (i Instance) defaults() []option {
	all := append(sized(i),
		// A week of binary logs serves a replica that was away for long, and point-in-time recovery until it ships them.
		option{"binlog_expire_logs_seconds", "604800"},
		option{"max_binlog_size", strconv.Itoa(256 * mib)},
		option{"replica_parallel_workers", "4"},
		option{"binlog_row_metadata", "FULL"},
		// The default of 9.x is 64 MiB, resident from the start; 16 MiB holds more than a second of redo.
		option{"innodb_log_buffer_size", strconv.Itoa(16 * mib)},
		// Half of performance_schema's memory is in tables that nobody reads here; these keep it near 100 MiB.
		option{"performance_schema_digests_size", "2000"},
		option{"performance_schema_events_statements_history_long_size", "100"},
		option{"performance_schema_events_stages_history_long_size", "100"},
		option{"performance_schema_events_transactions_history_long_size", "100"},
		option{"performance_schema_events_waits_history_long_size", "100"},
		// A container's log has no rotation of its own for warnings about client mistakes; errors and warnings are enough.
		option{"log_error_verbosity", "2"},
	)
	out := all[:0]
	for _, o := range all {
		if !i.User.has(o.name) {
			out = append(out, o)
		}
	}
	return out
}

// RenderInitialize returns the option file for making an empty data directory in i.DataDir. Of the user's settings
// those take part that shape the directory (lower_case_table_names, innodb_page_size, …), so all are given as loose:
// plugins, whose options would be unknown, are not loaded then. Nothing unique is in that directory until it has been
// synced as a whole and renamed, so writing it is not slowed down by flushing.
func RenderInitialize(i Instance) string {
	var b strings.Builder
	b.WriteString("# Made by the agent for mysqld --initialize-insecure.\n[mysqld]\n")
	options := []option{
		{"datadir", i.DataDir}, {"tmpdir", i.TmpDir}, {"secure_file_priv", "NULL"}, {"log_error", "stderr"}, {"mysqlx", "OFF"},
		{"server_id", strconv.FormatUint(uint64(i.ServerID), 10)}, {"auto_generate_certs", "OFF"},
		{"innodb_buffer_pool_size", strconv.Itoa(fallbackPool)},
		{"innodb_flush_log_at_trx_commit", "0"}, {"innodb_doublewrite", "OFF"}, {"log_error_verbosity", "2"},
	}
	if i.InitFile != "" {
		options = append(options, option{"init_file", i.InitFile})
	}
	for _, o := range options {
		b.WriteString(line(o.name, value{text: o.value}))
	}
	for _, name := range i.User.Names() {
		if strings.HasPrefix(strings.TrimPrefix(name, "loose_"), "innodb_buffer_pool") {
			continue
		}
		b.WriteString(line("loose_"+strings.TrimPrefix(name, "loose_"), i.User.options[name]))
	}
	return b.String()
}
