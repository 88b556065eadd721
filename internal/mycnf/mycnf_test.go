package mycnf

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func example(memory int64, user string, t *testing.T) Instance {
	t.Helper()
	settings, err := ParseUser("test", user)
	if err != nil {
		t.Fatal(err)
	}
	return Instance{
		ServerID: 2, DataDir: "/var/lib/porpoise/mysql", RunDir: "/run/porpoise", TmpDir: "/tmp", InitFile: "/run/porpoise/boot.sql",
		BindAddress: "*", Port: 3306, AdminAddress: "127.0.0.1", AdminPort: 33062, ReportHost: "orders-1-0.orders-instances.shop.svc",
		CAFile: "/etc/porpoise/tls/ca.crt", CertFile: "/etc/porpoise/tls/tls.crt", KeyFile: "/etc/porpoise/tls/tls.key",
		MemoryBytes: memory, User: settings,
	}
}

func TestRender(t *testing.T) {
	for name, text := range map[string]string{
		"no-limit":   Render(example(0, "", t)),
		"512mi":      Render(example(512<<20, "", t)),
		"4gi":        Render(example(4<<30, "", t)),
		"64gi":       Render(example(64<<30, "", t)),
		"user":       Render(example(2<<30, "max-connections = 300\nloose_innodb_buffer_pool_size=1G # mine\ninit_connect='SET NAMES utf8mb4'\nskip_external_locking\n", t)),
		"initialize": RenderInitialize(example(1<<30, "lower_case_table_names=1\ninnodb_buffer_pool_size=1G\n", t)),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".cnf")
			if *update {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if text != string(want) {
				t.Errorf("differs from %s (go test -update rewrites it):\n%s", path, text)
			}
		})
	}
}

