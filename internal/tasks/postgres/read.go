package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/tasks/ledger"
)

// Task reads a task. One that does not exist, or was archived, is ledger.ErrNotFound.
func (l Ledger) Task(ctx context.Context, id uuid.UUID) (ledger.Task, error) {
	doing := fmt.Sprintf("task %s", id)
	tasks, err := many[ledger.Task](ctx, l.db, doing, getTask, id)
	if err == nil && len(tasks) == 0 {
		err = fmt.Errorf("%s: %w", doing, ledger.ErrNotFound)
	}
	if err != nil {
		return ledger.Task{}, err
	}
	return tasks[0], nil
}

// List returns tasks, the newest first, and whether there are more.
func (l Ledger) List(ctx context.Context, f ledger.Filter) (tasks []ledger.Task, more bool, err error) {
	if f.Limit < 0 || f.Limit > ledger.MaxLimit || f.Offset < 0 {
		return nil, false, fmt.Errorf("list tasks: %w: the limit is %d and the offset %d; a limit is 0 to %d, an offset not negative",
			ledger.ErrInvalid, f.Limit, f.Offset, ledger.MaxLimit)
	}
	if f.Flagged && f.NearStale {
		return nil, false, fmt.Errorf("list tasks: %w: flagged and near_stale exclude each other: a flagged task was found to be stale", ledger.ErrInvalid)
	}
	limit := orDefault(f.Limit, ledger.DefaultLimit)
	first, last := idsBetween(f.From, f.To)
	if f.After != uuid.Nil && bytes.Compare(f.After[:], last[:]) <= 0 {
		last = before(f.After)
	}
	switch {
	case f.Flagged:
		tasks, err = many[ledger.Task](ctx, l.db, "list flagged tasks", listFlaggedTasks, given(f.Namespace), given(f.Name), given(f.Version), given(f.State), limit+1, f.Offset, last, first)
	case f.NearStale:
		tasks, err = many[ledger.Task](ctx, l.db, "list nearly stale tasks", listNearStaleTasks, given(f.Namespace), given(f.Name), given(f.Version), given(f.State), limit+1, f.Offset, last, first)
	case f.Namespace == "" && f.Name == "" && f.Version == "" && f.State == "":
		tasks, err = many[ledger.Task](ctx, l.db, "list tasks", listTasks, limit+1, f.Offset, last, first)
	default:
		tasks, err = many[ledger.Task](ctx, l.db, "list tasks", listSomeTasks, given(f.Namespace), given(f.Name), given(f.Version), given(f.State), limit+1, f.Offset, last, first)
	}
	if err == nil && len(tasks) == 0 && f.State != "" {
		err = l.knowState(ctx, f.State)
	}
	if len(tasks) > limit {
		return tasks[:limit], true, err
	}
	return tasks, false, err
}

// knowState refuses a state that no machine has.
func (l Ledger) knowState(ctx context.Context, state string) error {
	states, err := one[[]string](ctx, l.db, "read the states of machines", machineStates)
	if err != nil || slices.Contains(states, state) {
		return err
	}
	return fmt.Errorf("list tasks: %w: no machine has the state %q; there are %s", ledger.ErrInvalid, state, strings.Join(states, ", "))
}

// idsBetween returns the first and the last id of version 7 of a time, both inclusive; a zero time is no bound.
func idsBetween(from, to time.Time) (first, last uuid.UUID) {
	last = uuid.Max
	if !from.IsZero() {
		putMilliseconds(&first, from)
	}
	if !to.IsZero() {
		putMilliseconds(&last, to)
	}
	return first, last
}

// putMilliseconds puts a time into the bits of an id in which version 7 has it.
func putMilliseconds(id *uuid.UUID, at time.Time) {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(min(max(at.UnixMilli(), 0), 1<<48-1)))
	copy(id[:6], ms[2:])
}

