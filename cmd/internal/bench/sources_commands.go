package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/loop"
)

const (
	// commandedSources is in how many of the sources something is redriven, one after the other.
	commandedSources = 100
	// commandedTopic is how large a message of their topics may be.
	commandedTopic = 2000
)

// commands redrives events of many quiet sources at the desk. Each was too large for its topic, is its own cause of a halted
// key, and is sent with another payload.
func commands(ctx context.Context, r *rig, b *broker, t *table) (err error) {
	var answered, arrived []*histogram
	for range r.o.runs {
		clicks, records, err := r.commandsOnce(ctx, b)
		if err != nil {
			return err
		}
		answered, arrived = append(answered, clicks), append(arrived, records)
		r.say("commands: answered p50 %.1f ms, p95 %.1f ms; on the topic p50 %.1f ms, p95 %.1f ms", clicks.quantile(0.5), clicks.quantile(0.95), records.quantile(0.5), records.quantile(0.95))
	}
	of := func(all []*histogram, q float64) []float64 {
		return pick(all, func(h *histogram) float64 { return h.quantile(q) })
	}
	settings := fmt.Sprintf("%d sources", r.o.sources)
	cells := func(all []*histogram) []cell {
		return []cell{{Name: "p50 ms", Runs: of(all, 0.5)}, {Name: "p95 ms", Runs: of(all, 0.95)}, {Name: "longest ms", Runs: of(all, 1)}}
	}
	t.add(b, "answered by the source", settings, cells(answered)...)
	t.add(b, "on the event's topic", settings, cells(arrived)...)
	t.note("POST /dlq/requeue for one investigation each, one after the other, each of another source in a database of its own, which was quiet before. One process carries all of them and serves the API. Times are from the request.")
	return nil
}

func (r *rig) commandsOnce(ctx context.Context, b *broker) (answered, arrived *histogram, err error) {
	set, err := r.newSources(ctx, r.o.sources, "outbox: {after_last_attempt: halt_key}\n")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, set.drop()) }()
	desk, err := r.newDatabase(ctx, fmt.Sprintf("bench_desk_%d", r.stages.Add(1)), true)
	if err != nil {
		return nil, nil, err
	}
	defer desk.drop()
	if err := desk.exec(ctx, "update postrider.outbox_source set source_uuid = gen_random_uuid()"); err != nil {
		return nil, nil, err
	}
	key, err := desk.newKey(ctx, []access.Scope{access.Redrive, access.Edit})
	if err != nil {
		return nil, nil, err
	}
	if err := b.createTopic(ctx, dlqTopic, nil); err != nil {
		return nil, nil, err
	}
	defer b.deleteTopic(dlqTopic)
	n := min(commandedSources, len(set.databases))
	topics := make([]string, n)
	limit := fmt.Sprint(commandedTopic)
	for i := range topics {
		topics[i] = fmt.Sprintf("s%d.small", i)
		if err := b.createTopic(ctx, topics[i], map[string]*string{"max.message.bytes": &limit}); err != nil {
			return nil, nil, err
		}
		defer b.deleteTopic(topics[i])
	}
	k, err := set.carry(b, desk.url, everyRole())
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, k.stop()) }()
	if err := set.awaitLed(ctx, k); err != nil {
		return nil, nil, err
	}
	for i, d := range set.databases[:n] {
		if err := d.giveUp(ctx, topics[i]); err != nil {
			return nil, nil, err
		}
	}
	if err := desk.until(ctx, "select count(distinct source) >= $1 from postrider.dlq_entry", n); err != nil {
		return nil, nil, err
	}
	entries := map[string]string{}
	rows, err := desk.conn.Query(ctx, "select source, dlq_entry_uuid::text from postrider.dlq_entry")
	if err != nil {
		return nil, nil, err
	}
	var source, entry string
	if _, err := pgx.ForEachRow(rows, []any{&source, &entry}, func() error { entries[source] = entry; return nil }); err != nil {
		return nil, nil, err
	}
	if err := loop.Sleep(ctx, r.o.sourcesSettle); err != nil { // until they are quiet again
		return nil, nil, err
	}
	clicks := &clickTimes{began: make([]time.Time, n), took: &histogram{}, left: n}
	consuming, cancel := context.WithCancel(ctx)
	consumed := make(chan error, 1)
	go func() { consumed <- clicks.consume(consuming, b, topics) }()
	defer func() { cancel(); err = errors.Join(err, <-consumed) }()
	asker := newAPIAsker("http://"+k.address, key, 1)
	defer asker.close()
	answered = &histogram{}
	for i := range topics {
		took, err := clicks.ask(ctx, asker, i, entries[fmt.Sprintf("s%d", i)])
		if err != nil {
			return nil, nil, err
		}
		answered.add(took)
	}
	return answered, clicks.took, clicks.all(ctx)
}

// giveUp writes an event that no broker takes.
func (d *database) giveUp(ctx context.Context, topic string) error {
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is in hand
	_, err = conn.Exec(ctx, "insert into postrider.outbox_event (topic, key, payload) values ($1, 'k', convert_to(repeat('x', $2), 'UTF8'))", topic, 2*commandedTopic)
	return err
}

// clickTimes is when redrives were asked for, and how long their records took.
type clickTimes struct {
	mu    sync.Mutex
	began []time.Time
	took  *histogram
	left  int
}

// ask redrives an investigation, and returns how long that took.
func (c *clickTimes) ask(ctx context.Context, asker *apiAsker, i int, entry string) (time.Duration, error) {
	body, err := json.Marshal(map[string]any{"ids": []string{entry}, "edit": map[string]any{"payload_text": fmt.Sprint("small ", i)}})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	c.mu.Lock()
	c.began[i] = began
	c.mu.Unlock()
	raw, err := asker.do(ctx, "POST", "/dlq/requeue", body)
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Data struct{ Requeued []json.RawMessage }
	}
	if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Data.Requeued) != 1 {
		return 0, fmt.Errorf("source s%d did not answer: %.300s, %w", i, raw, err)
	}
	return took, nil
}

// consume notes when the records arrive.
func (c *clickTimes) consume(ctx context.Context, b *broker, topics []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.address), kgo.DisableClientMetrics(), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMinBytes(1), kgo.FetchMaxWait(5*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		now := time.Now()
		fetches.EachRecord(func(rec *kgo.Record) {
			var i int
			if _, err := fmt.Sscanf(strings.TrimSpace(string(rec.Value)), "small %d", &i); err != nil || i >= len(c.began) {
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.took.add(now.Sub(c.began[i]))
			c.left--
		})
	}
}

// all waits until every record has arrived.
func (c *clickTimes) all(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, arrivalLimit, errors.New("waited in vain for what was redriven"))
	defer cancel()
	for {
		c.mu.Lock()
		left := c.left
		c.mu.Unlock()
		if left <= 0 {
			return nil
		}
		if err := loop.Sleep(ctx, everyTime); err != nil {
			return fmt.Errorf("%d records are missing: %w", left, context.Cause(ctx))
		}
	}
}
