package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/dlq"
)

var _ dlq.Browser = (*Desk)(nil)

// beginRead begins a transaction that sees one state of everything. Each query is planned for what it is asked, and
// none reads a whole table: with wrong statistics, that looks good for the few rows that a limit wants.
const beginRead = "begin isolation level repeatable read read only; set local statement_timeout = '30s'; set local plan_cache_mode = 'force_custom_plan'; set local jit = off; set local enable_seqscan = off"

// look runs f in a transaction that only reads.
func (d *Desk) look(ctx context.Context, doing string, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.store.timeout)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{BeginQuery: beginRead}, func(tx pgx.Tx) error { return f(ctx, tx) })
	if err != nil && !errors.Is(err, dlq.ErrRequest) && !errors.Is(err, dlq.ErrNotFound) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return err
}

// Find implements dlq.Browser.
func (d *Desk) Find(ctx context.Context, q dlq.Search) (dlq.Page, error) {
	if err := q.Check(); err != nil {
		return dlq.Page{}, err
	}
	var page dlq.Page
	return page, d.look(ctx, "list investigations", func(ctx context.Context, tx pgx.Tx) (err error) {
		if page, err = find(ctx, tx, q, d.bounds); err != nil {
			return err
		}
		return d.markHeld(ctx, tx, page.Entries)
	})
}

// find is Find in a transaction, without asking which keys are held.
func find(ctx context.Context, tx pgx.Tx, q dlq.Search, b bounds) (page dlq.Page, err error) {
	s := &search{Search: q, bounds: b, tx: tx, from: nullTime(q.Filter.From), to: nullTime(q.Filter.To)}
	if q.After != "" {
		after, err := parseCursor(q)
		if err != nil {
			return page, err
		}
		s.at, s.id = nullTime(after.At), pgtype.UUID{Bytes: after.ID, Valid: true}
	}
	if err := s.run(ctx); err != nil {
		return page, err
	}
	if len(s.page) > q.Filter.Limit {
		s.page = s.page[:q.Filter.Limit]
		page.Next = cursor(q, s.page[len(s.page)-1])
	}
	page.Total, page.TotalExact = s.total, s.exact
	if len(s.page) == 0 {
		return page, nil
	}
	rows, err := tx.Query(ctx, entryMany, column(s.page, func(f found) uuid.UUID { return f.ID }))
	if err != nil {
		return page, err
	}
	page.Entries, err = pgx.CollectRows(rows, scanEntry)
	return page, err
}

