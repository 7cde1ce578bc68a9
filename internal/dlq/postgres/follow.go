package postgres

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// eventStandings returns how events stand, in the order of their ids.
func eventStandings(ctx context.Context, tx pgx.Tx, ids []int64, events []uuid.UUID) ([]dlq.EventStanding, error) {
	const doing = "look at the events of investigations"
	rows, err := tx.Query(ctx, redriveStanding, ids, events)
	if err != nil {
		return nil, translate(doing, err)
	}
	all := make([]dlq.EventStanding, len(ids))
	var number int
	var s dlq.EventStanding
	_, err = pgx.ForEachRow(rows, []any{&number, &s.State, &s.Episode}, func() error {
		all[number-1] = s
		return nil
	})
	return all, translate(doing, err)
}

// openRedrive is a redrive on its way.
type openRedrive struct {
	ID       string
	OutboxID int64
	Event    uuid.UUID
	Episode  int32
}

// redriveCursor is how far following has come in the order of redrive_open; the zero value is the beginning.
type redriveCursor struct {
	mu       sync.Mutex
	outboxID int64
	redrive  string
}

func (p *redriveCursor) get() (outboxID int64, redrive string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outboxID, p.redrive
}

func (p *redriveCursor) set(outboxID int64, redrive string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outboxID, p.redrive = outboxID, redrive
}

// followPatience is how long a call of Follow begins portions for.
const followPatience = 500 * time.Millisecond

// Follow implements dlq.Operations. It goes through all open redrives, limit of them in a transaction, or as far as it
// gets within its patience: while a broker is away very many may be on their way, and none of them ends.
func (r *Redriver) Follow(ctx context.Context, limit int, resolve bool) (dlq.Followed, error) {
	var all dlq.Followed
	fromID, fromAfter := r.follow.get()
	began, wrapped := time.Now(), fromID == 0 && fromAfter == ""
	for {
		f, seen, err := r.followSome(ctx, limit, resolve)
		all.Delivered += f.Delivered
		all.CameBack += f.CameBack
		if err != nil {
			return all, err
		}
		if time.Since(began) > followPatience {
			all.More = 2*(f.Delivered+f.CameBack) > limit
			return all, nil
		}
		if seen == limit {
			continue
		}
		// The end: once more from the beginning, if this call did not begin there.
		r.follow.set(0, "")
		if wrapped {
			return all, nil
		}
		wrapped = true
	}
}

// followSome looks at the next redrives, limit at most.
func (r *Redriver) followSome(ctx context.Context, limit int, resolve bool) (f dlq.Followed, seen int, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	fromID, fromAfter := r.follow.get()
	id, after := fromID, fromAfter
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		f, id, after = dlq.Followed{}, fromID, fromAfter
		open, err := openRedrives(ctx, tx, id, after, limit)
		if err != nil {
			return err
		}
		if seen = len(open); seen > 0 {
			last := open[seen-1]
			id, after = last.OutboxID, last.ID
		}
		ended, err := endRedrives(ctx, tx, open)
		if err != nil || len(ended) == 0 {
			return err
		}
		ids := column(ended, redriveID)
		again, err := diedAgain(ctx, tx, ids)
		if err != nil {
			return err
		}
		var byOperation map[uuid.UUID]dlq.Followed
		f, byOperation = dlq.CountEnded(ended, again)
		if err := countRedrives(ctx, tx, byOperation); err != nil {
			return err
		}
		if err := noteOutcomes(ctx, tx, ended, again); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, redriveForget, ids); err != nil {
			return translate("remove redrives of what was purged", err)
		}
		if !resolve {
			return nil
		}
		return r.resolveDelivered(ctx, tx, ended)
	})
	if err != nil {
		return dlq.Followed{}, 0, err
	}
	r.follow.set(id, after)
	return f, seen, nil
}

func redriveID(e dlq.EndedRedrive) string { return e.Redrive }

// openRedrives reads redrives on their way after a cursor.
func openRedrives(ctx context.Context, tx pgx.Tx, id int64, after string, limit int) ([]openRedrive, error) {
	rows, err := tx.Query(ctx, redriveOpen, id, after, limit)
	if err != nil {
		return nil, translate("look for redrives on their way", err)
	}
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[openRedrive])
	return open, translate("look for redrives on their way", err)
}

