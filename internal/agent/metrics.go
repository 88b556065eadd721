package agent

import (
	"context"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// counter maps a status counter of the server to a metric.
type counter struct {
	status string
	kind   prometheus.ValueType
	desc   *prometheus.Desc
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("porpoise_"+name, help, labels, nil)
}

// The metrics of an instance. There is one series of each, except for role and build: Prometheus adds the pod's labels.
var (
	descUp        = describe("mysql_up", "1 when mysqld answers the agent's SQL, else 0.")
	descRole      = describe("instance_role", "1 for the role that the instance holds (Primary, Replica or None).", "role")
	descConfirmed = describe("instance_role_confirmed", "1 when a manager has confirmed the role since the agent's start.")
	descWritable  = describe("mysql_writable", "1 when clients can write.")
	descEpoch     = describe("instance_epoch", "Epoch that the instance knows; it grows with every change of primary.")
	descExits     = describe("mysqld_exits_total", "Ends of mysqld that nobody asked for, since the agent's start.")
	descStart     = describe("mysqld_start_time_seconds", "Start of the running mysqld, in seconds since 1970.")
	descBlocked   = describe("mysql_login_blocked", "1 when logins hang behind an account statement that waits for an acknowledgement.")
	descLag       = describe("replication_lag_seconds", "Age of the oldest transaction that is received and not applied; 0 when all is applied. Absent when unknown.")
	descBehind    = describe("replication_unapplied_transactions", "Transactions received and not applied.")
	descReceiver  = describe("replication_receiver_up", "1 when the receiver is connected to the primary.")
	descApplier   = describe("replication_applier_up", "1 when the applier runs.")
	descClients   = describe("semisync_clients", "Semi-sync replicas that are connected to this primary.")
	descWaiting   = describe("semisync_waiting_sessions", "Commit groups that wait for acknowledgement.")
	descRequired  = describe("semisync_required_acks", "Acknowledgements that a commit waits for; 0: none.")
	descGTIDs     = describe("gtid_executed_count", "Number of transactions in gtid_executed.")
	descFree      = describe("data_volume_free_bytes", "Bytes free on the data volume for mysqld.")
	descSize      = describe("data_volume_size_bytes", "Size of the data volume.")
	descBuild     = describe("agent_build_info", "1, labelled with the versions of agent and mysqld.", "version", "mysql_version")
)

var counters = []counter{
	{"Threads_connected", prometheus.GaugeValue, describe("mysql_threads_connected", "Sessions that are open.")},
	{"Threads_running", prometheus.GaugeValue, describe("mysql_threads_running", "Sessions that are executing something.")},
	{"Max_used_connections", prometheus.GaugeValue, describe("mysql_max_used_connections", "Most sessions open at once since mysqld's start.")},
	{"Questions", prometheus.CounterValue, describe("mysql_questions_total", "Statements sent by clients.")},
	{"Slow_queries", prometheus.CounterValue, describe("mysql_slow_queries_total", "Statements longer than long_query_time.")},
	{"Handler_commit", prometheus.CounterValue, describe("mysql_commits_total", "Commits (internal ones of storage engines).")},
	{"Aborted_connects", prometheus.CounterValue, describe("mysql_aborted_connects_total", "Logins that failed.")},
	{"Innodb_buffer_pool_bytes_data", prometheus.GaugeValue, describe("innodb_buffer_pool_data_bytes", "Bytes of data in the buffer pool.")},
	{"Innodb_buffer_pool_bytes_dirty", prometheus.GaugeValue, describe("innodb_buffer_pool_dirty_bytes", "Bytes in the buffer pool that are not written yet.")},
	{"Innodb_buffer_pool_read_requests", prometheus.CounterValue, describe("innodb_buffer_pool_read_requests_total", "Logical reads.")},
	{"Innodb_buffer_pool_reads", prometheus.CounterValue, describe("innodb_buffer_pool_reads_total", "Logical reads that needed the disk.")},
	{"Innodb_row_lock_time", prometheus.CounterValue, describe("innodb_row_lock_time_milliseconds_total", "Time spent waiting for row locks.")},
	{"Binlog_cache_disk_use", prometheus.CounterValue, describe("binlog_cache_disk_use_total", "Transactions too large for the binary log's cache.")},
}

// metrics returns a registry with this agent's metrics alone.
func (a *Agent) metrics() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{a})
	return registry
}

// collector reads the last status document, and the server's counters at each scrape.
type collector struct{ agent *Agent }

// Describe sends nothing: which metrics there are depends on the role.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of this moment.
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	doc := c.agent.hub.peek()
	role := string(doc.Role)
	if role == "" {
		role = "None"
	}
	gauge(descUp, truth(doc.Server != nil))
	gauge(descRole, 1, role)
	gauge(descConfirmed, truth(doc.Confirmed))
	gauge(descEpoch, float64(doc.Epoch))
	gauge(descBlocked, truth(doc.Process.LoginBlocked))
	gauge(descBuild, 1, doc.AgentVersion, doc.Process.Version)
	out <- prometheus.MustNewConstMetric(descExits, prometheus.CounterValue, float64(doc.Process.Exits))
	if doc.Process.PID != 0 && doc.Process.StartedAt != nil {
		gauge(descStart, float64(doc.Process.StartedAt.UnixMilli())/1e3)
	}
	collectVolume(c.agent.cfg.Paths.State, gauge)
	if doc.Server != nil {
		collectServer(doc.Server, gauge)
		c.collectCounters(out)
	}
}

type gaugeFunc func(desc *prometheus.Desc, v float64, labels ...string)

func collectServer(s *agentapi.ServerStatus, gauge gaugeFunc) {
	gauge(descWritable, truth(!s.ReadOnly && !s.SuperReadOnly))
	gauge(descGTIDs, float64(s.GTIDExecuted.Count()))
	required := 0
	if s.SemiSync.SourceEnabled {
		required = s.SemiSync.WaitForReplicaCount
	}
	gauge(descRequired, float64(required))
	gauge(descClients, float64(s.SemiSync.Clients))
	gauge(descWaiting, float64(s.SemiSync.WaitSessions))
	if r := s.Replication; r != nil {
		gauge(descReceiver, truth(r.Receiver == "ON"))
		gauge(descApplier, truth(r.Applier == "ON"))
		gauge(descBehind, float64(r.Received.Subtract(s.GTIDExecuted).Count()))
		if r.LagSeconds != nil {
			gauge(descLag, *r.LagSeconds)
		}
	}
}

func collectVolume(path string, gauge gaugeFunc) {
	var fs syscall.Statfs_t
	if syscall.Statfs(path, &fs) == nil {
		gauge(descFree, float64(fs.Bavail)*float64(fs.Bsize))
		gauge(descSize, float64(fs.Blocks)*float64(fs.Bsize))
	}
}

func (c collector) collectCounters(out chan<- prometheus.Metric) {
	s := c.agent.current()
	if s == nil {
		return
	}
	names := make([]string, 0, len(counters))
	for _, counter := range counters {
		names = append(names, counter.status)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	values, err := s.server.Counters(ctx, names)
	if err != nil {
		c.agent.garbage.log("counters", "Reading counters for metrics failed", err)
		return
	}
	for _, counter := range counters {
		if v, ok := values[counter.status]; ok {
			out <- prometheus.MustNewConstMetric(counter.desc, counter.kind, v)
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
