package mycnf

import (
	"fmt"
	"slices"
	"strings"
)

// owned options carry the operator's promises; the value says what would break.
var owned = map[string]string{
	"admin_address": reach, "admin_port": reach, "admin_ssl_ca": tls, "admin_ssl_cert": tls, "admin_ssl_key": tls, "admin_ssl_capath": tls,
	"admin_ssl_crl": tls, "admin_ssl_crlpath": tls, "admin_tls_version": tls, "bind_address": reach, "create_admin_listener_thread": reach,
	"offline_mode": roles, "port": reach, "require_secure_transport": tls, "socket": reach, "skip_networking": reach, "networking": reach,
	"skip_grant_tables": reach, "grant_tables": reach, "skip_name_resolve": reach, "name_resolve": reach,
	"ssl_ca": tls, "ssl_capath": tls, "ssl_cert": tls, "ssl_crl": tls, "ssl_crlpath": tls, "ssl_key": tls, "tls_version": tls,
	"auto_generate_certs": tls,

	"binlog_do_db": history, "binlog_format": history, "binlog_gtid_simple_recovery": gtids,
	"binlog_ignore_db": history, "binlog_row_image": history, "binlog_checksum": history, "binlog_error_action": history,
	"binlog_order_commits": history, "enforce_gtid_consistency": gtids, "gtid_executed": gtids, "gtid_mode": gtids, "gtid_purged": gtids,
	"gtid_next": gtids, "sql_log_bin": history, "log_bin": history, "bin_log": history, "log_bin_index": history, "log_replica_updates": history,
	"log_slave_updates": history, "relay_log": history, "relay_log_index": history, "relay_log_purge": history,
	"relay_log_recovery": durability, "relay_log_space_limit": history,

	"innodb_doublewrite": durability, "innodb_flush_log_at_trx_commit": durability, "innodb_flush_method": durability,
	"innodb_force_recovery": durability, "innodb_read_only": roles, "sync_binlog": durability, "sync_relay_log": durability,
	"sync_source_info": durability, "sync_master_info": durability, "tc_heuristic_recover": durability, "innodb_fast_shutdown": durability,

	"init_replica": roles, "init_slave": roles, "read_only": roles, "super_read_only": roles, "replica_net_timeout": witness,
	"slave_net_timeout": witness, "replica_preserve_commit_order": history, "slave_preserve_commit_order": history,
	"replica_skip_errors": history, "slave_skip_errors": history, "replica_exec_mode": history, "slave_exec_mode": history,
	"replica_type_conversions": history, "slave_type_conversions": history, "report_host": identity, "report_port": identity, "report_user": identity,
	"report_password": identity, "server_id": identity, "server_id_bits": identity, "server_uuid": identity, "skip_replica_start": roles,
	"skip_slave_start": roles, "replica_start": roles, "slave_start": roles, "source_info_file": paths, "master_info_file": paths,
	"replicate_same_server_id": history,

	"basedir": paths, "datadir": paths, "early_plugin_load": plugins, "init_file": paths, "innodb_data_home_dir": paths,
	"innodb_directories": paths, "innodb_doublewrite_dir": paths, "innodb_log_group_home_dir": paths, "innodb_temp_data_file_path": paths,
	"innodb_temp_tablespaces_dir": paths, "innodb_tmpdir": paths, "innodb_undo_directory": paths, "general_log_file": paths,
	"slow_query_log_file": paths, "console": paths, "lc_messages_dir": paths, "character_sets_dir": paths,
	"log_error": paths, "pid_file": paths, "plugin_dir": plugins, "plugin_load": plugins, "plugin_load_add": plugins, "replica_load_tmpdir": paths,
	"slave_load_tmpdir": paths, "secure_file_priv": paths, "tmpdir": paths, "chroot": paths, "user": paths, "daemonize": paths,
	"initialize": paths, "initialize_insecure": paths, "defaults_file": paths, "defaults_extra_file": paths, "no_defaults": paths,
	"defaults_group_suffix": paths, "print_defaults": paths, "help": paths, "verbose": paths, "version": paths, "validate_config": paths,
	"upgrade": paths, "container_aware": paths, "no_monitor": paths, "persisted_globals_load": identity, "persist_only_admin_x509_subject": identity,
	"clone_valid_donor_list": witness, "clone_ssl_ca": tls, "clone_ssl_cert": tls, "clone_ssl_key": tls, "mysqlx": reach,
	"performance_schema": witness, "default_storage_engine": durability, "disabled_storage_engines": durability,
}

