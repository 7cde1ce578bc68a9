package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/relay"
)

// crowdTurn is how many events of a crowded key come back at once.
const crowdTurn = 250

// errBusy: somebody held a lock for longer than a turn waits.
var errBusy = errors.New("locked by somebody else")

// Return implements relay.Store. Every change is made under the lock of the shard it concerns, one
// shard per transaction, in the order shard, hold, hold's shard, events, which is the order of settling.
// A shard that is busy is left for the next turn, with all that is due in it.
func (s *Store) Return(ctx context.Context, limit int, grace time.Duration) (_ relay.Returned, err error) {
	defer s.judge(&err, true)
	total, err := s.returnDue(ctx, limit, grace)
	if err == nil && total == (relay.Returned{}) {
		total.Next, err = s.untilDue(ctx)
	}
	// Last, and whatever became of the rest: nobody waits for the marks.
	return total, errors.Join(err, s.raiseMarks(ctx))
}

func (s *Store) returnDue(ctx context.Context, limit int, grace time.Duration) (relay.Returned, error) {
	var total relay.Returned
	busy := map[int16]bool{}
	shards, err := s.dueShards(ctx)
	if err != nil {
		return total, err
	}
	for _, shard := range shards {
		n, err := s.returnScheduled(ctx, shard, limit)
		total.Events += n
		switch {
		case errors.Is(err, errBusy):
			busy[shard] = true
		case err != nil:
			return total, fmt.Errorf("return scheduled events of shard %d: %w", shard, err)
		}
	}
	due, err := s.dueHolds(ctx)
	if err != nil {
		return total, err
	}
	// Asked here, before their events are read, and not taken from the claims: these ask only while a topic is
	// in commit order by the settings, and what was parked before must come back afterwards too.
	var final int64
	if slices.ContainsFunc(due, func(h dueHold) bool { return h.cause == relay.CauseCommitOrder }) {
		if final, _, err = s.order.final(ctx, s.pool); err != nil {
			return total, err
		}
	}
	for _, h := range due {
		if h.shard != nil && busy[*h.shard] {
			continue
		}
		n, ended, err := s.returnHold(ctx, h, limit, final, grace)
		total.Events += n
		if ended {
			total.Holds++
		}
		switch {
		case errors.Is(err, errBusy):
			if h.shard != nil {
				busy[*h.shard] = true
			}
		case err != nil:
			return total, fmt.Errorf("return events of hold %d: %w", h.id, err)
		}
	}
	return total, nil
}

func (s *Store) returnScheduled(ctx context.Context, shard int16, limit int) (n int, err error) {
	err = s.inShard(ctx, shard, func(tx pgx.Tx) error {
		var first int64
		if err := tx.QueryRow(ctx, returnScheduled, shard, limit).Scan(&n, &first); err != nil || n == 0 {
			return err
		}
		_, err := tx.Exec(ctx, lowerWater, shard, first)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (s *Store) dueShards(ctx context.Context) ([]int16, error) {
	rows, err := s.pool.Query(ctx, dueShards)
	if err != nil {
		return nil, fmt.Errorf("find due shards: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[int16])
}

type dueHold struct {
	id       int64
	draining bool
	cause    relay.Cause
	shard    *int16
}

func (s *Store) dueHolds(ctx context.Context) ([]dueHold, error) {
	rows, err := s.pool.Query(ctx, dueHolds)
	if err != nil {
		return nil, fmt.Errorf("find due holds: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (h dueHold, err error) {
		err = row.Scan(&h.id, &h.draining, &h.cause, &h.shard)
		return h, err
	})
}

// returnHold works on one shard of one hold. Up to the id final no transaction can commit an event any more.
// It returns how many events came back and whether the hold ended.
func (s *Store) returnHold(ctx context.Context, h dueHold, limit int, final int64, grace time.Duration) (n int, ended bool, err error) {
	if h.shard == nil {
		err = s.inTurn(ctx, func(tx pgx.Tx) error {
			ended, err = endHoldIn(ctx, tx, h.id)
			return err
		})
		return 0, ended && err == nil, err
	}
	err = s.inShard(ctx, *h.shard, func(tx pgx.Tx) error {
		var draining, due bool
		var cause relay.Cause
		switch err := tx.QueryRow(ctx, lockHold, h.id).Scan(&draining, &due, &cause); {
		case errors.Is(err, pgx.ErrNoRows), err == nil && !due:
			return nil // ended or renewed since it was found
		case err != nil:
			return err
		}
		last := int64(math.MaxInt64)
		switch {
		case !draining:
			limit = 1 // a probe
		case cause == relay.CauseCommitOrder:
			last = final
		case cause == relay.CauseCrowded:
			// In turns: the next ones when the last ones are sent, and no more at once than others can wait for.
			var wait bool
			if err := tx.QueryRow(ctx, crowdWaits, h.id, *h.shard).Scan(&wait); err != nil || wait {
				return err
			}
			limit = min(limit, crowdTurn)
		}
		var through, first int64
		if err := tx.QueryRow(ctx, returnParked, h.id, *h.shard, limit, last).Scan(&n, &through, &first); err != nil {
			return err
		}
		if n > 0 {
			if _, err := tx.Exec(ctx, lowerWater, *h.shard, first); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, letThrough, h.id, *h.shard, through); err != nil {
				return err
			}
		}
		if !draining && n > 0 {
			_, err := tx.Exec(ctx, postponeProbe, h.id, micros(grace))
			return err
		}
		if n == limit && n > 0 {
			return nil // there may be more
		}
		if last < math.MaxInt64 {
			var more bool
			if err := tx.QueryRow(ctx, stillParked, h.id, *h.shard).Scan(&more); err != nil || more {
				return err
			}
		}
		// The last one is back, in this transaction, and the shard's lock keeps new ones out.
		if _, err := tx.Exec(ctx, emptyHoldShard, h.id, *h.shard); err != nil {
			return err
		}
		ended, err = endHoldIn(ctx, tx, h.id)
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return n, ended, nil
}

// endHoldIn removes a hold that has no parked events in any shard. Locking it first waits for whoever
// is parking under it just now.
func endHoldIn(ctx context.Context, tx pgx.Tx, id int64) (bool, error) {
	var draining, due bool
	var cause relay.Cause
	if err := tx.QueryRow(ctx, lockHold, id).Scan(&draining, &due, &cause); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		return false, err
	}
	tag, err := tx.Exec(ctx, endHold, id)
	return tag.RowsAffected() > 0, err
}

// inShard runs f in a transaction that holds the shard's lock.
func (s *Store) inShard(ctx context.Context, shard int16, f func(pgx.Tx) error) error {
	return s.inTurn(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockShard, shard); err != nil {
			return err
		}
		return f(tx)
	})
}

// inTurn runs f in a transaction that waits for no lock for long: then it returns errBusy.
func (s *Store) inTurn(ctx context.Context, f func(pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local lock_timeout = '1s'"); err != nil {
			return err
		}
		return f(tx)
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" { // lock_not_available
		return errBusy
	}
	return err
}
