package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq"
)

// beginRead begins a transaction that sees one state of everything. Each query is planned for what it is asked, and
// none reads a whole table: with wrong statistics, that looks good for the few rows that a limit wants.
const beginRead = "begin isolation level repeatable read read only; set local statement_timeout = '30s'; set local plan_cache_mode = 'force_custom_plan'; set local jit = off; set local enable_seqscan = off"

// beginKnown begins a transaction that looks things up by their keys. The plan is the same for all keys, and the session
// keeps it. So beginKnown is for statements in which each step uses an index that no other could stand in for, however
// small the tables were when the plan was made.
const beginKnown = "begin isolation level repeatable read read only; set local statement_timeout = '30s'; set local plan_cache_mode = 'force_generic_plan'; set local jit = off; set local enable_seqscan = off; set local enable_hashjoin = off; set local enable_mergejoin = off"

// known turns a transaction of beginRead into one of beginKnown, whichever settings a search made in it.
const known = "select set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('enable_indexscan', 'on', true), set_config('enable_bitmapscan', 'on', true), set_config('enable_sort', 'on', true)"

// readPlanned runs f in a transaction of beginRead.
func (d *Investigations) readPlanned(ctx context.Context, doing string, f func(context.Context, pgx.Tx) error) error {
	return d.read(ctx, beginRead, doing, f)
}

// readByKey runs f in a transaction of beginKnown.
func (d *Investigations) readByKey(ctx context.Context, doing string, f func(context.Context, pgx.Tx) error) error {
	return d.read(ctx, beginKnown, doing, f)
}

func (d *Investigations) read(ctx context.Context, begin, doing string, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error { return f(ctx, tx) })
	if err != nil && !errors.Is(err, dlq.ErrRequest) && !errors.Is(err, dlq.ErrNotFound) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return err
}

// Find implements dlq.Investigations.
func (d *Investigations) Find(ctx context.Context, q dlq.Search) (dlq.Page, error) {
	if err := q.Check(); err != nil {
		return dlq.Page{}, err
	}
	var page dlq.Page
	return page, d.readPlanned(ctx, "list investigations", func(ctx context.Context, tx pgx.Tx) (err error) {
		if q.Filter, err = wordOrText(ctx, tx, q.Filter); err != nil {
			return err
		}
		var ids []uuid.UUID
		if page, ids, err = find(ctx, tx, q, d.bounds); err != nil || len(ids) == 0 {
			return err
		}
		var events []openEvent
		b := &pgx.Batch{}
		b.Queue(known)
		queueRows(b, &page.Entries, scanEntry, entryMany, ids)
		queueRows(b, &events, pgx.RowToStructByPos[openEvent], entryEvents, ids)
		if err := send(ctx, tx, b); err != nil {
			return err
		}
		return d.markHeld(ctx, tx, page.Entries, events)
	})
}

// find finds a page in a transaction, without its entries: their ids, in order.
func find(ctx context.Context, tx pgx.Tx, q dlq.Search, b bounds) (page dlq.Page, ids []uuid.UUID, err error) {
	s := &search{Search: q, bounds: b, tx: tx, from: nullTime(q.Filter.From), to: nullTime(q.Filter.To)}
	if err := s.limit(ctx); err != nil {
		return page, nil, err
	}
	if q.After != "" {
		after, err := parseCursor(q)
		if err != nil {
			return page, nil, err
		}
		s.at, s.id = nullTime(after.At), pgtype.UUID{Bytes: after.ID, Valid: true}
	}
	if err := s.run(ctx); err != nil {
		return page, nil, err
	}
	if len(s.page) > q.Filter.Limit {
		s.page = s.page[:q.Filter.Limit]
		page.Next = cursor(q, s.page[len(s.page)-1])
	} else if s.end != nil {
		end := *s.end
		if dlq.SourcesOf(ctx) != nil { // it may be of another source: its id is not told, and its moment is looked at once more
			if end.ID = uuid.Max; q.Ascending {
				end.ID = uuid.Nil
			}
		}
		page.Next, page.Incomplete = cursor(q, end), true
	}
	page.Total, page.TotalExact = s.total, s.exact
	return page, column(s.page, func(f found) uuid.UUID { return f.ID }), nil
}

