package postgres

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
)

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// eventStandings returns how events stand, in the order of their ids.
func eventStandings(ctx context.Context, outbox querier, ids []int64, events []uuid.UUID) ([]dlq.EventStanding, error) {
	const doing = "look at the events of investigations"
	rows, err := outbox.Query(ctx, redriveStanding, ids, events)
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

// following is what follows the redrives of one source.
type following struct {
	source string
	// database is that of the source; nil is the desk's own.
	database *pgxpool.Pool
	cursor   *redriveCursor
}

// Follow implements dlq.Operations, for the desk's own outbox.
func (r *Redriver) Follow(ctx context.Context, limit int, resolve bool) (dlq.Followed, error) {
	return r.followAll(ctx, following{dlq.MainSource, nil, &r.follow}, limit, resolve)
}

// followAll goes through all open redrives of a source, limit of them in a transaction, or as far as it gets within its patience:
// while a broker is away very many may be on their way, and none of them ends.
func (r *Redriver) followAll(ctx context.Context, w following, limit int, resolve bool) (dlq.Followed, error) {
	var all dlq.Followed
	fromID, fromAfter := w.cursor.get()
	began, wrapped := time.Now(), fromID == 0 && fromAfter == ""
	for {
		f, seen, err := r.followSome(ctx, w, limit, resolve)
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
		w.cursor.set(0, "")
		if wrapped {
			return all, nil
		}
		wrapped = true
	}
}

// followSome looks at the next redrives, limit at most.
func (r *Redriver) followSome(ctx context.Context, w following, limit int, resolve bool) (f dlq.Followed, seen int, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	id, after := w.cursor.get()
	open, standings, err := r.lookAtRedrives(ctx, w, id, after, limit)
	if err != nil {
		return dlq.Followed{}, 0, err
	}
	if seen = len(open); seen > 0 {
		last := open[seen-1]
		id, after = last.OutboxID, last.ID
	}
	ends, outcomes := endsOf(open, standings, w.database != nil)
	if len(ends) == 0 {
		w.cursor.set(id, after)
		return dlq.Followed{}, seen, nil
	}
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		f = dlq.Followed{}
		ended, err := endRedrives(ctx, tx, ends, outcomes)
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
	w.cursor.set(id, after)
	return f, seen, nil
}

func redriveID(e dlq.EndedRedrive) string { return e.Redrive }

// openRedrives reads redrives on their way after a cursor.
func openRedrives(ctx context.Context, tx pgx.Tx, source string, id int64, after string, limit int) ([]openRedrive, error) {
	rows, err := tx.Query(ctx, redriveOpen, id, after, limit, source)
	if err != nil {
		return nil, translate("look for redrives on their way", err)
	}
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[openRedrive])
	return open, translate("look for redrives on their way", err)
}

// lookAtRedrives reads redrives on their way after a cursor, and how their events stand. While another database is asked no
// transaction is open in this one.
func (r *Redriver) lookAtRedrives(ctx context.Context, w following, id int64, after string, limit int) (open []openRedrive, standings []dlq.EventStanding, err error) {
	look := func(ctx context.Context, outbox querier) (err error) {
		if len(open) > 0 {
			standings, err = eventStandings(ctx, outbox, column(open, func(o openRedrive) int64 { return o.OutboxID }),
				column(open, func(o openRedrive) uuid.UUID { return o.Event }))
		}
		return err
	}
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) (err error) {
		if open, err = openRedrives(ctx, tx, w.source, id, after, limit); err != nil || w.database != nil {
			return err
		}
		return look(ctx, tx)
	})
	if err != nil || w.database == nil {
		return open, standings, err
	}
	ctx, cancel := context.WithTimeout(ctx, obeyLimit)
	defer cancel()
	return open, standings, look(ctx, w.database)
}

// endsOf returns the redrives that ended, and their outcomes. There the events are in another database, which can be set back
// without this one.
func endsOf(open []openRedrive, standings []dlq.EventStanding, there bool) (ids, outcomes []string) {
	for i, o := range open {
		outcome := string(standings[i].OutcomeOf(o.Episode))
		if there && standings[i].Undone(o.Episode) {
			outcome = dlq.RedriveUndone
		}
		if outcome != string(dlq.Queued) {
			ids, outcomes = append(ids, o.ID), append(outcomes, outcome)
		}
	}
	return ids, outcomes
}

// endRedrives writes the outcomes of redrives, and returns the ones that had none.
func endRedrives(ctx context.Context, tx pgx.Tx, ids, outcomes []string) ([]dlq.EndedRedrive, error) {
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
	sources, err := sourcesOfEntries(ctx, tx, closed)
	if err != nil {
		return err
	}
	return r.audit.Audit(ctx, tx, "postrider", "dlq.resolve", "entry", "", sources, map[string]any{"entries": closed, "because": "redriven, and delivered"})
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
