package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

// A letter is written once per stay and reason, whatever becomes of the flag. If a writer has used a letter's id as an
// idempotency key in the outbox, the letter is written all the same.
func TestWritersKeysAreNoLetters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", `{}`)
	f.template("review", `{"staleness_action": "manual_review"}`)
	moved, stays, byHand := f.stuck("x", "steps_in_process", time.Hour), f.stuck("review", "steps_in_process", time.Hour), f.stuck("x", "pending", time.Minute)
	for id, letter := range map[uuid.UUID]string{moved: "2:staleness_timeout", stays: "2:staleness_timeout", byHand: "1:manual_dlq"} {
		f.exec(`insert into postrider.outbox_idempotency_key (topic, idempotency_key, event_id)
			values ('postrider.dlq', format('task:%s:%s', $1::uuid, $2::text), gen_random_uuid())`, id, letter)
	}
	found := f.detect(ledger.DefaultDetection())
	for id, want := range map[uuid.UUID]ledger.StaleAction{moved: ledger.StaleMovedToDLQ, stays: ledger.StaleReview} {
		if s := found[id]; s.ActionTaken != want || !s.MovedToDLQ || len(ledgertest.Letters(t, f.pool, id)) != 1 {
			t.Errorf("%+v, want %s with a letter", s, want)
		}
	}
	if _, err := f.DeadLetter(t.Context(), byHand, "why", ""); err != nil || len(ledgertest.Letters(t, f.pool, byHand)) != 1 {
		t.Errorf("by hand: %v", err)
	}
	f.exec(`delete from postrider.outbox_idempotency_key`)
	f.exec(`update postrider.tasker_tasks set stale_flagged_at = null`)
	if s := f.detect(ledger.DefaultDetection())[stays]; s.ActionTaken != ledger.StaleFlagged || s.MovedToDLQ || len(ledgertest.Letters(t, f.pool, stays)) != 1 {
		t.Errorf("found again in the same stay: %+v", s)
	}
	for id, n := range map[uuid.UUID]string{moved: "1", stays: "1", byHand: "1"} {
		if got := f.answer(`select cardinality(dead_letters)::text from postrider.tasker_tasks where task_uuid = $1`, id); got != n {
			t.Errorf("task %s knows of %s letters, want %s", id, got, n)
		}
	}
}

// The switches are for what Postrider dead-letters by itself: a person's command does not ask them.
func TestByHandWhateverTheSwitches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", `{}`)
	stale, byHand := f.stuck("x", "steps_in_process", time.Hour), f.stuck("x", "pending", time.Minute)
	d := ledger.DefaultDetection()
	d.AutoMoveToDLQ, d.ReasonStalenessTimeout, d.ReasonWorkerUnavailable = false, false, false
	f.settings(ledger.Settings{LifecycleTopic: "l", DLQTopic: "d", EventChannel: "e", Detection: d})
	if s := f.detect(ledger.StoredDetection())[stale]; s.ActionTaken != ledger.StaleMoved || len(ledgertest.Letters(t, f.pool, stale)) != 0 {
		t.Errorf("with every switch off: %+v", s)
	}
	if _, err := f.DeadLetter(t.Context(), byHand, "why", "ann"); err != nil || len(ledgertest.Letters(t, f.pool, byHand)) != 1 {
		t.Errorf("by hand: %d letters, %v", len(ledgertest.Letters(t, f.pool, byHand)), err)
	}
}

// When a task is put back to work, its lifetime begins anew: so does the age that detection reports.
func TestAgeOfAResumedTask(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("old", `{}`)
	id := f.stuck("old", "pending", 100*time.Hour)
	f.detect(ledger.DefaultDetection())
	_, err := f.Retry(t.Context(), id, "me")
	f.must(err)
	ledgertest.Put(t, f.pool, id, "evaluating_results")
	ledgertest.Age(t, f.pool, id, 23*time.Hour)
	ledgertest.Put(t, f.pool, id, "blocked_by_failures")
	ledgertest.Age(t, f.pool, id, 2*time.Hour)
	s := f.detect(ledger.DefaultDetection())[id]
	if age := time.Duration(s.TaskAgeSeconds * float64(time.Second)); s.ThresholdKind != "lifetime" || age.Round(time.Hour) != 25*time.Hour {
		t.Errorf("put back to work 25 hours ago: %v, %+v", age, s)
	}
}

// TestDryRunSaysWhatIsStale: if a task ends while a dry run looks, the dry run does not show it.
func TestDryRunSaysWhatIsStale(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", `{}`)
	id, other := f.stuck("x", "steps_in_process", time.Hour), f.stuck("x", "steps_in_process", time.Hour)
	d := ledger.DefaultDetection()
	d.DryRun = true
	looks := postgres.On(f.db.Conn(t))
	found, err := looks.DetectStale(t.Context(), d) // a session's first call reads the settings' columns at once
	f.must(err)
	if len(found) != 2 {
		t.Fatalf("stale are %+v", found)
	}
	tx, err := f.pool.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	// The settings are read after the tasks were found, and before they are shown.
	_, err = tx.Exec(t.Context(), `lock table postrider.tasker_settings in access exclusive mode`)
	f.must(err)
	type result struct {
		found []ledger.StaleTask
		err   error
	}
	shown := make(chan result, 1)
	go func() {
		found, err := looks.DetectStale(t.Context(), d)
		shown <- result{found, err}
	}()
	f.awaitLockWait()
	_, err = postgres.On(tx).Transition(t.Context(), id, "steps_in_process", "cancelled", nil)
	f.must(err)
	f.must(tx.Commit(t.Context()))
	if got := <-shown; got.err != nil || len(got.found) != 1 || got.found[0].TaskUUID != other {
		t.Errorf("shown: %+v, %v", got.found, got.err)
	}
}
