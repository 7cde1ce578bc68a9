package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/relay"
)

// findInDefault is findPublished for a partitioned table: the other partitions are dropped as a whole. It is the only
// statement that names a partition, and takes a right of its own to read it (outbox_hand_over_partition).
var findInDefault = strings.Replace(findPublished, "from postrider.outbox_event e", "from postrider.outbox_event_default e", 1)

// isPartitioned reports whether outbox_event is partitioned. It is asked each time: that may change while
// relays run.
func (s *Store) isPartitioned(ctx context.Context) (yes bool, err error) {
	if err := s.pool.QueryRow(ctx, isPartitioned).Scan(&yes); err != nil {
		return false, fmt.Errorf("look whether the outbox is partitioned: %w", err)
	}
	return yes, nil
}

// rotate adds the partitions that writers will need, and drops the oldest one when its time has come. It
// returns how many were dropped, or in a dry run would be. Each is a transaction of its own, which gives up
// after half a second when it does not get its locks: writers wait as long as it does. That one cannot be done
// does not keep the other from being done.
func (s *Store) rotate(ctx context.Context, l relay.PurgeLimits) (dropped int, err error) {
	if l.DryRun {
		err = s.pool.QueryRow(ctx, dropPartition, micros(l.Keep), true).Scan(&dropped)
		return dropped, err
	}
	add := s.inTurn(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, addPartitions)
		return err
	})
	drop := s.inTurn(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, dropPartition, micros(l.Keep), false).Scan(&dropped)
	})
	if drop != nil {
		dropped = 0
	}
	var errs []error
	if add != nil && !errors.Is(add, errBusy) {
		errs = append(errs, fmt.Errorf("add partitions: %w", add))
	}
	if drop != nil && !errors.Is(drop, errBusy) {
		errs = append(errs, fmt.Errorf("drop a partition: %w", drop))
	}
	return dropped, errors.Join(errs...)
}

// PartitionOptions say how to partition the outbox.
type PartitionOptions struct {
	// Rows is how many ids a partition has. Required.
	Rows int64
	// Gap is how many more ids may be drawn while the table is prepared; ids go on after them, and those
	// that were not drawn are never used. Defaults to 1,000,000,000; a negative value is none.
	Gap int64
	// Patience bounds each wait for the lock of the table, which is tried half a second at a time, because
	// writers wait as long. Defaults to 1m.
	Patience time.Duration
}

// Partition makes outbox_event a table partitioned by id, with the table there was as its first partition:
// no row is copied. The table is read once, beside everybody else; then its lock is needed for some
// milliseconds. Relays and writers may run. The connection must be that of the table's owner, outside of a
// transaction. After an error the table is as it was.
func Partition(ctx context.Context, conn *pgx.Conn, o PartitionOptions) (err error) {
	if o.Rows < 1 {
		return fmt.Errorf("partition the outbox: Rows is %d, it must be positive", o.Rows)
	}
	switch {
	case o.Gap == 0:
		o.Gap = 1_000_000_000
	case o.Gap < 0:
		o.Gap = 0
	}
	if o.Patience == 0 {
		o.Patience = time.Minute
	}
	if err := patiently(ctx, conn, o.Patience, partitionPrepare, o.Gap); err != nil {
		return fmt.Errorf("prepare the outbox for partitions: %w", err)
	}
	defer func() {
		if err == nil {
			return
		}
		// The bound must not stay: one day writers would come there.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Patience)
		defer cancel()
		if forget := patiently(ctx, conn, o.Patience, partitionForget); forget != nil {
			err = fmt.Errorf("%w; the constraint outbox_event_partition_bound is still there (%w): run the command again, or drop it", err, forget)
		}
	}()
	if _, err := conn.Exec(ctx, partitionValidate); err != nil {
		return fmt.Errorf("check the ids of the outbox: %w", err)
	}
	if err := patiently(ctx, conn, o.Patience, partitionConvert, o.Rows); err != nil {
		return fmt.Errorf("partition the outbox: %w", err)
	}
	return nil
}

// patiently runs a statement in a transaction of its own until it gets its locks.
func patiently(ctx context.Context, conn *pgx.Conn, patience time.Duration, sql string, args ...any) error {
	deadline := time.Now().Add(patience)
	for {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "set local lock_timeout = '500ms'"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, sql, args...)
			return err
		})
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "55P03" && pg.Code != "40P01" { // lock_not_available, deadlock_detected
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the table is too busy: its lock was not to be had within %v; end long transactions (see pg_stat_activity) or try again at a quieter time: %w", patience, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second): // those who waited behind it go first
		}
	}
}
