package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
)

// Investigations shows and changes investigations and their groups. It is safe for concurrent use, by any number of
// processes.
type Investigations struct {
	pool       *pgxpool.Pool
	timeout    time.Duration // of each call
	audit      Auditor
	exceptions Exceptions
	// redactor hides header values, nil hides none.
	redactor *dlq.Redactor
	bounds   bounds
}

var (
	_ dlq.Investigations = (*Investigations)(nil)
	_ dlq.Pointers       = (*Investigations)(nil)
)

// NewInvestigations takes the same of the configuration as a Redriver, without spans.
func NewInvestigations(cfg RedriverConfig) (*Investigations, error) {
	if err := cfg.check("investigations"); err != nil {
		return nil, err
	}
	return &Investigations{cfg.Pool, cfg.Timeout, cfg.Auditor, cfg.Exceptions, cfg.Redactor, usualBounds}, nil
}

// Change implements dlq.Investigations.
func (d *Investigations) Change(ctx context.Context, id uuid.UUID, c dlq.Change) (dlq.Entry, error) {
	doing := fmt.Sprintf("change investigation %s", id)
	if err := c.Check(); err != nil {
		return dlq.Entry{}, err
	}
	err := d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var before dlq.Status
		var since *time.Time
		var by, assignee, source string
		if err := tx.QueryRow(ctx, entryStatus, id).Scan(&before, &since, &by, &assignee, &source); errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("investigation %s: %w", id, dlq.ErrNotFound)
		} else if err != nil {
			return translate(doing, err)
		}
		if err := dlq.NotTaken(assignee, c.IfAssignee, c.Assignee); err != nil {
			return fmt.Errorf("investigation %s: %w", id, err)
		}
		after := before
		var status *string
		if c.Status != nil && *c.Status != before {
			if before != dlq.Pending {
				return fmt.Errorf("investigation %s: %w: it is %s since %s, by %s, and cannot become %s; when the same comes back, a new one is opened",
					id, dlq.ErrClosed, before, value(since).UTC().Format(time.RFC3339), cmp.Or(by, "an actor without a name"), *c.Status)
			}
			if going, err := entriesUnderWay(ctx, tx, []uuid.UUID{id}); err != nil {
				return err
			} else if len(going) > 0 {
				return fmt.Errorf("investigation %s: %w", id, dlq.ErrUnderWay)
			}
			after = *c.Status
			text := string(after)
			status = &text
		}
		var metadata *string
		if c.Metadata != nil {
			text := string(c.Metadata)
			metadata = &text
		}
		if _, err := tx.Exec(ctx, entryChange, id, status, c.Notes, c.ResolvedBy, metadata, c.Assignee, c.Actor); err != nil {
			return translate(doing, err)
		}
		action := "dlq.note"
		var released []int64
		if status != nil {
			action = "dlq.resolve"
			var err error
			if released, err = releaseKeys(ctx, tx, d.exceptions, []uuid.UUID{id}); err != nil {
				return err
			}
		}
		return d.audit.Audit(ctx, tx, c.Actor, action, "entry", id.String(), []string{source}, auditEvents(map[string]any{
			"before": before, "after": after, "notes": c.Notes != nil, "metadata": c.Metadata != nil, "assignee": c.Assignee}, released))
	})
	if err != nil {
		return dlq.Entry{}, err
	}
	return d.entry(ctx, id)
}

// entry reads one investigation, with its whole snapshot.
func (d *Investigations) entry(ctx context.Context, id uuid.UUID) (e dlq.Entry, err error) {
	err = d.readByKey(ctx, fmt.Sprintf("investigation %s", id), func(ctx context.Context, tx pgx.Tx) error {
		var one []dlq.Entry
		var events []openEvent
		b := &pgx.Batch{}
		queueRows(b, &one, scanEntry, entryGet, id)
		queueRows(b, &events, pgx.RowToStructByPos[openEvent], entryEvents, []uuid.UUID{id})
		if err := send(ctx, tx, b); err != nil {
			return err
		}
		if len(one) == 0 {
			return fmt.Errorf("investigation %s: %w", id, dlq.ErrNotFound)
		}
		err := d.markHeld(ctx, tx, one, events)
		e = one[0]
		return err
	})
	return e, err
}