// wordOrText makes a reason that no group has a part of the message. It is for lists alone: a purge that is repeated after
// the reason is used up must not remove investigations that only mention the word.
func wordOrText(ctx context.Context, tx pgx.Tx, f dlq.Filter) (dlq.Filter, error) {
	if f.Word == "" {
		return f, nil
	}
	ids, err := groupsOf(ctx, tx, f.Word, dlq.SourcesOf(ctx))
	if err == nil && len(ids) == 0 {
		f.Word, f.Message = "", f.Word
	}
	return f, err
}

// groupsOf are the groups that have a reason, where it is not empty, and are of the sources, where these are not nil; not nil.
func groupsOf(ctx context.Context, tx pgx.Tx, word string, sources []string) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, groupWord, strings.ToLower(word), sources)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// limit sets the groups that the search is limited to, and the investigations of an event, which are few. All investigations of a
// group are of one source.
func (s *search) limit(ctx context.Context) error {
	sources := dlq.OnlySource(ctx, s.Filter.Source)
	if s.Filter.Group != uuid.Nil {
		s.within = []uuid.UUID{s.Filter.Group}
	}
	if s.Filter.EventID != uuid.Nil {
		rows, err := s.tx.Query(ctx, entryAbout, s.Filter.EventID, sources)
		if err != nil {
			return err
		}
		if s.about, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID]); err != nil {
			return err
		}
	}
	if s.Filter.Word == "" && (sources == nil || s.about != nil) {
		return nil
	}
	ids, err := groupsOf(ctx, s.tx, s.Filter.Word, sources)
	switch {
	case err != nil:
		return err
	case s.within == nil:
		s.within = ids
	case !slices.Contains(ids, s.Filter.Group):
		s.within = []uuid.UUID{}
	}
	return nil
}

// openEvent is the event of the newest letter of a pending investigation.
type openEvent struct {
	Entry uuid.UUID
	Event *int64 // in the desk's own outbox; nil for an event of another source
	Halts *bool  // its key, as the letter says
}

// markHeld sets KeyHeld of investigations. Of the events of other sources their letters say it: no outbox here has them.
func (d *Investigations) markHeld(ctx context.Context, tx pgx.Tx, entries []dlq.Entry, events []openEvent) error {
	var own []int64
	for _, e := range events {
		if e.Event != nil {
			own = append(own, *e.Event)
		}
	}
	var halting []int64
	if len(own) > 0 {
		var err error
		if halting, _, err = d.exceptions.Halting(ctx, tx, own); err != nil {
			return err
		}
	}
	held := map[uuid.UUID]*bool{}
	for _, e := range events {
		if held[e.Entry] = e.Halts; e.Event != nil {
			is := slices.Contains(halting, *e.Event)
			held[e.Entry] = &is
		}
	}
	for i := range entries {
		is, event := held[entries[i].UUID]
		if !event {
			is = new(bool)
		}
		entries[i].KeyHeld = is
	}
	return nil
}

// Show implements dlq.Investigations.
func (d *Investigations) Show(ctx context.Context, id uuid.UUID) (dlq.Detail, error) {
	doing := fmt.Sprintf("investigation %s", id)
	var detail dlq.Detail
	return detail, d.readByKey(ctx, doing, func(ctx context.Context, tx pgx.Tx) (err error) {
		detail, err = d.show(ctx, tx, id)
		return err
	})
}