const (
	reach      = "the operator reaches mysqld by it"
	tls        = "the operator makes and renews the certificates"
	gtids      = "replication finds its place by GTIDs"
	history    = "every instance must hold the whole history"
	durability = "acknowledged transactions must survive"
	roles      = "the operator decides who takes writes"
	witness    = "the operator observes replication by it"
	identity   = "it must be unique and stable in the cluster"
	paths      = "the volumes are laid out by the operator"
	plugins    = "the operator loads the plugins that replication needs"
)

// ownedPrefixes are families of options that are owned as a whole.
var ownedPrefixes = map[string]string{
	"rpl_semi_sync_": durability, "replicate_": history, "group_replication_": roles, "mysqlx_": reach, "daemon_memcached": reach,
	"ssl_fips": tls, "skip_log_": history,
}

// fullNames are options that are not owned though an owned one begins with their name.
var fullNames = []string{"general_log", "lc_messages", "slow_query_log", "ssl"}

// modifiers stand before an option's name; mysqld takes each.
var modifiers = []string{"loose_", "skip_", "disable_", "enable_", "maximum_"}

// OwnedOptions returns the canonical names of the options that users may not set, sorted. Families (rpl_semi_sync_*)
// stand there with an asterisk.
func OwnedOptions() []string {
	var out []string
	for name := range owned {
		out = append(out, name)
	}
	for prefix := range ownedPrefixes {
		out = append(out, prefix+"*")
	}
	slices.Sort(out)
	return out
}

// OwnedError says that a user's setting names an option of the operator.
type OwnedError struct {
	// Name as the user gave it, in canonical form.
	Name string
	// Option that it means.
	Option string
	// Why the operator owns it.
	Why string
}

func (e *OwnedError) Error() string {
	if e.Name == e.Option {
		return fmt.Sprintf("option %q belongs to the operator: %s; remove it", e.Name, e.Why)
	}
	return fmt.Sprintf("option %q means %q, which belongs to the operator: %s; remove it", e.Name, e.Option, e.Why)
}

// Check refuses owned options by name: an *OwnedError for the first by alphabet, nil if there is none. Whether the rest
// is right, mysqld itself is asked.
func Check(s Settings) error {
	for _, name := range s.Names() {
		if option, why := ownedBy(name); option != "" {
			return &OwnedError{Name: name, Option: option, Why: why}
		}
	}
	return nil
}

// ownedBy returns the owned option that a name means, or "".
func ownedBy(name string) (option, why string) {
	for _, meant := range meanings(name) {
		if why, ok := owned[meant]; ok {
			return meant, why
		}
		for prefix, why := range ownedPrefixes {
			if strings.HasPrefix(meant, prefix) {
				return prefix + "*", why
			}
		}
		if option := abbreviated(meant); option != "" {
			return option, owned[option]
		}
	}
	return "", ""
}

// abbreviated returns the first owned option that begins with name: mysqld takes unambiguous abbreviations.
func abbreviated(name string) string {
	if slices.Contains(fullNames, name) {
		return ""
	}
	var found []string
	for option := range owned {
		if strings.HasPrefix(option, name) {
			found = append(found, option)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// meanings returns the names that an option's name may stand for: itself, and itself without modifiers.
func meanings(name string) []string {
	out := []string{name}
	for i := 0; i < len(out) && len(out) < 8; i++ {
		for _, m := range modifiers {
			if rest, ok := strings.CutPrefix(out[i], m); ok && rest != "" {
				out = append(out, rest)
			}
		}
	}
	return out
}
