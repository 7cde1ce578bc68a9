package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// watchDelay is how long after a change it is looked at: rows bear the time at which their transaction began. What a
// longer one closed is not counted.
const watchDelay = 15 * time.Second

// Standing implements dlq.Standings.
func (s *Store) Standing(ctx context.Context, limit int) (dlq.Standing, error) {
	const doing = "count pending investigations"
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	st := dlq.Standing{Pending: map[dlq.Reason]int64{}, Groups: map[dlq.GroupState]int64{}, Ages: make([]int64, len(dlq.AgeBounds())+1)}
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{BeginQuery: beginRead}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, watchReasons)
		if err != nil {
			return err
		}
		var reason dlq.Reason
		var n int64
		if _, err := pgx.ForEachRow(rows, []any{&reason, &n}, func() error { st.Pending[reason] = n; return nil }); err != nil {
			return err
		}
		if rows, err = tx.Query(ctx, watchAges, limit, dlq.AgeBounds()); err != nil {
			return err
		}
		var bucket int
		var sum, oldest float64
		_, err = pgx.ForEachRow(rows, []any{&bucket, &n, &sum, &oldest}, func() error {
			st.Ages[bucket] = n
			st.AgeSum += seconds(sum)
			st.Oldest = max(st.Oldest, seconds(oldest))
			return nil
		})
		if err != nil {
			return err
		}
		if rows, err = tx.Query(ctx, watchGroups, limit); err != nil {
			return err
		}
		var state dlq.GroupState
		_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error { st.Groups[state] = n; return nil })
		return err
	})
	if err != nil {
		return dlq.Standing{}, translate(doing, err)
	}
	return st, nil
}

// Closed implements dlq.Standings.
func (s *Store) Closed(ctx context.Context, from dlq.ClosedPlace, since time.Time, limit int) ([]dlq.Closed, dlq.ClosedPlace, bool, error) {
	return s.closed(ctx, from, since, limit, watchDelay)
}

func (s *Store) closed(ctx context.Context, from dlq.ClosedPlace, since time.Time, limit int, delay time.Duration) (closed []dlq.Closed,
	to dlq.ClosedPlace, more bool, err error) {
	const doing = "look for closed investigations"
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if from.ChangedAt.IsZero() {
		err := s.pool.QueryRow(ctx, watchNow, delay.Seconds()).Scan(&to.ChangedAt)
		return nil, to, false, translate(doing, err)
	}
	seen := 0
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{BeginQuery: beginRead}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, watchClosed, from.ChangedAt, from.Entry, since, delay.Seconds(), limit)
		if err != nil {
			return err
		}
		to = from
		var c dlq.Closed
		var took float64
		var counts bool
		_, err = pgx.ForEachRow(rows, []any{&to.ChangedAt, &to.Entry, &c.Reason, &c.Status, &took, &counts}, func() error {
			seen++
			if counts {
				c.Took = seconds(took)
				closed = append(closed, c)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, from, false, translate(doing, err)
	}
	return closed, to, seen == limit, nil
}

// Opened implements dlq.Standings.
func (s *Store) Opened(ctx context.Context, after time.Time) (dlq.OpenedGroups, time.Time, error) {
	return s.openedGroups(ctx, after, watchDelay)
}

func (s *Store) openedGroups(ctx context.Context, after time.Time, delay time.Duration) (n dlq.OpenedGroups, to time.Time, err error) {
	const doing = "look for new groups"
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if after.IsZero() {
		err := s.pool.QueryRow(ctx, watchNow, delay.Seconds()).Scan(&to)
		return n, to, translate(doing, err)
	}
	if err := s.pool.QueryRow(ctx, watchOpened, after, delay.Seconds()).Scan(&to, &n.New, &n.Regressed); err != nil {
		return dlq.OpenedGroups{}, after, translate(doing, err)
	}
	return n, to, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