// markHeld sets KeyHeld of those whose event halts its key.
func (d *Desk) markHeld(ctx context.Context, tx pgx.Tx, entries []dlq.Entry) error {
	byID := map[uuid.UUID]*dlq.Entry{}
	var ids []uuid.UUID
	for i := range entries {
		if e := &entries[i]; e.Status == dlq.Pending && e.Subject.Type == dlq.SubjectEvent {
			ids, byID[e.UUID] = append(ids, e.UUID), e
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, entryEvents, ids)
	if err != nil {
		return err
	}
	byEvent := map[int64]*dlq.Entry{}
	var events []int64
	var id uuid.UUID
	var event int64
	_, err = pgx.ForEachRow(rows, []any{&id, &event}, func() error {
		events, byEvent[event] = append(events, event), byID[id]
		return nil
	})
	if err != nil || len(events) == 0 {
		return err
	}
	halting, _, err := d.keeper.Halting(ctx, tx, events)
	for _, event := range halting {
		byEvent[event].KeyHeld = true
	}
	return err
}

// Show implements dlq.Browser.
func (d *Desk) Show(ctx context.Context, id uuid.UUID) (dlq.Detail, error) {
	doing := fmt.Sprintf("investigation %s", id)
	var detail dlq.Detail
	return detail, d.look(ctx, doing, func(ctx context.Context, tx pgx.Tx) (err error) {
		detail, err = d.show(ctx, tx, id)
		return err
	})
}

// ShowSubject implements dlq.Browser.
func (d *Desk) ShowSubject(ctx context.Context, s dlq.Subject) (dlq.Detail, error) {
	doing := fmt.Sprintf("investigation of %s %s", s.Type, s.ID)
	var detail dlq.Detail
	return detail, d.look(ctx, doing, func(ctx context.Context, tx pgx.Tx) error {
		var id uuid.UUID
		err := tx.QueryRow(ctx, entryNewest, s.Type, s.ID).Scan(&id)
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

func (d *Desk) show(ctx context.Context, tx pgx.Tx, id uuid.UUID) (detail dlq.Detail, err error) {
	rows, err := tx.Query(ctx, entryGet, id)
	if err != nil {
		return detail, err
	}
	entry, err := pgx.CollectExactlyOneRow(rows, scanEntry)
	if errors.Is(err, pgx.ErrNoRows) {
		return detail, fmt.Errorf("investigation %s: %w", id, dlq.ErrNotFound)
	}
	if err != nil {
		return detail, err
	}
	one := []dlq.Entry{entry}
	if err := d.markHeld(ctx, tx, one); err != nil {
		return detail, err
	}
	detail.Entry = one[0]
	detail.Snapshot = d.redactor.Again(detail.Subject.Type, detail.Snapshot)
	if rows, err = tx.Query(ctx, letterList, id, dlq.MaxLetters, -1); err != nil {
		return detail, err
	}
	if detail.Letters, err = pgx.CollectRows(rows, scanLetter); err != nil {
		return detail, err
	}
	for i := range detail.Letters {
		l := &detail.Letters[i]
		l.Key, l.Payload, l.Headers = nil, nil, d.redactor.Headers(l.Headers)
	}
	if rows, err = tx.Query(ctx, replayList, id, dlq.MaxLetters); err != nil {
		return detail, err
	}
	detail.Replays, err = pgx.CollectRows(rows, scanReplay)
	return detail, err
}

func scanReplay(row pgx.CollectableRow) (r dlq.Replay, err error) {
	var operation pgtype.UUID
	var finished pgtype.Timestamptz
	err = row.Scan(&r.ID, &r.Generation, &operation, &r.EventID, &r.OutboxID, &r.InPlace, &r.Target, &r.Edited, &r.Actor, &r.State, &r.CreatedAt, &finished)
	r.Operation, r.FinishedAt = operation.Bytes, finished.Time
	return r, err
}

// Stats is dlq.Browser's for those who have no desk: it needs nothing but the database, and the rights of
// postrider_relay or postrider_operator.
func (s *Store) Stats(ctx context.Context) (dlq.Stats, error) {
	return (&Desk{store: s, pool: s.pool}).Stats(ctx)
}

// Stats implements dlq.Browser.
func (d *Desk) Stats(ctx context.Context) (dlq.Stats, error) {
	s := dlq.Stats{ByReason: map[string]int64{}, ByErrorCode: map[string]int64{}}
	return s, d.look(ctx, "count investigations", func(ctx context.Context, tx pgx.Tx) error {
		if err := tally(ctx, tx, statsWords, s.ByReason); err != nil {
			return err
		}
		if err := tally(ctx, tx, statsCodes, s.ByErrorCode); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, statsReasons)
		if err != nil {
			return err
		}
		s.Reasons, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r dlq.ReasonStats, err error) {
			var oldest, newest pgtype.Timestamptz
			err = row.Scan(&r.Reason, &r.Total, &r.Pending, &r.ManuallyResolved, &r.PermanentFailures, &r.Cancelled, &oldest, &newest)
			r.Oldest, r.Newest = oldest.Time, newest.Time
			return r, err
		})
		if err != nil {
			return err
		}
		for _, r := range s.Reasons {
			s.Total, s.Pending = s.Total+r.Total, s.Pending+r.Pending
		}
		if err := tx.QueryRow(ctx, statsDay).Scan(&s.Last24h); err != nil {
			return err
		}
		var oldest pgtype.Timestamptz
		if err := tx.QueryRow(ctx, statsOpen, dlq.RecentSamples).Scan(&oldest, &s.Recent); err != nil {
			return err
		}
		s.OldestPending = oldest.Time
		return nil
	})
}

// tally reads counts by word, the largest first; those beyond dlq.MaxWords are counted as one.
func tally(ctx context.Context, tx pgx.Tx, query string, into map[string]int64) error {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return err
	}
	var word string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&word, &n}, func() error {
		if len(into) >= dlq.MaxWords && into[word] == 0 {
			word = dlq.OtherWord
		}
		into[word] += n
		return nil
	})
	return err
}
