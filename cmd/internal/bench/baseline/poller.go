package baseline

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/loop"
)

// pollerAtOnce is how many rows the poller takes in one transaction.
const pollerAtOnce = 2000

// Poller is what a team writes in a day, tuned: one transaction locks rows, sends them, waits for the acknowledgements and
// deletes them. Several of them share a table, and then no order is kept.
func Poller(ctx context.Context, w Work) error {
	p, err := newProducer(w)
	if err != nil {
		return err
	}
	defer p.Close()
	conn, err := pgx.Connect(ctx, w.Database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for {
		n := 0
		if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			n, err = pollOnce(ctx, tx, p)
			return err
		}); err != nil {
			return ended(ctx, err)
		}
		if n == 0 && loop.Sleep(ctx, idle) != nil {
			return nil
		}
	}
}

func pollOnce(ctx context.Context, tx pgx.Tx, p *producer) (int, error) {
	rows, err := tx.Query(ctx, "select id, topic, key, payload from outbox where sent_at is null order by id limit $1 for update skip locked", pollerAtOnce)
	if err != nil {
		return 0, err
	}
	var ids []int64
	var records []*kgo.Record
	var id int64
	r := kgo.Record{}
	if _, err := pgx.ForEachRow(rows, []any{&id, &r.Topic, &r.Key, &r.Value}, func() error {
		sent := r
		ids, records = append(ids, id), append(records, &sent)
		return nil
	}); err != nil {
		return 0, fmt.Errorf("read events: %w", err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	if err := p.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return 0, fmt.Errorf("produce: %w", err)
	}
	if _, err := tx.Exec(ctx, "delete from outbox where id = any ($1)", ids); err != nil {
		return 0, fmt.Errorf("delete events: %w", err)
	}
	return len(ids), nil
}
