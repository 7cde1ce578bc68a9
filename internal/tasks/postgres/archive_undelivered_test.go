package postgres_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
)

// undelivered is a task of the pipeline that an event took to its dead-letter state some time ago, the event, and the id
// of the event's letter.
func (r *archiveRig) undelivered(ago time.Duration) (task, event uuid.UUID, letter string) {
	r.Helper()
	task = ledgertest.Create(r, r.pool, ledgertest.New{Name: "document"})
	id, event := ledgertest.MustGiveUp(r, r.pool, task, "record", "X")
	if n := one[int](r, `select postrider.outbox_tell_tasks($1)`, []int64{id}); n != 1 {
		r.Fatalf("%d tasks were moved", n)
	}
	ledgertest.Age(r, r.pool, task, ago)
	return task, event, "event:" + event.String() + ":1"
}

// TestArchiveWaitsForAnEventsInvestigation: an event took a task to its dead-letter state. Until the event's investigation
// is closed, the archiver does not archive the task, and the task can be retried. Then its final state says it. Reading a
// task after seven days moves it to its archived state all the same, where the archiver waits for the investigation, too.
func TestArchiveWaitsForAnEventsInvestigation(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	ledgertest.AddMachine(t, r.pool, ledgertest.Protocol())
	ledgertest.Apply(t, r.pool, ledgertest.Template{Name: "document", Machine: "protocol"})
	l := postgres.On(r.pool)
	task, event, letter := r.undelivered(40 * day)
	read, readEvent, readLetter := r.undelivered(8 * day)
	stays := func(why string) {
		t.Helper()
		if got := r.run(); got.Tasks != 0 {
			t.Errorf("%s: %d tasks were archived", why, got.Tasks)
		}
		r.want(task, "live")
		if got := ledgertest.State(t, r.pool, task); got != "dead_letter" {
			t.Errorf("%s: the task is %s", why, got)
		}
	}
	stays("the letter is on its way")
	subject := func(event uuid.UUID) dlq.Subject { return dlq.Subject{Type: dlq.SubjectEvent, ID: event.String()} }
	entry, other := r.collectOf(letter, subject(event), dlq.MaxRetriesExceeded), r.collectOf(readLetter, subject(readEvent), dlq.MaxRetriesExceeded)
	stays("the investigation is pending")
	err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
		if _, err := postgres.On(tx).Retry(t.Context(), task, "ann"); err != nil {
			t.Errorf("retry: %v", err)
		}
		return errTakeBack
	})
	if !errors.Is(err, errTakeBack) {
		t.Fatal(err)
	}
	r.close(entry, dlq.PermanentlyFailed)
	if got := r.run(); got.Tasks != 1 || got.DLQResolved != 1 {
		t.Errorf("archived %+v", got)
	}
	r.want(task, "archive as dlq_resolved")
	if got, err := r.archive.Task(t.Context(), task); err != nil || !slices.Equal(got.DeadLetters, []string{letter}) {
		t.Errorf("the archived task has the letters %q, %v", got.DeadLetters, err)
	}
	if archived, err := l.ArchiveOnRead(t.Context(), read); !archived || err != nil {
		t.Errorf("archived by reading %v, %v", archived, err)
	}
	if got := ledgertest.State(t, r.pool, read); got != "archived" {
		t.Errorf("the task is %s", got)
	}
	ledgertest.Age(t, r.pool, read, 40*day)
	if got := r.run(); got.Tasks != 0 {
		t.Errorf("with its investigation pending: archived %+v", got)
	}
	r.close(other, dlq.ManuallyResolved)
	if got := r.run(); got.Tasks != 1 {
		t.Errorf("with its investigation closed: archived %+v", got)
	}
}

var errTakeBack = errors.New("take it back")

// TestArchiveLeavesTasksAtWork: an action on a step of a failed task, here one that leaves the task where it is,
// begins the task's retention anew.
func TestArchiveLeavesTasksAtWork(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	l := postgres.On(r.pool)
	id, other := r.ended("error", 40*day), r.ended("error", 40*day)
	if _, err := l.Act(t.Context(), id, ledgertest.Steps(t, r.pool, id)["a"].UUID, ledger.StepAction{Action: ledger.ActionCancel, Actor: "me"}); err != nil {
		t.Fatal(err)
	}
	if got := r.run(); got.Tasks != 1 || got.Error != 1 {
		t.Errorf("archived %+v", got)
	}
	r.want(id, "live")
	r.want(other, "archive as error")
	ledgertest.Age(t, r.pool, id, 31*day)
	r.run()
	r.want(id, "archive as error")
}
