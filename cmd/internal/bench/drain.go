package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// drainOptions say what to measure.
type drainOptions struct {
	events, runs, keys, payload, workers int
	batches                              []int
	brokers                              []string
	profile                              string
}

func (o *drainOptions) setBatches(list string) error {
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a batch size", s)
		}
		o.batches = append(o.batches, n)
	}
	return nil
}

// sample is one drained backlog: events a second, and CPU seconds per 100,000 events.
type sample struct{ rate, side, database, broker float64 }

// drain empties the same backlog by the floor, by the relay that deletes and by the relay that marks, in
// turn, and prints the medians and their ratio to the floor.
func drain(ctx context.Context, o drainOptions) error {
	if len(o.batches) == 0 {
		o.batches = []int{1000, 2000, 5000}
	}
	server, err := startDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop(context.WithoutCancel(ctx)) }()
	fmt.Printf("drain of %d events, %d bytes, %d keys, %d workers; PostgreSQL %s, %s, %d cores, %s\n",
		o.events, o.payload, o.keys, o.workers, server.Version(), runtime.Version(), runtime.NumCPU(), time.Now().Format(time.DateOnly))
	for _, kind := range o.brokers {
		b, err := startBroker(ctx, kind)
		if err != nil {
			return err
		}
		err = o.against(ctx, server.URL(), b)
		b.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *drainOptions) against(ctx context.Context, url string, b *broker) error {
	fmt.Printf("\n%s\n%-16s %6s %10s %6s %8s  CPU s per 100k events: side, PostgreSQL, broker\n", b.name, "", "batch", "events/s", "spread", "of floor")
	floor := 0.0
	for _, side := range []string{"floor", "relay, deletes", "relay, marks"} {
		best, line := 0.0, ""
		for _, batch := range o.batches {
			var samples []sample
			for n := range o.runs {
				s, err := o.once(ctx, url, b, side, batch, n)
				if err != nil {
					return fmt.Errorf("%s, batch %d: %w", side, batch, err)
				}
				samples = append(samples, s)
			}
			m := medians(samples)
			if m.rate > best {
				best = m.rate
				line = fmt.Sprintf("%6d %10.0f %5.0f%% \x00 %.2f, %.2f, %.2f", batch, m.rate, 100*spread(samples), m.side, m.database, m.broker)
			}
		}
		if side == "floor" {
			floor = best
		}
		fmt.Printf("%-16s %s\n", side, strings.Replace(line, "\x00", fmt.Sprintf("%8.2f ", best/floor), 1))
	}
	return nil
}

// once loads a backlog and lets one side drain it.
func (o *drainOptions) once(ctx context.Context, url string, b *broker, side string, batch, n int) (sample, error) {
	topic := fmt.Sprintf("bench.%d", time.Now().UnixNano())
	if err := createTopic(ctx, b.address, topic); err != nil {
		return sample{}, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return sample{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	first, last, err := o.load(ctx, conn, topic)
	if err != nil {
		return sample{}, err
	}
	env := []string{"BENCH_DATABASE=" + url, "BENCH_BROKER=" + b.address, fmt.Sprint("BENCH_WORKERS=", o.workers), fmt.Sprint("BENCH_BATCH=", batch),
		fmt.Sprint("BENCH_FIRST=", first), fmt.Sprint("BENCH_LAST=", last)}
	role := "child-relay"
	switch side {
	case "floor":
		role = "child-floor"
	case "relay, deletes":
		env = append(env, "BENCH_DELETE=1")
	}
	if o.profile != "" && role == "child-relay" {
		env = append(env, "BENCH_PROFILE="+filepath.Join(o.profile, strings.ReplaceAll(side, ", ", "-")+fmt.Sprintf("-%d-%d.pprof", batch, n)))
	}
	c, err := startChild(role, env...)
	if err != nil {
		return sample{}, err
	}
	if _, err := c.line(); err != nil {
		return sample{}, err
	}
	databaseCPU, brokerCPU, sideCPU := cpuSeconds(os.Getpid(), true), cpuSeconds(b.pid, true), cpuSeconds(c.cmd.Process.Pid, false)
	start := time.Now()
	if _, err := c.stdin.Write([]byte("go\n")); err != nil {
		return sample{}, err
	}
	if side == "floor" {
		_, err = c.line()
	} else {
		err = drained(ctx, conn)
	}
	took := time.Since(start).Seconds()
	per100k := 100_000 / float64(o.events)
	s := sample{rate: float64(o.events) / took, side: (cpuSeconds(c.cmd.Process.Pid, false) - sideCPU) * per100k,
		broker: (cpuSeconds(b.pid, true) - brokerCPU) * per100k}
	// All processes are below this one: what is neither the side nor the broker is PostgreSQL and we.
	s.database = (cpuSeconds(os.Getpid(), true)-databaseCPU)*per100k - s.side - s.broker
	if _, stopErr := c.stop(); err == nil {
		err = stopErr
	}
	return s, err
}

func (o *drainOptions) load(ctx context.Context, conn *pgx.Conn, topic string) (first, last int64, err error) {
	if _, err := conn.Exec(ctx, "truncate postrider.outbox_event, postrider.outbox_batch"); err != nil {
		return 0, 0, err
	}
	if _, err := conn.Exec(ctx, `insert into postrider.outbox_event (topic, key, payload)
		select $1, convert_to('key-' || i % $2, 'UTF8'), convert_to(rpad(i::text, $3, 'x'), 'UTF8') from generate_series(1, $4::int) i`,
		topic, o.keys, o.payload, o.events); err != nil {
		return 0, 0, err
	}
	for _, sql := range []string{"vacuum analyze postrider.outbox_event", "checkpoint"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return 0, 0, err
		}
	}
	err = conn.QueryRow(ctx, "select min(id), max(id) from postrider.outbox_event").Scan(&first, &last)
	return first, last, err
}

func drained(ctx context.Context, conn *pgx.Conn) error {
	for {
		var waiting bool
		if err := conn.QueryRow(ctx, "select exists (select from postrider.outbox_event where state = 'pending')").Scan(&waiting); err != nil || !waiting {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func createTopic(ctx context.Context, address, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	res, err := kadm.NewClient(client).CreateTopic(ctx, 6, 1, nil, topic)
	if err != nil {
		return err
	}
	return res.Err
}

func medians(samples []sample) sample {
	of := func(pick func(sample) float64) float64 {
		values := make([]float64, len(samples))
		for i, s := range samples {
			values[i] = pick(s)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return sample{of(func(s sample) float64 { return s.rate }), of(func(s sample) float64 { return s.side }),
		of(func(s sample) float64 { return s.database }), of(func(s sample) float64 { return s.broker })}
}

// spread is how far apart the fastest and the slowest run are, as a share of the median.
func spread(samples []sample) float64 {
	lowest, highest := samples[0].rate, samples[0].rate
	for _, s := range samples {
		lowest, highest = min(lowest, s.rate), max(highest, s.rate)
	}
	return (highest - lowest) / medians(samples).rate
}