// before returns the uuid that is smaller by one, as a number. id must not be the smallest.
func before(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]--; id[i] != 0xff {
			break
		}
	}
	return id
}

// Steps returns the steps of a task, in the order of its template; none for a task that does not exist.
func (l Ledger) Steps(ctx context.Context, task uuid.UUID) ([]ledger.Step, error) {
	return many[ledger.Step](ctx, l.db, fmt.Sprintf("steps of task %s", task), listSteps, task)
}

// Transitions returns a page of the history of a task, the newest first, and where it goes on; empty at the end. A task that does
// not exist has none.
func (l Ledger) Transitions(ctx context.Context, task uuid.UUID, p ledger.HistoryPage) (found []ledger.Transition, next string, err error) {
	return transitions(ctx, l.db, listTransitions, task, p)
}

// StepTransitions is Transitions, of a task's steps.
func (l Ledger) StepTransitions(ctx context.Context, task uuid.UUID, p ledger.HistoryPage) (found []ledger.StepTransition, next string, err error) {
	return stepTransitions(ctx, l.db, listStepTransitions, task, p)
}

// transitions reads a page of the history of a task by a query of the ledger or of the archive.
func transitions(ctx context.Context, db DB, sql string, task uuid.UUID, p ledger.HistoryPage) (found []ledger.Transition, next string, err error) {
	doing := fmt.Sprintf("transitions of task %s", task)
	size, err := p.Size()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", doing, err)
	}
	before, err := p.Number()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", doing, err)
	}
	found, err = many[ledger.Transition](ctx, db, doing, sql, task, before, size+1)
	if len(found) > size {
		found = found[:size]
		next = strconv.Itoa(found[size-1].SortKey)
	}
	return found, next, err
}

// stepTransitions is transitions, of a task's steps.
func stepTransitions(ctx context.Context, db DB, sql string, task uuid.UUID, p ledger.HistoryPage) (found []ledger.StepTransition, next string, err error) {
	doing := fmt.Sprintf("transitions of the steps of task %s", task)
	size, err := p.Size()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", doing, err)
	}
	place, err := p.StepPlace()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", doing, err)
	}
	at, position, id := pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}, 0, uuid.Nil
	if place != nil {
		at, position, id = pgtype.Timestamptz{Time: place.At, Valid: true}, place.Position, place.UUID
	}
	rows, err := many[struct {
		ledger.StepTransition
		Position int
	}](ctx, db, doing, sql, task, at, position, id, size+1)
	for _, r := range rows[:min(len(rows), size)] {
		r.Place = ledger.StepPlace{At: r.CreatedAt, Position: r.Position, UUID: r.UUID}.String()
		found = append(found, r.StepTransition)
	}
	if len(rows) > size {
		next = found[size-1].Place
	}
	return found, next, err
}

var (
	figures    = query("figures")
	taskCounts = query("task_counts")
)

var _ ledger.FiguresReader = Ledger{}

// Figures implements ledger.FiguresReader. It reads one row.
func (l Ledger) Figures(ctx context.Context) (ledger.Figures, error) {
	const doing = "read the figures of tasks"
	var f ledger.Figures
	rows, err := l.db.Query(ctx, figures)
	if err != nil {
		return f, explain(doing, err)
	}
	var countedAt *time.Time
	var s ledger.StateFigures
	_, err = pgx.ForEachRow(rows, []any{&countedAt, &s.State, &s.Tasks, &s.Stale}, func() error {
		if countedAt != nil {
			f.CountedAt = *countedAt
		}
		if s.State != "" {
			f.States = append(f.States, s)
		}
		return nil
	})
	if err != nil {
		return ledger.Figures{}, explain(doing, err)
	}
	return f, nil
}

// Counts implements ledger.FiguresReader.
func (l Ledger) Counts(ctx context.Context) ([]ledger.Count, error) {
	return many[ledger.Count](ctx, l.db, "read the counts of tasks", taskCounts)
}
