package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

// keysPerBlock is about how many idempotency keys a block of the table holds.
const keysPerBlock = 75

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// step is what one look at the rows of a kind found.
type step struct {
	rows int    // that may go
	next string // where the walk goes on
	more bool
	// remove removes them.
	remove func(ctx context.Context, tx pgx.Tx) (int64, error)
}

// Purge implements relay.Purger. The walk's row in outbox_purge is locked to the end of the transaction, so
// that nothing is left to a session, which a pooler may share, and a crash gives it back. Nothing here waits
// long for a lock on an event, which somebody's foreign key may hold; nobody waits for these events.
func (s *Store) Purge(ctx context.Context, l relay.PurgeLimits) (relay.Purged, error) {
	if l.Rows < 1 {
		return relay.Purged{}, fmt.Errorf("purge looks at %d rows, it must look at one at least", l.Rows)
	}
	if l.Kind != relay.PurgePublished {
		return s.purge(ctx, l, look)
	}
	partitioned, err := s.isPartitioned(ctx)
	if err != nil {
		return relay.Purged{}, err
	}
	if !partitioned {
		return s.purge(ctx, l, look)
	}
	dropped := 0
	var rotation error
	if !l.DryRun || l.From == "" { // a dry run counts them once
		dropped, rotation = s.rotate(ctx, l)
	}
	got, err := s.purge(ctx, l, lookAtDefault)
	got.Partitions = dropped
	got.More = got.More || dropped > 0 && !l.DryRun
	return got, errors.Join(rotation, err)
}

// purge takes a step of a walk.
func (s *Store) purge(ctx context.Context, l relay.PurgeLimits, look looker) (relay.Purged, error) {
	if l.DryRun {
		found, err := look(ctx, s.pool, l, l.From)
		return relay.Purged{Rows: found.rows, More: found.more, Next: found.next}, err
	}
	var got relay.Purged
	err := s.inTurn(ctx, func(tx pgx.Tx) error {
		var position *string
		var stale bool
		switch err := tx.QueryRow(ctx, lockPurge, string(l.Kind)).Scan(&position, &stale); {
		case errors.Is(err, pgx.ErrNoRows):
			got.Busy = true
			return nil
		case err != nil:
			return err
		}
		from := ""
		if position != nil && !l.Restart {
			from = *position
		}
		found, err := look(ctx, tx, l, from)
		if err != nil {
			return err
		}
		if found.rows > 0 {
			n, err := found.remove(ctx, tx)
			if err != nil {
				return err
			}
			got.Rows = int(n)
		}
		got.More, got.Next = found.more, found.next
		// A round is never cut short, however long it takes: what comes last must have its turn too.
		anew := l.Restart
		if stale && !found.more {
			anew, got.Next, got.More = true, "", true
		}
		if got.Next == from && position != nil && !anew {
			return nil
		}
		var next *string
		if got.Next != "" {
			next = &got.Next
		}
		_, err = tx.Exec(ctx, movePurge, string(l.Kind), next, anew)
		return err
	})
	switch {
	case errors.Is(err, errBusy):
		return relay.Purged{Busy: true}, nil
	case err != nil:
		return relay.Purged{}, err
	}
	return got, nil
}

// looker finds what may go among the next rows.
type looker func(ctx context.Context, db querier, l relay.PurgeLimits, from string) (step, error)

// look is the looker of a kind.
func look(ctx context.Context, db querier, l relay.PurgeLimits, from string) (step, error) {
	switch l.Kind {
	case relay.PurgePublished:
		return lookAtPublished(ctx, db, findPublished, l, from)
	case relay.PurgeDeadLettered:
		return lookAtDeadLettered(ctx, db, l, from)
	case relay.PurgeIdempotencyKeys:
		return lookAtKeys(ctx, db, l, from)
	}
	return step{}, fmt.Errorf("there are no %q rows to purge", l.Kind)
}

// lookAtDefault looks at the published events of the default partition alone.
func lookAtDefault(ctx context.Context, db querier, l relay.PurgeLimits, from string) (step, error) {
	return lookAtPublished(ctx, db, findInDefault, l, from)
}

func lookAtPublished(ctx context.Context, db querier, find string, l relay.PurgeLimits, from string) (step, error) {
	after, err := number(from)
	if err != nil {
		return step{}, err
	}
	found := step{next: from}
	var ids []int64
	var through *int64
	if err := db.QueryRow(ctx, find, after, l.Rows, micros(l.Keep)).Scan(&ids, &through, &found.more); err != nil {
		return found, err
	}
	if through != nil {
		found.next = strconv.FormatInt(*through, 10)
	}
	found.rows = len(ids)
	found.remove = func(ctx context.Context, tx pgx.Tx) (int64, error) {
		tag, err := tx.Exec(ctx, purgePublished, ids)
		return tag.RowsAffected(), err
	}
	return found, nil
}

func lookAtDeadLettered(ctx context.Context, db querier, l relay.PurgeLimits, from string) (step, error) {
	var after *string
	if from != "" {
		after = &from
	}
	found := step{next: from}
	var ids []int64
	var episodes []int32
	var through *string
	if err := db.QueryRow(ctx, findDeadLettered, after, l.Rows, micros(l.Keep)).Scan(&ids, &episodes, &through, &found.more); err != nil {
		return found, err
	}
	if through != nil {
		found.next = *through
	}
	found.rows = len(ids)
	found.remove = func(ctx context.Context, tx pgx.Tx) (int64, error) {
		tag, err := tx.Exec(ctx, purgeDeadLettered, ids, episodes)
		return tag.RowsAffected(), err
	}
	return found, nil
}

func lookAtKeys(ctx context.Context, db querier, l relay.PurgeLimits, from string) (step, error) {
	first, err := number(from)
	if err != nil {
		return step{}, err
	}
	begin, blocks := int64(0), int64(max(l.Rows/keysPerBlock, 1))
	if first != nil {
		begin = *first
	}
	var found step
	var all int64
	if err := db.QueryRow(ctx, findKeys, begin, blocks, micros(l.Keep)).Scan(&found.rows, &all); err != nil {
		return found, err
	}
	found.more = begin+blocks < all
	found.next = strconv.FormatInt(max(begin, min(begin+blocks, all)), 10)
	found.remove = func(ctx context.Context, tx pgx.Tx) (int64, error) {
		tag, err := tx.Exec(ctx, purgeKeys, begin, blocks, micros(l.Keep))
		return tag.RowsAffected(), err
	}
	return found, nil
}

// number reads the position of a walk; nil is the beginning.
func number(position string) (*int64, error) {
	if position == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(position, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("position %q of a purge is not a number; set it to null in outbox_purge to begin anew", position)
	}
	return &n, nil
}