// endRedrives writes the outcomes of the redrives that ended, and returns these.
func endRedrives(ctx context.Context, tx pgx.Tx, open []openRedrive) ([]dlq.EndedRedrive, error) {
	if len(open) == 0 {
		return nil, nil
	}
	standings, err := eventStandings(ctx, tx, column(open, func(o openRedrive) int64 { return o.OutboxID }),
		column(open, func(o openRedrive) uuid.UUID { return o.Event }))
	if err != nil {
		return nil, err
	}
	var ids, outcomes []string
	for i, o := range open {
		if outcome := standings[i].OutcomeOf(o.Episode); outcome != dlq.Queued {
			ids, outcomes = append(ids, o.ID), append(outcomes, string(outcome))
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, redriveEnd, ids, outcomes)
	if err != nil {
		return nil, translate("note what became of redrives", err)
	}
	ended, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dlq.EndedRedrive])
	return ended, translate("note what became of redrives", err)
}

// countRedrives adds redrives that ended to the numbers of their operations.
func countRedrives(ctx context.Context, tx pgx.Tx, byOperation map[uuid.UUID]dlq.Followed) error {
	if len(byOperation) == 0 {
		return nil
	}
	ids := slices.Collect(maps.Keys(byOperation))
	_, err := tx.Exec(ctx, operationCount, ids,
		column(ids, func(id uuid.UUID) int64 { return int64(byOperation[id].Delivered) }),
		column(ids, func(id uuid.UUID) int64 { return int64(byOperation[id].CameBack) }))
	return translate("count redrives of operations", err)
}

// noteOutcomes writes what became of redrives into the items of their operations, which are locked.
func noteOutcomes(ctx context.Context, tx pgx.Tx, ended []dlq.EndedRedrive, again map[string]bool) error {
	ended = slices.DeleteFunc(slices.Clone(ended), func(e dlq.EndedRedrive) bool { return e.Operation == nil })
	if len(ended) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, operationOutcome,
		column(ended, func(e dlq.EndedRedrive) uuid.UUID { return *e.Operation }),
		column(ended, func(e dlq.EndedRedrive) uuid.UUID { return e.Entry }),
		column(ended, func(e dlq.EndedRedrive) string { return string(e.Came(again)) }))
	return translate("note the outcomes of items", err)
}

// resolveDelivered closes, by rule, the investigations of messages that arrived; see dlq.ArrivedOf.
func (r *Redriver) resolveDelivered(ctx context.Context, tx pgx.Tx, ended []dlq.EndedRedrive) error {
	arrived := dlq.ArrivedOf(ended, nil)
	if len(arrived) == 0 {
		return nil
	}
	entry := func(e dlq.EndedRedrive) uuid.UUID { return e.Entry }
	// Locked first: a collector that adds a letter holds the investigation until the letter can be seen.
	if _, err := lockEntries(ctx, tx, redriveLock, column(arrived, entry)); err != nil {
		return err
	}
	again, err := diedAgain(ctx, tx, column(arrived, redriveID))
	if err != nil {
		return err
	}
	if arrived = dlq.ArrivedOf(arrived, again); len(arrived) == 0 {
		return nil
	}
	closed, err := closeEntries(ctx, tx, r.exceptions, closing{
		entries: column(arrived, entry),
		notes:   column(arrived, func(e dlq.EndedRedrive) string { return "redriven, and delivered: " + e.Redrive }),
		status:  dlq.ManuallyResolved, by: "postrider",
	})
	if err != nil || len(closed) == 0 {
		return err
	}
	return r.audit.Audit(ctx, tx, "postrider", "dlq.resolve", "entry", "", map[string]any{"entries": closed, "because": "redriven, and delivered"})
}

// diedAgain returns the redrives whose message a consumer group gave up again, as far as its letter is here: true if
// the letter is one of the same investigation, false if it opened another.
func diedAgain(ctx context.Context, tx pgx.Tx, redrives []string) (map[string]bool, error) {
	const doing = "look for letters of what was redriven"
	rows, err := tx.Query(ctx, redriveDiedAgain, redrives)
	if err != nil {
		return nil, translate(doing, err)
	}
	again := map[string]bool{}
	var redrive string
	var same bool
	_, err = pgx.ForEachRow(rows, []any{&redrive, &same}, func() error { again[redrive] = same; return nil })
	return again, translate(doing, err)
}
