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

func TestDetectorSwitch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if s := f.status(); s != (ledger.DetectorStatus{}) {
		t.Errorf("at first: %+v", s)
	}
	if was, err := f.ResumeDetector(t.Context()); was || err != nil {
		t.Errorf("resume without a pause: %v, %v", was, err)
	}
	// A detector's own pause has an end, and is over when that has come.
	f.must(f.PauseDetector(t.Context(), ledger.Pause{By: ledger.PausedByLatency, Reason: "slow", For: time.Hour}))
	s := f.status()
	if !s.Paused || s.PausedBy != ledger.PausedByLatency || s.Reason != "slow" || s.ResumeAt == nil || s.ResumeAt.Sub(*s.PausedAt) != time.Hour {
		t.Errorf("paused for an hour: %+v", s)
	}
	f.exec(`update postrider.tasker_detector set resume_at = clock_timestamp()`)
	if s := f.status(); s.Paused || s.PausedAt != nil || s.PausedBy != "" {
		t.Errorf("after its end: %+v", s)
	}
	f.must(f.RecordPass(t.Context(), ledger.Pass{By: "here:1", Took: 1500 * time.Microsecond, Batches: 2, Stale: 7, DryRun: true}))
	s = f.status()
	if s.LastPassAt == nil || s.LastPassBy != "here:1" || s.LastPassMS != 1.5 || s.LastPassStale != 7 || !s.LastPassDryRun {
		t.Errorf("after a pass: %+v", s)
	}
	if left := f.answer(`select count(*)::text from postrider.tasker_detector where paused_at is not null`); left != "0" {
		t.Error("the pause that has ended is still written down")
	}
	// An operator's pause has no end, and a detector does not give it one.
	f.must(f.PauseDetector(t.Context(), ledger.Pause{By: "me"}))
	f.must(f.PauseDetector(t.Context(), ledger.Pause{By: ledger.PausedByLatency, For: time.Minute}))
	f.must(f.RecordPass(t.Context(), ledger.Pass{By: "there:2"}))
	if s := f.status(); !s.Paused || s.PausedBy != "me" || s.ResumeAt != nil {
		t.Errorf("paused by an operator: %+v", s)
	}
	if was, err := f.ResumeDetector(t.Context()); !was || err != nil {
		t.Errorf("resume: %v, %v", was, err)
	}
	if s := f.status(); s.Paused || s.LastPassBy != "there:2" {
		t.Errorf("resumed: %+v", s)
	}
}

// A detector that finds itself too slow shortens no pause of an operator, and does not put its name to it. A pause that
// has an end is replaced by a longer pause of a detector, and by every pause of an operator; its reason stays before theirs
// until it has ended.
func TestADetectorLeavesAnOperatorsPause(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	paused := func(by string, d, want time.Duration, wantBy, reasons string) {
		t.Helper()
		f.must(f.PauseDetector(t.Context(), ledger.Pause{By: by, Reason: "of " + by, For: d}))
		s := f.status()
		if !s.Paused || s.PausedBy != wantBy || s.Reason != reasons || s.ResumeAt == nil || s.ResumeAt.Sub(*s.PausedAt) != want {
			t.Errorf("%s pauses for %v: %+v", by, d, s)
		}
	}
	paused("me", 2*time.Hour, 2*time.Hour, "me", "of me")
	paused(ledger.PausedByLatency, time.Hour, 2*time.Hour, "me", "of me")
	paused("you", time.Hour, time.Hour, "you", "of me; of you")
	paused(ledger.PausedByLatency, 3*time.Hour, 3*time.Hour, ledger.PausedByLatency, "of me; of you; of latency_limit")
	paused("me", time.Minute, time.Minute, "me", "of me; of you; of latency_limit; of me")
	f.exec(`update postrider.tasker_detector set resume_at = clock_timestamp()`)
	paused(ledger.PausedByLatency, time.Hour, time.Hour, ledger.PausedByLatency, "of latency_limit")
}

// A pause that an operator writes while a pass is noted stays, though the one before it had come to its end.
func TestPauseWhileAPassIsNoted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(f.PauseDetector(t.Context(), ledger.Pause{By: ledger.PausedByLatency, For: time.Hour}))
	f.exec(`update postrider.tasker_detector set resume_at = clock_timestamp()`)
	tx, err := f.pool.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	f.must(postgres.On(tx).PauseDetector(t.Context(), ledger.Pause{By: "me"}))
	noted := make(chan error, 1)
	go func() { noted <- f.RecordPass(t.Context(), ledger.Pass{By: "here:1"}) }()
	f.somebodyWaits()
	f.must(tx.Commit(t.Context()))
	f.must(<-noted)
	if s := f.status(); !s.Paused || s.PausedBy != "me" || s.LastPassBy != "here:1" {
		t.Errorf("after the pass: %+v", s)
	}
}

func TestWriteSettings(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	set := ledger.Settings{LifecycleTopic: "a", DLQTopic: "b", EventChannel: "c", ReasonMaxRetriesExceeded: true}
	for percent, want := range map[int]string{0: "a b c f t f 80", 65: "a b c f t f 65"} {
		set.WarnPercent = percent
		for range 2 {
			f.must(f.WriteSettings(t.Context(), set))
		}
		got := f.answer(`select concat_ws(' ', lifecycle_topic, dlq_topic, event_channel, include_full_task_snapshot, reason_max_retries_exceeded,
			reason_dependency_cycle_detected, warn_percent) from postrider.tasker_settings`)
		if got != want {
			t.Errorf("the settings are %q, want %q", got, want)
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
		if err := l.PauseDetector(ctx, ledger.Pause{By: name, For: time.Minute}); err != nil {
			t.Errorf("%s: pause: %v", name, err)
		}
		if was, err := l.ResumeDetector(ctx); err != nil || !was {
			t.Errorf("%s: resume: %v, %v", name, was, err)
		}
	}
	if _, err := relay.NearStale(ctx, ledger.DefaultDetection(), 0.8); err != nil {
		t.Errorf("relay: near: %v", err)
	}
	if err := relay.RecordPass(ctx, ledger.Pass{By: "x"}); err != nil {
		t.Errorf("relay: note a pass: %v", err)
	}
	if err := relay.WriteSettings(ctx, ledger.Settings{LifecycleTopic: "l", DLQTopic: "d", EventChannel: "c"}); err != nil {
		t.Errorf("relay: settings: %v", err)
	}
	if found, err := relay.DetectStale(ctx, ledger.DefaultDetection()); err != nil || len(found) != 1 || len(ledgertest.Letters(t, f.pool, id)) != 1 {
		t.Errorf("relay: %+v, %v", found, err)
	}
	for what, err := range map[string]error{
		"detect": func() error { _, err := writer.DetectStale(ctx, ledger.DefaultDetection()); return err }(),
		"status": func() error { _, err := writer.DetectorStatus(ctx); return err }(),
		"pause":  writer.PauseDetector(ctx, ledger.Pause{By: "w"}),
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
	if typeOf(err) != ledger.ErrorConfiguration || !errors.Is(err, ledger.ErrInvalid) {
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
