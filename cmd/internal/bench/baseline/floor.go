package baseline

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/loop"
)

// floorAtOnce is how many rows the floor reads with one query.
const floorAtOnce = 5000

// Floor reads the rows in the order of their ids and produces them, and reads the next while the client sends. Nothing is
// locked, noted or deleted, and rows that commit late with a smaller id are lost: no relay can be faster that reads each
// row through one connection and sends it through this client.
func Floor(ctx context.Context, w Work) error {
	p, err := newProducer(w)
	if err != nil {
		return err
	}
	defer p.Close()
	cfg, err := pgx.ParseConfig(w.Database)
	if err != nil {
		return err
	}
	// The query is planned as what it is, a walk along the primary key, whatever the statistics say just now.
	for _, off := range []string{"enable_seqscan", "enable_bitmapscan", "jit"} {
		cfg.RuntimeParams[off] = "off"
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for last := int64(0); ; {
		rows, err := conn.Query(ctx, "select id, topic, key, payload from outbox where id > $1 order by id limit $2", last, floorAtOnce)
		if err != nil {
			return ended(ctx, err)
		}
		n := 0
		for ; rows.Next(); n++ {
			raw := rows.RawValues() // in binary, and only until the next row
			last = int64(binary.BigEndian.Uint64(raw[0]))
			p.Produce(ctx, record(string(raw[1]), raw[2], raw[3]), p.done)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return ended(ctx, fmt.Errorf("read events: %w", err))
		}
		if err := p.err(); err != nil {
			return err
		}
		if n == 0 && loop.Sleep(ctx, idle) != nil {
			return nil
		}
	}
}

// record copies key and payload out of a buffer that will be used again.
func record(topic string, key, payload []byte) *kgo.Record {
	both := make([]byte, 0, len(key)+len(payload))
	both = append(append(both, key...), payload...)
	return &kgo.Record{Topic: topic, Key: both[:len(key):len(key)], Value: both[len(key):]}
}

// ended is nil where a program was told to end, whatever that broke off.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
