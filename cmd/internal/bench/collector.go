package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/dlq"
	dlqkafka "github.com/postrider/postrider/internal/dlq/kafka"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
)

// collector measures how fast one collector turns a backlog of dead letters, a third each of the relay's, of our
// consumers' and of Spring's, into investigations.
func collector(ctx context.Context, r *rig, b *broker, t *table) error {
	topic, err := b.newTopic(ctx, nil)
	if err != nil {
		return err
	}
	defer b.deleteTopic(topic)
	if err := b.writeLetters(ctx, topic, r.o.letters, r.o.payload); err != nil {
		return err
	}
	var samples []collected
	for range r.o.runs {
		s, err := r.collectOnce(ctx, b, topic)
		if err != nil {
			return err
		}
		samples = append(samples, s)
		r.say("collector: %.0f letters/s", s.speed)
	}
	t.add(b, fmt.Sprintf("%d dead letters collected", r.o.letters), "one collector",
		cell{Name: "letters/s", Runs: pick(samples, func(s collected) float64 { return s.speed })},
		cell{Name: "collector CPU s per 100k", Runs: pick(samples, func(s collected) float64 { return s.cpu.side })},
		cell{Name: "PostgreSQL CPU s per 100k", Runs: pick(samples, func(s collected) float64 { return s.cpu.database })})
	t.note("A third each of the relay's letters, of our consumers' and of Spring Kafka's, every one about another message of %d bytes and an investigation of its own, with one of 20 errors. From the start of the collector, which joins its group first, to the last commit in the database.", r.o.payload)
	return nil
}

// collected is what one run measured: letters a second, and CPU seconds.
type collected struct {
	speed float64
	cpu   cpu
}

// counting is a store that says when it has so many letters, which costs the database nothing.
type counting struct {
	dlq.Letters
	left atomic.Int64
	done chan struct{}
}

func (c *counting) RecordLetters(ctx context.Context, letters []dlq.Letter) (dlq.Recorded, error) {
	recorded, err := c.Letters.RecordLetters(ctx, letters)
	if recorded.New > 0 && c.left.Add(-int64(recorded.New)) == 0 {
		close(c.done)
	}
	return recorded, err
}

// collectOnce collects all letters of a topic into a database of its own.
func (r *rig) collectOnce(ctx context.Context, b *broker, topic string) (s collected, err error) {
	d, err := r.newDatabase(ctx, "bench_collector", true)
	if err != nil {
		return s, err
	}
	defer d.drop()
	pool, err := pgxpool.New(ctx, d.url)
	if err != nil {
		return s, err
	}
	defer pool.Close()
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: pool})
	if err != nil {
		return s, err
	}
	source, err := dlqkafka.NewSource(dlqkafka.Config{Brokers: []string{b.address}, Topics: []string{topic}, Group: "bench-" + uuid.NewString()})
	if err != nil {
		return s, err
	}
	all := &counting{Letters: store, done: make(chan struct{})}
	all.left.Store(int64(r.o.letters))
	c, err := dlq.NewCollector(dlq.Config{Source: source, Letters: all})
	if err != nil {
		return s, err
	}
	if r.o.profile != "" {
		file, err := os.Create(filepath.Join(r.o.profile, fmt.Sprintf("%03d-collector.pprof", r.profiles.Add(1))))
		if err != nil {
			return s, fmt.Errorf("-profile: %w", err)
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return s, fmt.Errorf("-profile: %w", err)
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, file.Close())
		}()
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	spent := func() cpu {
		return cpu{side: cpuSeconds(os.Getpid(), false), database: cpuSeconds(r.postmaster, true), broker: cpuSeconds(b.pid, true)}
	}
	before, began := spent(), time.Now()
	go func() { ended <- c.Run(working) }()
	select {
	case <-all.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	took, after := time.Since(began), spent()
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return s, err
	}
	var entries int
	if err := d.conn.QueryRow(ctx, `select count(*) from postrider.dlq_entry where resolution_status = 'pending'`).Scan(&entries); err != nil {
		return s, err
	}
	if entries != r.o.letters {
		return s, fmt.Errorf("%d investigations of %d letters", entries, r.o.letters)
	}
	return collected{float64(r.o.letters) / took.Seconds(), after.minus(before).per100k(int64(r.o.letters))}, nil
}

// writeLetters writes n dead letters, mixed.
func (b *broker) writeLetters(ctx context.Context, topic string, n, payload int) error {
	const portion = 5000
	for first := 0; first < n; first += portion {
		var records []*kgo.Record
		for i := first; i < min(first+portion, n); i++ {
			hs, err := letterHeaders(i)
			if err != nil {
				return err
			}
			r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", i%1000), Value: body(i, payload)}
			for _, h := range hs {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
			}
			records = append(records, r)
		}
		if err := b.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return fmt.Errorf("write dead letters: %w", err)
		}
	}
	return nil
}

// letterHeaders are the headers of dead letter i.
func letterHeaders(i int) ([]message.Header, error) {
	failed := time.Now().Add(-time.Hour)
	code, text := "CODE_"+strconv.Itoa(i%20), fmt.Sprintf("refused by account %d: the limit of %d.00 is exceeded", i, i%5000)
	own := []message.Header{{Name: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}}
	f := dialect.Failure{Topic: "orders", Partition: int32(i % 12), Offset: int64(i), Timestamp: failed, TimestampType: "CreateTime",
		Group: "billing", Attempts: 5, FirstFailedAt: failed, LastFailedAt: failed.Add(time.Minute), ErrorClass: "record", ErrorCode: code, ErrorMessage: text,
		Stack: "billing.Charge\n\t/src/billing/charge.go:117\nbilling.Handle\n\t/src/billing/handle.go:42", Headers: own}
	switch i % 3 {
	case 0:
		return dialect.Encode(f)
	case 1:
		return dialect.Encode(f, dialect.Spring)
	}
	for _, h := range [][2]string{
		{message.HeaderLetterVersion, "1"}, {message.HeaderEventID, uuid.NewString()}, {message.HeaderEpisode, "1"}, {message.HeaderOutboxID, strconv.Itoa(i + 1)},
		{message.HeaderOriginTopic, "orders"}, {message.HeaderAttempts, "5"}, {message.HeaderErrorClass, "record"}, {message.HeaderErrorCode, code}, {message.HeaderErrorMessage, text},
		{message.HeaderFirstFailedAt, failed.UTC().Format(time.RFC3339Nano)}, {message.HeaderLastFailedAt, failed.UTC().Format(time.RFC3339Nano)},
		{message.HeaderCreatedAt, failed.UTC().Format(time.RFC3339Nano)}, {message.HeaderPayload, message.PayloadInline},
	} {
		own = append(own, message.Header{Name: h[0], Value: []byte(h[1])})
	}
	return own, nil
}
