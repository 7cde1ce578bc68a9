package soak

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Load writes a backlog of n events in one transaction, keys in turn, without poison.
func (w *Workload) Load(ctx context.Context, n int) error {
	err := pgx.BeginFunc(ctx, w.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `create temporary table backlog on commit drop as
			select i, i % $2::int as key, gen_random_uuid()::text as id,
			       ($3::text[])[1 + (i % $2::int) % cardinality($3::text[])] as topic
			from generate_series(0, $1::int - 1) i`, n, w.Keys, w.Topics); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `insert into soak.written (id, subject, seq, poison)
			select b.id, b.topic || '/key-' || b.key, a.n + 1 + b.i / $1, false
			from backlog b join soak.aggregate a using (key)`, w.Keys); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `insert into postrider.outbox_event (topic, key, payload)
			select topic, convert_to('key-' || key, 'UTF8'), convert_to(rpad(id, $1, 'x'), 'UTF8')
			from backlog order by i`, PayloadBytes); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `update soak.aggregate a set n = n + b.events
			from (select key, count(*) as events from backlog group by key) b where a.key = b.key`)
		return err
	})
	if err != nil {
		return fmt.Errorf("load a backlog of %d events: %w", n, err)
	}
	w.Written.Add(int64(n))
	return nil
}
