package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/kafka"
	"github.com/postrider/postrider/relay/outbox"
	"github.com/postrider/postrider/relay/postgres"
)

func number(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		panic(fmt.Sprintf("%s=%q", name, os.Getenv(name)))
	}
	return n
}

// awaitGo says that this side is ready and waits for the word.
func awaitGo() error {
	fmt.Println("ready")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// runRelay is the relay as it is.
func runRelay(ctx context.Context) error {
	workers := number("BENCH_WORKERS")
	pool, err := postgres.NewPool(ctx, os.Getenv("BENCH_DATABASE"), postgres.Options{MaxConns: int32(2*workers + 4)})
	if err != nil {
		return err
	}
	defer pool.Close()
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: []string{os.Getenv("BENCH_BROKER")}})
	if err != nil {
		return err
	}
	defer publisher.Close()
	if err := errors.Join(pool.Ping(ctx), publisher.Ping(ctx), awaitGo()); err != nil {
		return err
	}
	if path := os.Getenv("BENCH_PROFILE"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	r, err := relay.New(relay.Config{
		Store:     postgres.NewStore(pool, postgres.StoreOptions{DeletePublished: os.Getenv("BENCH_DELETE") != ""}),
		Publisher: publisher, Workers: workers, BatchSize: number("BENCH_BATCH"),
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// runFloor reads the rows in id order and produces them, and does nothing else. Its workers take the
// next range of ids in turn.
func runFloor(ctx context.Context) error {
	pool, err := postgres.NewPool(ctx, os.Getenv("BENCH_DATABASE"), postgres.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: []string{os.Getenv("BENCH_BROKER")}})
	if err != nil {
		return err
	}
	defer publisher.Close()
	if err := errors.Join(pool.Ping(ctx), publisher.Ping(ctx), awaitGo()); err != nil {
		return err
	}
	first, last, batch := number("BENCH_FIRST"), number("BENCH_LAST"), number("BENCH_BATCH")
	var next atomic.Int64
	next.Store(int64(first))
	var wg sync.WaitGroup
	for range number("BENCH_WORKERS") {
		wg.Go(func() {
			for {
				from := next.Add(int64(batch)) - int64(batch)
				if from > int64(last) || ctx.Err() != nil {
					return
				}
				rows, err := pool.Query(ctx, `select event_id, topic, key, payload, headers from postrider.outbox_event
					where id >= $1 and id < $2 order by id`, from, from+int64(batch))
				if err != nil {
					panic(err)
				}
				ms, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m relay.Message, err error) {
					var headers []byte
					err = row.Scan(&m.ID.EventID, &m.Topic, &m.Key, &m.Value, &headers)
					m.Headers = []outbox.Header{{Name: outbox.HeaderEventID, Value: []byte(m.ID.EventID.String())}}
					return m, err
				})
				if err != nil {
					panic(err)
				}
				for _, o := range publisher.Publish(ctx, ms) {
					if o.Class != relay.Delivered {
						panic(o.Message)
					}
				}
			}
		})
	}
	wg.Wait()
	fmt.Println("done")
	<-ctx.Done()
	return nil
}