// purgePages is after how many pages of investigations that all hold keys, or are locked by other sessions, a purge by age
// gives up. If it did not go on past these pages, it would find the same ones for ever.
const purgePages = 10

// Purge implements dlq.Investigations.
func (d *Investigations) Purge(ctx context.Context, p dlq.Purge) (dlq.Purged, error) {
	if err := p.Check(); err != nil {
		return dlq.Purged{}, err
	}
	if len(p.Entries) > 0 {
		return d.purge(ctx, p, p.Entries)
	}
	q := purgeSearch(p)
	var all dlq.Purged
	for range purgePages {
		var page dlq.Page
		var ids []uuid.UUID
		err := d.readPlanned(ctx, "find investigations to purge", func(ctx context.Context, tx pgx.Tx) (err error) {
			page, ids, err = find(ctx, tx, q, d.bounds.whole())
			return err
		})
		if err != nil {
			return all, err
		}
		done, err := d.purge(ctx, p, ids)
		if err != nil {
			return all, err
		}
		all.Entries, all.Holding = done.Entries, all.Holding+done.Holding
		if q.After = page.Next; done.Entries > 0 || page.Next == "" {
			break
		}
	}
	// What is left is only a number to the caller: a failure here takes nothing back.
	var err error
	if all.Left, all.LeftExact, err = d.Purgeable(ctx, p); err != nil && all.Entries == 0 {
		return all, err
	}
	return all, nil
}

// Purgeable implements dlq.Investigations.
func (d *Investigations) Purgeable(ctx context.Context, p dlq.Purge) (total int64, exact bool, err error) {
	if err := p.Check(); err != nil {
		return 0, false, err
	}
	if len(p.Entries) > 0 {
		return 0, false, fmt.Errorf("%w: investigations that are named need no count; give older_than", dlq.ErrRequest)
	}
	q := purgeSearch(p)
	q.Filter.Limit, q.WithoutTotal = 1, false
	err = d.readPlanned(ctx, "count what a purge selects", func(ctx context.Context, tx pgx.Tx) error {
		page, _, err := find(ctx, tx, q, d.bounds)
		total, exact = page.Total, page.TotalExact
		return err
	})
	return total, exact, err
}

// purgeSearch is the search for the investigations that a purge by age selects, the oldest first. The end of a search is
// in it, and OlderThan is not.
func purgeSearch(p dlq.Purge) dlq.Search {
	q := dlq.Search{Filter: p.Filter, OrderBy: dlq.ByCreated, Ascending: true, WithoutTotal: true}
	q.Filter.To, q.Filter.Limit, q.Filter.Offset = p.OlderThan.Add(-time.Microsecond), p.Limit, 0
	return q
}

// purge removes the investigations in entries that p is about, in one transaction.
func (d *Investigations) purge(ctx context.Context, p dlq.Purge, entries []uuid.UUID) (done dlq.Purged, err error) {
	if len(entries) == 0 {
		return done, nil
	}
	err = d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		done = dlq.Purged{}
		found, err := lockPurged(ctx, tx, p, entries)
		if err != nil {
			return err
		}
		if err := allThere(p.Entries, found); err != nil {
			return err
		}
		sources, err := sourcesOfEntries(ctx, tx, found) // while they are there
		if err != nil {
			return err
		}
		gone, holding, released, err := purgeEntries(ctx, tx, d.exceptions, found, p.ReleaseKeys)
		if err != nil {
			return err
		}
		if len(holding) > 0 && len(p.Entries) > 0 {
			return fmt.Errorf("%w: %s; the later events of its key wait. Redrive it, or purge it and let its key go (release_keys)",
				dlq.ErrHoldsKey, holding[0])
		}
		if done.Entries, done.Holding = len(gone), len(holding); len(gone) == 0 {
			return nil
		}
		details := auditEvents(map[string]any{"purged": done.Entries, "entries": gone, "reason": p.Filter.Word, "keys_released": p.ReleaseKeys}, released)
		target := ""
		if !p.OlderThan.IsZero() {
			details["older_than"], details["filter"] = p.OlderThan, p.Filter
		} else if len(p.Entries) == 1 {
			target = p.Entries[0].String()
		}
		return d.audit.Audit(ctx, tx, p.Actor, "dlq.purge", "entry", target, sources, details)
	})
	if err != nil {
		return dlq.Purged{}, err
	}
	return done, nil
}

