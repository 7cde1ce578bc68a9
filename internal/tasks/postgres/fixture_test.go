package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// fixture is a database with the ledger in it.
type fixture struct {
	postgres.Ledger
	t    *testing.T
	db   *pgtest.DB
	pool *pgxpool.Pool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db := pgtest.New(t)
	pool := db.Pool(t)
	return &fixture{Ledger: postgres.On(pool), t: t, db: db, pool: pool}
}

// apply writes the template default/task@1.0.0 with this configuration.
func (f *fixture) apply(configuration string) {
	f.t.Helper()
	ledgertest.Apply(f.t, f.pool, ledgertest.Template{Configuration: configuration})
}

// task creates a task of default/task.
func (f *fixture) task() uuid.UUID {
	f.t.Helper()
	return ledgertest.Create(f.t, f.pool, ledgertest.New{})
}

func (f *fixture) state(task uuid.UUID) string {
	f.t.Helper()
	return ledgertest.State(f.t, f.pool, task)
}

// step is a step by its name.
func (f *fixture) step(task uuid.UUID, name string) ledgertest.Step {
	f.t.Helper()
	s, ok := ledgertest.Steps(f.t, f.pool, task)[name]
	if !ok {
		f.t.Fatalf("task %s has no step %q", task, name)
	}
	return s
}

// in fails the test unless the task is in the state.
func (f *fixture) in(task uuid.UUID, want string) {
	f.t.Helper()
	if got := f.state(task); got != want {
		f.t.Fatalf("the task is in %s, want %s; it was in %s", got, want, ledgertest.History(f.t, f.pool, task))
	}
}

// StartStep is that of the ledger, for tests that need no fencing number.
func (f *fixture) StartStep(ctx context.Context, step uuid.UUID, worker string) error {
	_, err := f.Ledger.StartStep(ctx, step, worker)
	return err
}

// CompleteStep is that of the ledger, without a fencing number.
func (f *fixture) CompleteStep(ctx context.Context, step uuid.UUID, results json.RawMessage) error {
	return f.Ledger.CompleteStep(ctx, step, results, 0)
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// settings writes the settings of the ledger, and returns what it changed.
func (f *fixture) settings(s ledger.Settings) string {
	f.t.Helper()
	changed, err := f.WriteSettings(f.t.Context(), s)
	f.must(err)
	return changed
}

// do starts and completes a step.
func (f *fixture) do(task uuid.UUID, name string) {
	f.t.Helper()
	step := f.step(task, name).UUID
	f.must(f.StartStep(f.t.Context(), step, "worker-1"))
	f.must(f.CompleteStep(f.t.Context(), step, json.RawMessage(`{"done": true}`)))
}

// fails starts a step, if it must be, and lets it fail; its next retry is due at once.
func (f *fixture) fails(task uuid.UUID, name, message string) ledger.StepStatus {
	f.t.Helper()
	step := f.step(task, name)
	if step.Status != "enqueued" {
		f.must(f.StartStep(f.t.Context(), step.UUID, "worker-1"))
	}
	status, err := f.FailStep(f.t.Context(), step.UUID, ledger.Failure{Error: message})
	f.must(err)
	ledgertest.RetryNow(f.t, f.pool, task)
	return status
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	pgtest.Exec(f.t, f.pool, sql, args...)
}

// answer is the one value that a query returns, as text.
func (f *fixture) answer(sql string, args ...any) string {
	f.t.Helper()
	return pgtest.Value[string](f.t, f.pool, sql, args...)
}

// waitFor waits until a query says true.
func (f *fixture) waitFor(sql string, args ...any) {
	f.t.Helper()
	pgtest.WaitFor(f.t, f.pool, sql, args...)
}

// awaitLockWait waits until a session of this database waits for a row that another has locked.
func (f *fixture) awaitLockWait() {
	f.t.Helper()
	f.waitFor(`select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`)
}

// told is what the ledger wrote into the outbox about a task, a line an event.
func (f *fixture) told(task uuid.UUID) []string {
	f.t.Helper()
	var lines []string
	for _, e := range ledgertest.Events(f.t, f.pool, task) {
		line := strings.TrimSuffix(strings.TrimPrefix(e.Type, "postrider.task."), ".v1")
		if e.Step != "" {
			line += " " + e.Step
		}
		if e.From+e.To != "" {
			line += fmt.Sprintf(" %s>%s", e.From, e.To)
		}
		lines = append(lines, line)
	}
	return lines
}

// refused fails the test unless the error is of the kind and mentions every word.
func refused(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("the error is %v, want one that is %v", err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not mention %q", err, word)
		}
	}
}

// wholeHistory is the history of a task or of its steps, the oldest change first, read in small pages.
func wholeHistory[T any](ctx context.Context, read func(context.Context, uuid.UUID, ledger.HistoryPage) ([]T, string, error), task uuid.UUID) (all []T, err error) {
	p := ledger.HistoryPage{Limit: 3}
	for {
		found, next, err := read(ctx, task, p)
		all = append(all, found...)
		if err != nil || next == "" {
			slices.Reverse(all)
			return all, err
		}
		p.After = next
	}
}