// ShowTask implements dlq.Investigations.
func (d *Investigations) ShowTask(ctx context.Context, task uuid.UUID) (dlq.Detail, error) {
	doing := fmt.Sprintf("investigation of task %s", task)
	var detail dlq.Detail
	return detail, d.readByKey(ctx, doing, func(ctx context.Context, tx pgx.Tx) error {
		var id uuid.UUID
		err := tx.QueryRow(ctx, entryOfTask, task).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%s: %w", doing, dlq.ErrNotFound)
		}
		if err != nil {
			return err
		}
		detail, err = d.show(ctx, tx, id)
		return err
	})
}

func (d *Investigations) show(ctx context.Context, tx pgx.Tx, id uuid.UUID) (detail dlq.Detail, err error) {
	var one []dlq.Entry
	var events []openEvent
	b := &pgx.Batch{}
	queueRows(b, &one, scanEntry, entryGet, id)
	queueRows(b, &events, pgx.RowToStructByPos[openEvent], entryEvents, []uuid.UUID{id})
	queueRows(b, &detail.Letters, scanLetter, letterList, id, dlq.MaxLetters)
	queueRows(b, &detail.Redrives, scanRedrive, redriveList, id, dlq.MaxLetters)
	queueRows(b, &detail.Operations, scanTreatment, operationOfEntry, id, dlq.MaxLetters)
	if err := send(ctx, tx, b); err != nil {
		return detail, err
	}
	if len(one) == 0 {
		return detail, fmt.Errorf("investigation %s: %w", id, dlq.ErrNotFound)
	}
	if err := d.markHeld(ctx, tx, one, events); err != nil {
		return detail, err
	}
	if dlq.SourcesOf(ctx) != nil {
		seen, err := seenAmong(ctx, tx, dlq.AnOperation, column(detail.Operations, func(t dlq.Treatment) uuid.UUID { return t.Operation }))
		if err != nil {
			return detail, err
		}
		detail.Operations = slices.DeleteFunc(detail.Operations, func(t dlq.Treatment) bool { return !slices.Contains(seen, t.Operation) })
	}
	detail.Entry = one[0]
	if detail.Status == dlq.Pending && detail.Subject.Type != dlq.SubjectTask {
		stopped, err := stoppedTasks(ctx, tx, []uuid.UUID{detail.TaskUUID})
		if err != nil {
			return detail, err
		}
		if len(stopped) > 0 {
			detail.Stopped = &stopped[0]
		}
	}
	archived, err := askAboutTasks[dlq.ArchivedTask](ctx, tx, tasksArchived, []uuid.UUID{detail.TaskUUID})
	if err != nil {
		return detail, err
	}
	if len(archived) > 0 {
		detail.Archived = &archived[0]
	}
	detail.Snapshot = d.redactor.Again(detail.Subject.Type, detail.Snapshot)
	for i := range detail.Letters {
		l := &detail.Letters[i]
		l.Key, l.Payload, l.Headers = nil, nil, d.redactor.Headers(l.Headers)
	}
	return detail, nil
}

// askAboutTasks asks the ledger which of these tasks are as a query says; uuid.Nil is none.
func askAboutTasks[T any](ctx context.Context, tx pgx.Tx, sql string, tasks []uuid.UUID) ([]T, error) {
	tasks = slices.DeleteFunc(tasks, func(id uuid.UUID) bool { return id == uuid.Nil })
	if len(tasks) == 0 {
		return nil, nil
	}
	const doing = "look at the tasks of investigations"
	rows, err := tx.Query(ctx, sql, tasks)
	if err != nil {
		return nil, translate(doing, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	return found, translate(doing, err)
}

func scanRedrive(row pgx.CollectableRow) (r dlq.Redrive, err error) {
	var operation pgtype.UUID
	var finished pgtype.Timestamptz
	err = row.Scan(&r.ID, &r.Generation, &operation, &r.EventID, &r.OutboxID, &r.InPlace, &r.Target, &r.Edited, &r.Actor, &r.State,
		&r.CreatedAt, &finished)
	r.Operation, r.FinishedAt = operation.Bytes, finished.Time
	return r, err
}
