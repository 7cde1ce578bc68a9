package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

func (f *fixture) status() ledger.DetectorStatus {
	f.t.Helper()
	s, err := f.DetectorStatus(f.t.Context())
	f.must(err)
	return s
}

func TestDetectorStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if s := f.status(); s.LastPassAt != nil || s.LastPassBy != "" || s.Switch != (ledger.Switch{}) {
		t.Errorf("at first: %+v", s)
	}
	f.must(f.PauseEngine(t.Context(), ledger.EngineDetector, ledger.Pause{By: "me"}))
	f.must(f.RecordPass(t.Context(), ledger.Pass{By: "here:1", Took: 1500 * time.Microsecond, Batches: 2, Stale: 7, DryRun: true}))
	s := f.status()
	if s.LastPassAt == nil || s.LastPassBy != "here:1" || s.LastPassMS != 1.5 || s.LastPassStale != 7 || !s.LastPassDryRun || s.PausedBy != "me" {
		t.Errorf("after a pass: %+v", s)
	}
}

func TestWriteSettings(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	set := ledger.Settings{LifecycleTopic: "a", DLQTopic: "b", EventChannel: "c", ReasonMaxRetriesExceeded: true}
	const first = "dlq_topic from postrider.dlq to b, event_channel from task_staleness_detected to c, include_full_task_snapshot from true to false, " +
		"lifecycle_topic from postrider.lifecycle to a, reason_dependency_cycle_detected from true to false"
	for _, c := range []struct {
		percent       int
		want, changed string
	}{{0, "a b c f t f 80", first}, {65, "a b c f t f 65", "warn_percent from 80 to 65"}, {65, "a b c f t f 65", ""}} {
		set.WarnPercent = c.percent
		if changed := f.settings(set); changed != c.changed {
			t.Errorf("changed: %q, want %q", changed, c.changed)
		}
		got := f.answer(`select concat_ws(' ', lifecycle_topic, dlq_topic, event_channel, include_full_task_snapshot, reason_max_retries_exceeded,
			reason_dependency_cycle_detected, warn_percent) from postrider.tasker_settings`)
		if got != c.want {
			t.Errorf("the settings are %q, want %q", got, c.want)
		}
		if got := f.status().Settings; got["event_channel"] != "c" || got["waiting_for_retry_minutes"] != 30.0 {
			t.Errorf("the detector reads %v", got)
		}
	}
}

// Tasks that are nearly stale are counted by state and by lifetime, with the thresholds of their template.
func TestNearStale(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("plain", "{}")
	f.template("quick", `{"max_steps_in_process_minutes": 10, "max_duration_minutes": 100}`)
	near := func(share float64) string {
		t.Helper()
		n, err := f.NearStale(t.Context(), ledger.DefaultDetection(), share)
		f.must(err)
		return fmt.Sprintf("%d %d", n.State, n.Lifetime)
	}
	if got := near(0.8); got != "0 0" {
		t.Errorf("without tasks: %s", got)
	}
	f.stuck("plain", "steps_in_process", 23*time.Minute) // of 30
	f.stuck("plain", "steps_in_process", 25*time.Minute)
	f.stuck("quick", "steps_in_process", 9*time.Minute) // of 10
	f.stuck("quick", "pending", 85*time.Minute)         // of 100
	f.stuck("quick", "complete", 85*time.Minute)
	if got := near(0.8); got != "2 1" {
		t.Errorf("past four fifths are %s, want 2 by state and 1 by lifetime", got)
	}
	// The list has what is counted, by the share of the settings.
	listed := func(filter ledger.Filter) int {
		t.Helper()
		filter.NearStale = true
		found, _, err := f.List(t.Context(), filter)
		f.must(err)
		for _, one := range found {
			if !one.Live || one.StaleFlaggedAt != nil {
				t.Errorf("listed as nearly stale: %+v", one)
			}
		}
		return len(found)
	}
	if all, quick, inProcess := listed(ledger.Filter{}), listed(ledger.Filter{Name: "quick"}), listed(ledger.Filter{State: "steps_in_process"}); all != 3 || quick != 2 || inProcess != 2 {
		t.Errorf("%d nearly stale tasks are listed, %d of quick and %d in process; want 3, 2 and 2", all, quick, inProcess)
	}
	// What the filter is not about is not looked for.
	const quick = `array(select named_task_uuid from postrider.tasker_named_tasks where name = 'quick')`
	for args, want := range map[string]string{"": "3", quick: "2", `array[]::uuid[]`: "0", `p_state => 'steps_in_process'`: "2", `p_state => 'pending'`: "1",
		quick + `, 'steps_in_process'`: "1", quick + `, 'pending'`: "1"} {
		if n := f.answer(`select count(*)::text from postrider.near_stale_task_ids(` + args + `)`); n != want {
			t.Errorf("near_stale_task_ids(%s) finds %s, want %s", args, n, want)
		}
	}
	if _, more, err := f.List(t.Context(), ledger.Filter{NearStale: true, Limit: 2}); err != nil || !more {
		t.Errorf("a page of two has no next: %v", err)
	}
	if _, _, err := f.List(t.Context(), ledger.Filter{NearStale: true, Flagged: true}); !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("nearly stale and flagged: %v", err)
	}
	if got := near(0.5); got != "3 1" {
		t.Errorf("past half are %s, want 3 and 1", got)
	}
}