// lockPurged locks the investigations in entries that p is about, and returns them. They were found without a lock, so all
// of its filter is asked for again.
func lockPurged(ctx context.Context, tx pgx.Tx, p dlq.Purge, entries []uuid.UUID) ([]uuid.UUID, error) {
	const doing = "find investigations to purge"
	if len(p.Entries) > 0 {
		return lockEntries(ctx, tx, purgeLock, distinctIDs(entries))
	}
	f := p.Filter
	which := &search{Search: dlq.Search{Filter: f}, tx: tx} // its groups and letters as they are now
	if err := which.limit(ctx); err != nil {
		return nil, translate(doing, err)
	}
	rows, err := tx.Query(ctx, purgeOld, entries, p.OlderThan, nullTime(f.From), f.Status, f.Reason, f.Subject.Type, f.Subject.ID,
		which.within, f.Topic, f.ErrorCode, f.Assignee, pattern(f.Message), f.ConsumerGroup, f.DLQTopic, which.about)
	if err != nil {
		return nil, translate(doing, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return found, translate(doing, err)
}

// purgeEntries removes investigations that the caller has locked. An investigation that holds a key, or may hold one in another
// source, is left, unless release says to let its key go: released are the events that held one here.
func purgeEntries(ctx context.Context, tx pgx.Tx, exceptions Exceptions, found []uuid.UUID, release bool) (gone, holding []uuid.UUID, released []int64, err error) {
	events, err := haltingEvents(ctx, tx, exceptions, found)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(events) > 0 && release {
		released = slices.Sorted(maps.Keys(events))
		if err := exceptions.ReleaseKeys(ctx, tx, released); err != nil {
			return nil, nil, nil, err
		}
	} else if !release {
		holds, err := pendingOfSources(ctx, tx, found)
		if err != nil {
			return nil, nil, nil, err
		}
		for _, entry := range events {
			holds[entry] = true
		}
		for _, id := range found {
			if holds[id] {
				holding = append(holding, id)
			}
		}
		found = slices.DeleteFunc(slices.Clone(found), func(id uuid.UUID) bool { return holds[id] })
	}
	if len(found) == 0 {
		return nil, holding, nil, nil
	}
	if _, err := tx.Exec(ctx, purgeDelete, found); err != nil {
		return nil, nil, nil, translate("purge investigations", err)
	}
	return found, holding, released, nil
}

// pendingOfSources are the pending investigations of events of other sources among these.
func pendingOfSources(ctx context.Context, tx pgx.Tx, entries []uuid.UUID) (map[uuid.UUID]bool, error) {
	const doing = "look for investigations of other sources"
	rows, err := tx.Query(ctx, purgeOfSources, entries)
	if err != nil {
		return nil, translate(doing, err)
	}
	found := map[uuid.UUID]bool{}
	var entry uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&entry}, func() error { found[entry] = true; return nil })
	return found, translate(doing, err)
}

// transact runs f in a transaction that is bounded in time.
func (d *Investigations) transact(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return transact(ctx, d.pool, steady, func(tx pgx.Tx) error { return f(ctx, tx) })
}