// TestBufferPool: the pool is a whole number of chunks times instances, so that mysqld does not round it up, and leaves
// room for the rest.
func TestBufferPool(t *testing.T) {
	for memory := int64(256 * mib); memory <= 1<<38; memory += memory / 7 {
		connections := Connections(memory)
		pool := BufferPool(memory, connections)
		if pool%(poolChunk(pool)*poolInstances(pool)) != 0 {
			t.Errorf("memory %d: pool %d is no multiple of %d chunks of %d", memory, pool, poolInstances(pool), poolChunk(pool))
		}
		if pool < minimumPool/2 || pool > memory/10*7 {
			t.Errorf("memory %d: pool %d", memory, pool)
		}
		if rest := memory - pool - connections*connectionMemory; memory >= 512*mib && rest < baseMemory {
			t.Errorf("memory %d: pool %d and %d connections leave %d", memory, pool, connections, rest)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, name := range []string{"gtid_mode", "gtid-mode", "GTID-MODE", "loose_gtid_mode", "loose-skip-log-bin", "skip_log_bin", "disable-log-bin",
		"log_bi", "super_read", "skip_networking", "rpl_semi_sync_source_timeout", "loose-rpl-semi-sync-replica-enabled", "replicate_do_db", "mysqlx",
		"skip-mysqlx", "datadir", "server-id", "server_i", "tls_version", "maximum-sync-binlog", "enable_read_only", "plugin-load-add", "sync_relay_log",
		"relay-log-recovery", "performance_schema", "skip_grant_tables", "skip-performance-schema", "init_replica", "group_replication_start_on_boot"} {
		s, err := FromMap(map[string]string{name: "1"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var owned *OwnedError
		if err := Check(s); !errors.As(err, &owned) || owned.Why == "" {
			t.Errorf("%s passes: %v", name, err)
		}
	}
	for _, name := range []string{"max_connections", "innodb_buffer_pool_size", "general_log", "slow_query_log", "lc_messages", "long_query_time", "sql_mode",
		"log_bin_trust_function_creators", "log_error_verbosity", "performance_schema_digests_size", "binlog_expire_logs_seconds", "replica_parallel_workers",
		"character_set_server", "innodb_io_capacity", "event_scheduler", "lower_case_table_names", "loose_validate_password.policy", "transaction_isolation",
		"binlog_row_value_options", "max_allowed_packet", "init_connect", "skip_external_locking", "local_infile", "log_queries_not_using_indexes"} {
		s, err := FromMap(map[string]string{name: "1"})
		if err == nil {
			err = Check(s)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOwnedRendered: what is rendered as owned is refused from users, or a user could set it a second time.
func TestOwnedRendered(t *testing.T) {
	for _, section := range ownedSections(example(1<<30, "", t)) {
		for _, o := range section.options {
			if option, _ := ownedBy(o.name); option == "" {
				t.Errorf("%s is rendered as owned but users may set it", o.name)
			}
		}
	}
	for _, o := range example(1<<30, "", t).defaults() {
		if option, _ := ownedBy(o.name); option != "" {
			t.Errorf("%s is a default but users may not set it (%s)", o.name, option)
		}
	}
	if !slices.IsSorted(OwnedOptions()) {
		t.Error("OwnedOptions is not sorted")
	}
}

func TestParseUser(t *testing.T) {
	s, err := ParseUser("ConfigMap a", "# note\n; note\n\n[mysqld]\nMax-Connections=10\nmax_connections = 20 # later\nsql_mode=\"ANSI,TRADITIONAL\"\n"+
		"init_connect='SET @a = \\'x # y\\''\nskip_external_locking # bare\nft_stopword_file=\n")
	if err != nil {
		t.Fatal(err)
	}
	want := "[mysqld]\nft_stopword_file=\ninit_connect=\"SET @a = 'x # y'\"\nmax_connections=20\nskip_external_locking\nsql_mode=ANSI,TRADITIONAL\n"
	if got := s.Text(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for text, names := range map[string]string{
		"[client]\nuser=x":   "[client]",
		"!include /etc/x":    "include",
		"[mysqld":            "bracket",
		"=1":                 "name",
		"a b=1":              "a b",
		"x=a\\nb":            "line",
		"9x=1":               "9x",
		"ok=1\nnot ok = 2\n": "line 2",
	} {
		if _, err := ParseUser("ConfigMap a", text); err == nil || !strings.Contains(err.Error(), names) || !strings.Contains(err.Error(), "ConfigMap a") {
			t.Errorf("%q: error %v should name %q", text, err, names)
		}
	}
	if _, err := ParseUser("f", strings.Repeat("#", MaxText+1)); err == nil {
		t.Error("a text that is too long is taken")
	}
	if _, err := FromMap(map[string]string{"a-b": "1", "a_b": "2"}); err == nil {
		t.Error("two spellings of one option are taken")
	}
}

func TestMerge(t *testing.T) {
	a, _ := FromMap(map[string]string{"x": "1", "y": "1"})
	b, _ := FromMap(map[string]string{"y": "2"})
	if got := Merge(a, b).Text(); got != "[mysqld]\nx=1\ny=2\n" {
		t.Errorf("got %q", got)
	}
	if Merge().Text() != "" {
		t.Error("no settings print something")
	}
}

// FuzzParseUser: what is read prints as a text that reads as the same.
func FuzzParseUser(f *testing.F) {
	for _, seed := range []string{"a=1", "a", "a='x'", "a=\"\\s\\t\\\\\"", "a=#", "a='#'", "[mysqld]\nb = c d ", "x=\\", "x='\\'", "x=\"a\"b\"", "x= 'a' 'b' "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseUser("fuzz", text)
		if err != nil {
			return
		}
		again, err := ParseUser("again", s.Text())
		if err != nil {
			t.Fatalf("%q prints %q, which does not read: %v", text, s.Text(), err)
		}
		if again.Text() != s.Text() {
			t.Fatalf("%q prints %q, which reads as %q", text, s.Text(), again.Text())
		}
		for _, name := range s.Names() {
			was, _ := s.Get(name)
			if is, _ := again.Get(name); is != was {
				t.Fatalf("%s: %q became %q", name, was, is)
			}
		}
	})
}
