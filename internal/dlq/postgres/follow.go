package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// published is the state of an outbox event that its topic has acknowledged.
const published = "published"

// stand is the state of an event that was given up before; the zero value is an event that is gone.
type stand struct {
	state   string
	episode int32
}

// waits reports whether the event is to be sent to its topic.
func (s stand) waits() bool {
	return slices.Contains([]string{"pending", "parked", "scheduled"}, s.state)
}

// standing returns how events stand.
func standing(ctx context.Context, tx pgx.Tx, ids []int64, events []uuid.UUID) ([]stand, error) {
	const doing = "look at the events of investigations"
	rows, err := tx.Query(ctx, redriveStanding, ids, events)
	if err != nil {
		return nil, translate(doing, err)
	}
	all := make([]stand, len(ids))
	var place int
	var s stand
	_, err = pgx.ForEachRow(rows, []any{&place, &s.state, &s.episode}, func() error {
		all[place-1] = s
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

// fate is what became of a redrive whose event stands like this: empty while it is on its way.
func (r openRedrive) fate(s stand) string {
	switch {
	case s.state == "":
		return "gone"
	case s.episode > r.Episode:
		return "came_back"
	case s.state == published:
		return "delivered"
	}
	return ""
}

// place is how far following has come; the zero value is the beginning.
type place struct {
	mu    sync.Mutex
	id    int64
	after string
}

func (p *place) get() (int64, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id, p.after
}

func (p *place) set(id int64, after string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.after = id, after
}

// followPatience is how long a call of Follow begins portions for.
const followPatience = 500 * time.Millisecond

// Follow implements dlq.Redriver. It goes through all open redrives, limit of them in a transaction, or as far as it
// gets within its patience: while a broker is away very many may be on their way, and none of them ends.
func (r *Redriver) Follow(ctx context.Context, limit int, resolve bool) (dlq.Followed, error) {
	var all dlq.Followed
	began, wrapped := time.Now(), false
	fromID, fromAfter := r.follow.get()
	if fromID == 0 && fromAfter == "" {
		wrapped = true
	}
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

// ended is a redrive whose outcome was noted now.
type ended struct {
	Entry     uuid.UUID
	Redrive   string
	Operation *uuid.UUID
	Outcome   string
}

// followSome looks at the next redrives, limit at most.
func (r *Redriver) followSome(ctx context.Context, limit int, resolve bool) (f dlq.Followed, seen int, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	fromID, fromAfter := r.follow.get()
	id, after := fromID, fromAfter
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		f, id, after = dlq.Followed{}, fromID, fromAfter
		open, fates, err := openRedrives(ctx, tx, id, after, limit)
		if err != nil {
			return err
		}
		if seen = len(open); seen > 0 {
			last := open[seen-1]
			id, after = last.OutboxID, last.ID
		}
		done, err := endRedrives(ctx, tx, open, fates)
		if err != nil || len(done) == 0 {
			return err
		}
		again, err := diedAgain(ctx, tx, column(done, func(e ended) string { return e.Redrive }))
		if err != nil {
			return err
		}
		arrived := slices.DeleteFunc(slices.Clone(done), func(e ended) bool { return e.Outcome != "delivered" })
		for i := range done {
			if _, died := again[done[i].Redrive]; died {
				done[i].Outcome = "came_back"
			}
			if done[i].Outcome == "delivered" {
				f.Delivered++
			} else {
				f.CameBack++
			}
		}
		if err := countRedrives(ctx, tx, done); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, redriveForget, column(done, func(e ended) string { return e.Redrive })); err != nil {
			return translate("remove redrives of what was purged", err)
		}
		if !resolve || len(arrived) == 0 {
			return nil
		}
		return r.resolveDelivered(ctx, tx, arrived)
	})
	if err != nil {
		return dlq.Followed{}, 0, err
	}
	r.follow.set(id, after)
	return f, seen, nil
}

// openRedrives reads redrives on their way after a place, and what became of each.
func openRedrives(ctx context.Context, tx pgx.Tx, id int64, after string, limit int) ([]openRedrive, []string, error) {
	rows, err := tx.Query(ctx, redriveOpen, id, after, limit)
	if err != nil {
		return nil, nil, translate("look for redrives on their way", err)
	}
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[openRedrive])
	if err != nil || len(open) == 0 {
		return nil, nil, translate("look for redrives on their way", err)
	}
	now, err := standing(ctx, tx, column(open, func(o openRedrive) int64 { return o.OutboxID }), column(open, func(o openRedrive) uuid.UUID { return o.Event }))
	if err != nil {
		return nil, nil, err
	}
	fates := make([]string, len(open))
	for i, o := range open {
		fates[i] = o.fate(now[i])
	}
	return open, fates, nil
}

// endRedrives notes the outcomes of the redrives that ended, and returns these.
func endRedrives(ctx context.Context, tx pgx.Tx, open []openRedrive, fates []string) ([]ended, error) {
	var ids, became []string
	for i, o := range open {
		if fates[i] != "" {
			ids, became = append(ids, o.ID), append(became, fates[i])
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, redriveEnd, ids, became)
	if err != nil {
		return nil, translate("note what became of redrives", err)
	}
	done, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ended])
	return done, translate("note what became of redrives", err)
}

// countRedrives adds redrives that ended to the numbers of their operations.
func countRedrives(ctx context.Context, tx pgx.Tx, done []ended) error {
	type counts struct{ delivered, cameBack int64 }
	byOperation := map[uuid.UUID]*counts{}
	for _, e := range done {
		if e.Operation == nil {
			continue
		}
		c := byOperation[*e.Operation]
		if c == nil {
			c = &counts{}
			byOperation[*e.Operation] = c
		}
		if e.Outcome == "delivered" {
			c.delivered++
		} else {
			c.cameBack++
		}
	}
	if len(byOperation) == 0 {
		return nil
	}
	ids := slices.Collect(maps.Keys(byOperation))
	_, err := tx.Exec(ctx, operationCount, ids,
		column(ids, func(id uuid.UUID) int64 { return byOperation[id].delivered }),
		column(ids, func(id uuid.UUID) int64 { return byOperation[id].cameBack }))
	return translate("count redrives of operations", err)
}

// resolveDelivered closes, by rule, the investigations of messages that arrived. If a consumer group gave a message up
// again and its letter was added to the investigation by now, the investigation stays open: the letter would be closed
// over. If the letter opened another investigation, the work goes on there.
func (r *Redriver) resolveDelivered(ctx context.Context, tx pgx.Tx, delivered []ended) error {
	slices.SortFunc(delivered, func(a, b ended) int { return cmp.Compare(a.Redrive, b.Redrive) })
	// Locked first: a collector that adds a letter holds the investigation until the letter can be seen.
	if _, err := lockEntries(ctx, tx, redriveLock, column(delivered, func(e ended) uuid.UUID { return e.Entry })); err != nil {
		return err
	}
	again, err := diedAgain(ctx, tx, column(delivered, func(e ended) string { return e.Redrive }))
	if err != nil {
		return err
	}
	delivered = slices.DeleteFunc(delivered, func(e ended) bool { return again[e.Redrive] })
	if len(delivered) == 0 {
		return nil
	}
	closed, err := closeEntries(ctx, tx, r.exceptions, closing{
		entries: column(delivered, func(e ended) uuid.UUID { return e.Entry }),
		notes:   column(delivered, func(e ended) string { return "redriven, and delivered: " + e.Redrive }),
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
