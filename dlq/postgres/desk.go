package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/dlq"
)

// Desk changes single investigations. It is safe for concurrent use, by any number of processes.
type Desk struct {
	store  *Store
	pool   *pgxpool.Pool
	audit  Auditor
	keeper Keeper
	// redactor hides header values, nil hides none.
	redactor *dlq.Redactor
	bounds   bounds
}

var _ dlq.Desk = (*Desk)(nil)

// NewDesk returns a desk; of the configuration it takes the same as a Redriver.
func NewDesk(cfg RedriverConfig) (*Desk, error) {
	if cfg.Auditor == nil || cfg.Keeper == nil {
		return nil, errors.New("desk: Auditor and Keeper are required")
	}
	store, err := NewStore(Config{Pool: cfg.Pool, Timeout: cfg.Timeout})
	if err != nil {
		return nil, err
	}
	return &Desk{store, cfg.Pool, cfg.Auditor, cfg.Keeper, cfg.Redactor, usualBounds}, nil
}

// Change implements dlq.Desk.
func (d *Desk) Change(ctx context.Context, id uuid.UUID, c dlq.Change) (dlq.Entry, error) {
	doing := fmt.Sprintf("change investigation %s", id)
	if err := c.Check(); err != nil {
		return dlq.Entry{}, err
	}
	err := d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var before dlq.Status
		if err := tx.QueryRow(ctx, entryStatus, id).Scan(&before); errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("investigation %s: %w", id, dlq.ErrNotFound)
		} else if err != nil {
			return translate(doing, err)
		}
		after := before
		var status *string
		if c.Status != nil && *c.Status != before {
			if before != dlq.Pending {
				return fmt.Errorf("%w: %s is %s, and cannot become %s", dlq.ErrClosed, id, before, *c.Status)
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
		if status != nil {
			action = "dlq.resolve"
		}
		return d.audit.Audit(ctx, tx, c.Actor, action, "entry", id.String(), map[string]any{
			"before": before, "after": after, "notes": c.Notes != nil, "metadata": c.Metadata != nil, "assignee": c.Assignee})
	})
	if err != nil {
		return dlq.Entry{}, err
	}
	e, _, err := d.store.Get(ctx, id)
	return e, err
}

// Purge implements dlq.Desk.
func (d *Desk) Purge(ctx context.Context, p dlq.Purge) (done dlq.Purged, err error) {
	if err := p.Check(); err != nil {
		return done, err
	}
	err = d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		done = dlq.Purged{}
		found, events, err := selectPurged(ctx, tx, p)
		if err != nil {
			return err
		}
		for _, id := range p.Entries {
			if !slices.Contains(found, id) {
				return fmt.Errorf("investigation %s: %w", id, dlq.ErrNotFound)
			}
		}
		if found, done.Holding, err = d.letGo(ctx, tx, p, found, events); err != nil || len(found) == 0 {
			return err
		}
		tag, err := tx.Exec(ctx, purgeDelete, found)
		if err != nil {
			return translate("purge investigations", err)
		}
		done.Entries = int(tag.RowsAffected())
		details := map[string]any{"purged": done.Entries, "entries": found, "reason": p.Reason, "keys_released": p.ReleaseKeys}
		target := ""
		if !p.OlderThan.IsZero() {
			details["older_than"] = p.OlderThan
		} else if len(p.Entries) == 1 {
			target = p.Entries[0].String()
		}
		return d.audit.Audit(ctx, tx, p.Actor, "dlq.purge", "entry", target, details)
	})
	return done, err
}

// selectPurged locks what a purge is about, and returns the investigations by the event that each is about.
func selectPurged(ctx context.Context, tx pgx.Tx, p dlq.Purge) (found []uuid.UUID, events map[int64]uuid.UUID, err error) {
	var rows pgx.Rows
	if len(p.Entries) > 0 {
		unique := slices.SortedFunc(slices.Values(p.Entries), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		rows, err = tx.Query(ctx, purgeNamed, slices.Compact(unique))
	} else {
		rows, err = tx.Query(ctx, purgeOld, p.OlderThan, p.Reason, p.Limit)
	}
	if err != nil {
		return nil, nil, translate("find investigations to purge", err)
	}
	events = map[int64]uuid.UUID{}
	var id uuid.UUID
	var event *int64
	_, err = pgx.ForEachRow(rows, []any{&id, &event}, func() error {
		found = append(found, id)
		if event != nil {
			events[*event] = id
		}
		return nil
	})
	return found, events, translate("find investigations to purge", err)
}

// letGo deals with the investigations that hold a key: lets the keys go, refuses, or passes them over. It returns
// those that may be purged, and how many were passed over.
func (d *Desk) letGo(ctx context.Context, tx pgx.Tx, p dlq.Purge, found []uuid.UUID, events map[int64]uuid.UUID) ([]uuid.UUID, int, error) {
	if len(events) == 0 {
		return found, 0, nil
	}
	ids := make([]int64, 0, len(events))
	for id := range events {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	halting, _, err := d.keeper.Halting(ctx, tx, ids)
	if err != nil || len(halting) == 0 {
		return found, 0, err
	}
	if p.ReleaseKeys {
		return found, 0, d.keeper.ReleaseKeys(ctx, tx, halting)
	}
	if len(p.Entries) > 0 {
		return nil, 0, fmt.Errorf("%w: %s; the later events of its key wait. Redrive it, or purge it and let its key go (release_keys)",
			dlq.ErrHoldsKey, events[halting[0]])
	}
	return slices.DeleteFunc(found, func(id uuid.UUID) bool {
		return slices.ContainsFunc(halting, func(event int64) bool { return events[event] == id })
	}), len(halting), nil
}

// transact runs f in a transaction that is bounded in time.
func (d *Desk) transact(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.store.timeout)
	defer cancel()
	return pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error { return f(ctx, tx) })
}
