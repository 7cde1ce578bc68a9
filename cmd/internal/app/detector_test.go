package app

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// An app with the rights of its role finds a stale task, moves it, tells Kafka and dead-letters it, by its settings.
func TestAppDetectsStaleTasks(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	for _, topic := range []string{"life", "dead"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	conn, pool := db.Conn(t), db.Pool(t)
	ledgertest.Apply(t, pool, ledgertest.Template{})
	stale, fresh := ledgertest.Create(t, pool, ledgertest.New{}), ledgertest.Create(t, pool, ledgertest.New{})
	pgtest.SettleLog(t, conn, "0")
	ledgertest.Age(t, pool, stale, 5*time.Hour)
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	address, _ := db.Login(t, "postrider_relay")
	c := settings(t, address, broker.Addrs...)
	c.Tasks.LifecycleTopic, c.DLQ.Topic, c.Staleness.EventChannel, c.Staleness.TaskMaxLifetimeHours = "life", "dead", "late", 4
	var log logtest.Buffer
	a := run(t, Options{Config: c, Roles: []Role{Relay, Detector, HTTP}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	waitReady(t, a)
	if !strings.Contains(log.String(), "task_max_lifetime_hours from 24 to 4") {
		t.Errorf("it does not say which settings of the database it changed:\n%s", &log)
	}
	waitRow(t, conn, "the task is moved", `select state = 'error' from postrider.tasker_tasks where task_uuid = '`+stale.String()+`'`)
	waitRow(t, conn, "the pass is noted", `select coalesce(last_pass_stale = 1, false) from postrider.tasker_detector`)
	if state := ledgertest.State(t, pool, fresh); state != "pending" {
		t.Errorf("the fresh task is %s", state)
	}
	var types []string
	for _, record := range append(broker.ReadAll(t, "life", 2), broker.ReadAll(t, "dead", 1)...) {
		if string(record.Key) != stale.String() {
			t.Errorf("a record of %s", record.Key)
		}
		for _, h := range record.Headers {
			if h.Key == "ce_type" {
				types = append(types, string(h.Value))
			}
		}
	}
	if !slices.Equal(types, []string{"postrider.task.late.v1", "postrider.task.transitioned.v1", "postrider.task.dead_lettered.v1"}) {
		t.Errorf("the records are %q", types)
	}
	eventually(t, "the metrics", func() (bool, string) {
		_, body := get(t, a, "/metrics")
		return strings.Contains(body, `postrider_staleness_detection_duration_seconds_count{dry_run="false"} 1`) &&
			strings.Contains(body, `postrider_tasks_near_stale{kind="state"} 0`), body
	})
}

// Where the rights of the newest version were not given yet, events go all the same.
func TestAppWithoutTheRightsOfTheLedger(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	broker.CreateTopic(t, "orders", 1, nil)
	conn := db.Conn(t)
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`revoke all on postrider.tasker_settings, postrider.tasker_detector from postrider_relay`,
		`insert into postrider.outbox_event (topic, key, payload) values ('orders', 'k', 'v')`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	address, _ := db.Login(t, "postrider_relay")
	a := run(t, Options{Config: settings(t, address, broker.Addrs...), Roles: []Role{Relay, Detector, HTTP}})
	broker.ReadAll(t, "orders", 1)
	eventually(t, "the error is counted", func() (bool, string) {
		_, body := get(t, a, "/metrics")
		return !strings.Contains(body, `postrider_staleness_detection_errors_total{error_type="configuration"} 0`), body
	})
}

// The switches of the two sections work together, and each setting arrives where it is used.
func TestDetectionFromSettings(t *testing.T) {
	t.Parallel()
	load := func(flags map[string]string) config.Config {
		t.Helper()
		c, err := config.Load(config.From{Flags: flags})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if got := Detection(load(nil)); got != ledger.DefaultDetection() {
		t.Errorf("the defaults are %+v", got)
	}
	all := ledgerSettings(load(nil))
	if want := (ledger.Settings{LifecycleTopic: "postrider.lifecycle", DLQTopic: "postrider.dlq", EventChannel: "task_staleness_detected",
		IncludeFullTaskSnapshot: true, ReasonMaxRetriesExceeded: true, ReasonDependencyCycleDetected: true, WarnPercent: 80, Detection: ledger.DefaultDetection()}); all != want {
		t.Errorf("the defaults are %+v", all)
	}
	if got := ledgerSettings(load(map[string]string{"staleness.warn_percent": "65"})).WarnPercent; got != 65 {
		t.Errorf("of staleness.warn_percent 65 became %d", got)
	}
	for _, key := range []string{"staleness.auto_move_to_dlq", "dlq.enabled", "dlq.auto_dlq_on_staleness"} {
		if Detection(load(map[string]string{key: "false"})).AutoMoveToDLQ {
			t.Errorf("%s switches no letters off", key)
		}
	}
	off := ledgerSettings(load(map[string]string{"dlq.enabled": "false"}))
	if off.ReasonMaxRetriesExceeded || off.ReasonDependencyCycleDetected {
		t.Errorf("dlq.enabled leaves %+v", off)
	}
	for key, value := range map[string]string{
		"staleness.dry_run": "true", "staleness.batch_size": "7", "staleness.waiting_for_dependencies_minutes": "1", "staleness.waiting_for_retry_minutes": "2",
		"staleness.steps_in_process_minutes": "3", "staleness.task_max_lifetime_hours": "4", "staleness.worker_unavailable_minutes": "5",
		"staleness.auto_transition_to_error": "false", "staleness.emit_events": "false", "dlq.reason_staleness_timeout": "false", "dlq.reason_worker_unavailable": "false",
	} {
		if Detection(load(map[string]string{key: value})) == ledger.DefaultDetection() {
			t.Errorf("%s changes nothing", key)
		}
	}
	// A command beside serve takes from the database what it was not told.
	if got := DetectionBeside(load(nil)); got != ledger.StoredDetection() {
		t.Errorf("untold it detects with %+v", got)
	}
	told := DetectionBeside(load(map[string]string{"staleness.waiting_for_retry_minutes": "30", "staleness.worker_unavailable_minutes": "7"}))
	if want := ledger.StoredDetection(); told.WaitingForRetryMinutes != 30 || told.WorkerUnavailableMinutes != 7 || told.StepsInProcessMinutes != 0 || told.StoredSwitches != want.StoredSwitches {
		t.Errorf("told two of them it detects with %+v", told)
	}
	if got := DetectionBeside(load(map[string]string{"dlq.enabled": "false"})); got.StoredSwitches || got.AutoMoveToDLQ || !got.AutoTransitionToError {
		t.Errorf("told a switch it detects with %+v", got)
	}
	for key, value := range map[string]string{"tasks.lifecycle_topic": "a", "dlq.topic": "b", "staleness.event_channel": "c",
		"dlq.include_full_task_snapshot": "false", "dlq.reason_max_retries_exceeded": "false", "dlq.reason_dependency_cycle_detected": "false"} {
		if ledgerSettings(load(map[string]string{key: value})) == all {
			t.Errorf("%s changes nothing", key)
		}
	}
}

// Tasks that operators and services move by SQL of their own, while two processes serve, count once: both processes show
// the number of the database, and so does one that starts later.
func TestMetricsCountEveryWorker(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	conn, address, _ := asRelay(t, db, broker)
	pool := db.Pool(t)
	ledgertest.Apply(t, pool, ledgertest.Template{Configuration: `{"steps": [{"name": "a", "max_retries": 0}]}`})
	c := settings(t, address, broker.Addrs...)
	c.Staleness.Enabled, c.Archive.Enabled = false, false
	serve := func(role Role) *App {
		a := run(t, Options{Config: c, Roles: []Role{role, HTTP}})
		waitReady(t, a)
		return a
	}
	first, second := serve(Detector), serve(Archiver)
	show := func(a *App, want ...string) {
		t.Helper()
		eventually(t, "the metrics", func() (bool, string) {
			_, body := get(t, a, "/metrics")
			for _, line := range want {
				if !strings.Contains(body, line+"\n") {
					return false, line + " is not in\n" + body
				}
			}
			return true, ""
		})
	}
	for _, a := range []*App{first, second} {
		show(a, `postrider_tasks_detected_stale_total{action="move_to_dlq",state="pending"} 0`, `postrider_tasks_archived_total{final_state="complete"} 0`,
			`postrider_tasks_moved_to_dlq_total{original_state="steps_in_process",reason="max_retries_exceeded"} 0`)
	}
	for range 3 {
		ledgertest.Age(t, pool, ledgertest.Create(t, pool, ledgertest.New{}), 48*time.Hour)
	}
	failing, done := ledgertest.Create(t, pool, ledgertest.New{}), ledgertest.Create(t, pool, ledgertest.New{})
	ledgertest.Put(t, pool, done, "complete")
	ledgertest.Age(t, pool, done, 48*time.Hour)
	step := ledgertest.Steps(t, pool, failing)["a"].UUID.String()
	for _, as := range [][2]string{
		{"postrider_operator", `begin; select count(*) from postrider.detect_and_transition_stale_tasks(false); select * from postrider.archive_completed_tasks(0, p_dry_run => false, p_archive_failed => false);
			insert into postrider.access_audit (actor, action, target_type) values ('ann', 'by hand', 'task'); commit`},
		{"postrider_writer", `select postrider.start_step('` + step + `', 'w'); select postrider.fail_step('` + step + `', 'no')`},
	} {
		if _, err := conn.PgConn().Exec(t.Context(), `set role `+as[0]+`; `+as[1]+`; reset role`).ReadAll(); err != nil {
			t.Fatalf("%s: %v", as[0], err)
		}
	}
	for _, a := range []*App{first, second, serve(Detector)} {
		show(a, `postrider_tasks_detected_stale_total{action="move_to_dlq",state="pending"} 3`, `postrider_tasks_archived_total{final_state="complete"} 1`,
			`postrider_tasks_moved_to_dlq_total{original_state="pending",reason="worker_unavailable"} 3`,
			`postrider_tasks_moved_to_dlq_total{original_state="steps_in_process",reason="max_retries_exceeded"} 1`)
	}
}
