package postgres_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// retried retries a task, and says which investigations that closed, and which it left.
func (r *archiveRig) retried(task uuid.UUID) (closed, underWay []uuid.UUID) {
	r.Helper()
	err := pgx.BeginFunc(r.Context(), r.pool, func(tx pgx.Tx) (err error) {
		l := postgres.On(tx)
		if _, err = l.Retry(r.Context(), task, "ann"); err == nil {
			closed, underWay, err = l.Superseded(r.Context(), task)
		}
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	return closed, underWay
}

// wantEntry fails the test unless an investigation stands like this.
func (r *archiveRig) wantEntry(entry uuid.UUID, when, want string) {
	r.Helper()
	if got := one[string](r, `select concat_ws(', ', resolution_status, resolved_by, resolution_notes) from postrider.dlq_entry where dlq_entry_uuid = $1`, entry); got != want {
		r.Errorf("%s: the investigation is %q, want %q", when, got, want)
	}
}

// TestRetryClosesInvestigations: a retry does a task's work again, so nothing about the task is left to be sent again: its
// pending investigation is closed, also where the dead letter is recorded later, and an event that halts its key lets it go.
func TestRetryClosesInvestigations(t *testing.T) {
	t.Parallel()
	const closedByAnn = "manually_resolved, ann, the task was retried"
	r := newArchiveRig(t)
	ledgertest.AddMachine(t, r.pool, ledgertest.Protocol())
	ledgertest.Apply(t, r.pool, ledgertest.Template{Name: "document", Machine: "protocol"})
	ofEvent := func(event uuid.UUID) dlq.Subject { return dlq.Subject{Type: dlq.SubjectEvent, ID: event.String()} }

	task, event, letter := r.undelivered(0)
	entry := r.collectOf(letter, ofEvent(event), dlq.MaxRetriesExceeded)
	r.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at) select 'key', topic, key, 'halted', event_id, 'infinity'
		from postrider.outbox_event where event_id = $1`, event)
	r.exec(`update postrider.dlq_letter set outbox_id = (select id from postrider.outbox_event where event_id = $2) where letter_id = $1`, letter, event)
	// A second event of it is given up while it is there.
	second, secondEvent := ledgertest.MustGiveUp(t, r.pool, task, "record", "X")
	pgtest.Exec(t, r.pool, `select postrider.outbox_tell_tasks($1)`, []int64{second})
	other := r.collectOf(fmt.Sprintf("event:%s:1", secondEvent), ofEvent(secondEvent), dlq.MaxRetriesExceeded)
	closed, underWay := r.retried(task)
	if want := []uuid.UUID{entry, other}; !slices.Equal(closed, want) || len(underWay) != 0 {
		t.Errorf("closed %v, under way %v, want %v closed", closed, underWay, want)
	}
	r.wantEntry(entry, "retried", closedByAnn)
	r.wantEntry(other, "retried", closedByAnn)
	if asked := one[string](r, `select coalesce(asked, 'nothing') from postrider.outbox_hold`); asked != "release" {
		t.Errorf("of the hold of its key is asked: %s", asked)
	}

	// Before its letter is recorded.
	task, event, letter = r.undelivered(0)
	if closed, underWay = r.retried(task); len(closed)+len(underWay) != 0 {
		t.Errorf("closed %v, under way %v, before a letter was recorded", closed, underWay)
	}
	r.wantEntry(r.collectOf(letter, ofEvent(event), dlq.MaxRetriesExceeded), "recorded after the retry", closedByAnn)

	// A letter of the next beginning opens an investigation that stays.
	third, thirdEvent := ledgertest.MustGiveUp(t, r.pool, task, "record", "X")
	pgtest.Exec(t, r.pool, `select postrider.outbox_tell_tasks($1)`, []int64{third})
	r.wantEntry(r.collectOf(fmt.Sprintf("event:%s:1", thirdEvent), ofEvent(thirdEvent), dlq.MaxRetriesExceeded), "given up after the retry", "pending")

	// What is being sent again has no outcome yet.
	task, event, letter = r.undelivered(0)
	entry = r.collectOf(letter, ofEvent(event), dlq.MaxRetriesExceeded)
	r.exec(`insert into postrider.dlq_redrive (redrive_id, dlq_entry_uuid, generation, letter_id, outbox_id, event_id, target, actor)
		values ('r', $1, 1, $2, 1, $3, 'documents', 'bob')`, entry, letter, uuid.New())
	if closed, underWay = r.retried(task); len(closed) != 0 || !slices.Equal(underWay, []uuid.UUID{entry}) {
		t.Errorf("closed %v, under way %v, while a redrive is on its way", closed, underWay)
	}
	r.wantEntry(entry, "while a redrive is on its way", "pending")

	// The task's own.
	task = ledgertest.Create(t, r.pool, ledgertest.New{})
	pgtest.Exec(t, r.pool, `select postrider.dead_letter_task($1, 'look at it', 'bob')`, task)
	letter = one[string](r, `select letter_id from postrider.tasker_letter where task_uuid = $1`, task)
	entry = r.collect(letter, task, dlq.ManualDLQ)
	if closed, _ = r.retried(task); !slices.Equal(closed, []uuid.UUID{entry}) {
		t.Errorf("closed %v, want the task's own investigation", closed)
	}
	r.wantEntry(entry, "a task dead-lettered by hand", closedByAnn)
}
