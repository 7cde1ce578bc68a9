package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/kafka"
	"github.com/postrider/postrider/relay/outbox"
)

// floorWork is what the floor has to do.
type floorWork struct {
	Database, Broker string
	Workers, Batch   int
	First, Last      int64 // ids
}

// startFloor starts a floor that waits for the word and says a line when it is done.
func startFloor(w floorWork) (*child, error) {
	raw, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	c, err := startSelf("child-floor", "BENCH_FLOOR="+string(raw))
	if err != nil {
		return nil, err
	}
	return c, c.ready()
}

// runFloor reads the rows in id order and produces them through the relay's own publisher, and does nothing
// else: nothing is locked, marked or settled. Its workers take the next range of ids in turn.
func runFloor(ctx context.Context, g *gate) error {
	var w floorWork
	if err := json.Unmarshal([]byte(os.Getenv("BENCH_FLOOR")), &w); err != nil {
		return fmt.Errorf("BENCH_FLOOR: %w", err)
	}
	pool, err := readers(ctx, w)
	if err != nil {
		return err
	}
	defer pool.Close()
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: []string{w.Broker}})
	if err != nil {
		return err
	}
	defer publisher.Close()
	if err := g.await(ctx); err != nil {
		return err
	}
	var next atomic.Int64
	next.Store(w.First)
	errs := make(chan error, w.Workers)
	var wg sync.WaitGroup
	for range w.Workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				from := next.Add(int64(w.Batch)) - int64(w.Batch)
				if from > w.Last {
					return
				}
				if err := forward(ctx, pool, publisher, from, from+int64(w.Batch)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return err
	}
	fmt.Println("done")
	<-ctx.Done()
	return nil
}

// readers are the floor's connections. Its query is planned as what it is, a walk along the primary key.
func readers(ctx context.Context, w floorWork) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(w.Database)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(w.Workers)
	cfg.ConnConfig.RuntimeParams["jit"] = "off"
	cfg.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	cfg.ConnConfig.RuntimeParams["enable_bitmapscan"] = "off"
	return pgxpool.NewWithConfig(ctx, cfg)
}

// forward produces the rows with these ids and waits for the acknowledgements.
func forward(ctx context.Context, pool *pgxpool.Pool, publisher *kafka.Publisher, from, to int64) error {
	rows, err := pool.Query(ctx, `select event_id, topic, key, payload, headers from postrider.outbox_event
		where id >= $1 and id < $2 order by id`, from, to)
	if err != nil {
		return err
	}
	messages, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m relay.Message, err error) {
		var headers []byte
		err = row.Scan(&m.ID.EventID, &m.Topic, &m.Key, &m.Value, &headers)
		m.Headers = []outbox.Header{{Name: outbox.HeaderEventID, Value: []byte(m.ID.EventID.String())}}
		return m, err
	})
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	for _, o := range publisher.Publish(ctx, messages) {
		if o.Class != relay.Delivered {
			return fmt.Errorf("produce: %s: %s", o.Code, o.Message)
		}
	}
	return nil
}