// The relay's role detects and records its passes. An operator detects by hand and turns the switch. No other role
// may do either.
func TestRolesOfDetection(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", "{}")
	with := func(role string) postgres.Ledger { return postgres.On(as(f, role).conn) }
	relay, operator, writer := with("postrider_relay"), with("postrider_operator"), with("postrider_writer")
	ctx := t.Context()
	id := f.stuck("x", "steps_in_process", time.Hour)
	for name, l := range map[string]postgres.Ledger{"relay": relay, "operator": operator} {
		d := ledger.DefaultDetection()
		d.DryRun = true
		if found, err := l.DetectStale(ctx, d); err != nil || len(found) != 1 {
			t.Errorf("%s: %d found, %v", name, len(found), err)
		}
		if _, err := l.DetectorStatus(ctx); err != nil {
			t.Errorf("%s: status: %v", name, err)
		}
		if err := l.PauseEngine(ctx, ledger.EngineDetector, ledger.Pause{By: name, For: time.Minute}); err != nil {
			t.Errorf("%s: pause: %v", name, err)
		}
		if was, err := l.ResumeEngine(ctx, ledger.EngineDetector); err != nil || !was {
			t.Errorf("%s: resume: %v, %v", name, was, err)
		}
	}
	if _, err := relay.NearStale(ctx, ledger.DefaultDetection(), 0.8); err != nil {
		t.Errorf("relay: near: %v", err)
	}
	if err := relay.RecordPass(ctx, ledger.Pass{By: "x"}); err != nil {
		t.Errorf("relay: note a pass: %v", err)
	}
	if _, err := relay.WriteSettings(ctx, ledger.Settings{LifecycleTopic: "l", DLQTopic: "d", EventChannel: "c"}); err != nil {
		t.Errorf("relay: settings: %v", err)
	}
	if found, err := relay.DetectStale(ctx, ledger.DefaultDetection()); err != nil || len(found) != 1 || len(ledgertest.Letters(t, f.pool, id)) != 1 {
		t.Errorf("relay: %+v, %v", found, err)
	}
	for what, err := range map[string]error{
		"detect": func() error { _, err := writer.DetectStale(ctx, ledger.DefaultDetection()); return err }(),
		"status": func() error { _, err := writer.DetectorStatus(ctx); return err }(),
		"pause":  writer.PauseEngine(ctx, ledger.EngineDetector, ledger.Pause{By: "w"}),
		"note":   operator.RecordPass(ctx, ledger.Pass{By: "o"}),
	} {
		refusal, ok := errors.AsType[*ledger.StoreError](err)
		if !ok || refusal.Type != ledger.ErrorConfiguration || refusal.Hint == "" {
			t.Errorf("%s: %v, want a refusal with a hint", what, err)
		}
	}
}

// Each kind of failure has its type, and the server's own error stays within.
func TestTypesOfErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	typeOf := func(err error) ledger.ErrorType {
		t.Helper()
		e, ok := errors.AsType[*ledger.StoreError](err)
		if !ok {
			t.Fatalf("%v is no StoreError", err)
		}
		return e.Type
	}
	d := ledger.DefaultDetection()
	d.BatchSize = 0
	_, err := f.DetectStale(t.Context(), d)
	if typeOf(err) != ledger.ErrorValidation || !errors.Is(err, ledger.ErrInvalid) {
		t.Errorf("a batch of 0: %v", err)
	}
	conn := f.db.Conn(t)
	_, e := conn.Exec(t.Context(), "begin; lock table postrider.tasker_detector; ")
	f.must(e)
	slow := f.db.Conn(t)
	_, e = slow.Exec(t.Context(), "set statement_timeout = '50ms'")
	f.must(e)
	err = postgres.On(slow).RecordPass(t.Context(), ledger.Pass{})
	if typeOf(err) != ledger.ErrorTimeout {
		t.Errorf("a statement timeout: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := f.RecordPass(ctx, ledger.Pass{}); typeOf(err) != ledger.ErrorTimeout {
		t.Errorf("no answer: %v", err)
	}
	_, e = conn.Exec(t.Context(), "rollback; drop function postrider.near_stale_tasks")
	f.must(e)
	_, err = f.NearStale(t.Context(), ledger.DefaultDetection(), 0.8)
	var refused *pgconn.PgError
	if typeOf(err) != ledger.ErrorConfiguration || !errors.As(err, &refused) {
		t.Errorf("a missing function: %v", err)
	}
	f.pool.Close()
	if _, err = f.DetectorStatus(t.Context()); typeOf(err) != ledger.ErrorDatabase {
		t.Errorf("a closed pool: %v", err)
	}
}
