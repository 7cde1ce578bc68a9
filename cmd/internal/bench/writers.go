package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// writerClients write one row each, one transaction after the other.
const writerClients = 8

// writersSide is a state of the table and a relay, or none.
type writersSide struct {
	name     string
	prepare  func(*database, context.Context) error
	relay    *relaySide
	versus   int     // the side it is compared with, -1 for none
	share    float64 // of that one it must reach
	database *database
}

// writersSample is one run.
type writersSample struct {
	rate, left float64 // transactions a second; events that still waited when the writers stopped
	cost       cpu
}

// writers compares the transactions that the same clients manage with and without what the outbox adds.
func writers(ctx context.Context, r *rig, b *broker, t *table) error {
	sides, err := writersSides(ctx, r)
	defer func() {
		for _, s := range sides {
			if s.database != nil {
				s.database.drop()
			}
		}
	}()
	if err != nil {
		return err
	}
	samples, err := inTurns(r.o.runs, sides, func(s writersSide) (writersSample, error) {
		sample, err := r.writersOnce(ctx, b, s)
		return sample, about(s.name, err)
	})
	if err != nil {
		return err
	}
	rate := func(s writersSample) float64 { return s.rate }
	for i, s := range sides {
		cells := []cell{{Name: "transactions/s", Runs: pick(samples[i], rate)}}
		if s.versus >= 0 {
			cells = append(cells, cell{"share of " + sides[s.versus].name, paired(pick(samples[i], rate), pick(samples[s.versus], rate)), atLeast(s.share)})
		}
		settings := "relay stopped"
		if s.relay != nil {
			settings = s.relay.text()
			cells = append(cells, cell{Name: "waiting at the end", Runs: pick(samples[i], func(s writersSample) float64 { return s.left })})
		}
		t.add(b, s.name, settings, append(cells, costs(pick(samples[i], func(s writersSample) cpu { return s.cost }), "relay")...)...)
	}
	t.note("%d clients, each on a connection of its own, write one row a transaction for %v. PostgreSQL's CPU includes theirs.", writerClients, r.o.duration)
	return nil
}

// writersSides prepares a database for each side.
func writersSides(ctx context.Context, r *rig) ([]writersSide, error) {
	asIs := func(*database, context.Context) error { return nil }
	sides := []writersSide{
		{name: "the bare table", prepare: (*database).strip, versus: -1},
		{name: "relay that deletes", prepare: asIs, relay: &relaySide{}, share: 0.95},
		{name: "relay that marks", prepare: asIs, relay: &relaySide{days: 30}, share: 0.88},
		{name: "indexes alone", prepare: (*database).dropTriggers, versus: -1},
		{name: "indexes and triggers", prepare: asIs, versus: 3, share: 0.97},
	}
	for i := range sides {
		d, err := r.newDatabase(ctx, fmt.Sprintf("bench_writers_%d", i), true)
		if err != nil {
			return sides, err
		}
		sides[i].database = d
		if err := sides[i].prepare(d, ctx); err != nil {
			return sides, fmt.Errorf("%s: %w", sides[i].name, err)
		}
	}
	return sides, nil
}

// strip leaves of the table what its owner would have made without a relay: rows and a primary key.
func (d *database) strip(ctx context.Context) error {
	indexes, err := d.names(ctx, `select indexrelid::regclass::text from pg_index
		where indrelid = 'postrider.outbox_event'::regclass and not indisprimary`)
	if err != nil {
		return err
	}
	for _, name := range indexes {
		if err := d.exec(ctx, "drop index "+name); err != nil {
			return err
		}
	}
	return d.dropTriggers(ctx)
}

func (d *database) dropTriggers(ctx context.Context) error {
	triggers, err := d.triggers(ctx)
	if err != nil {
		return err
	}
	for _, name := range triggers {
		if err := d.exec(ctx, "drop trigger "+name+" on postrider.outbox_event"); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) triggers(ctx context.Context) ([]string, error) {
	return d.names(ctx, "select quote_ident(tgname) from pg_trigger where tgrelid = 'postrider.outbox_event'::regclass and not tgisinternal")
}

func (d *database) names(ctx context.Context, sql string) ([]string, error) {
	rows, err := d.conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (r *rig) writersOnce(ctx context.Context, b *broker, s writersSide) (sample writersSample, err error) {
	d := s.database
	topic, err := b.newTopic(ctx, nil)
	if err != nil {
		return sample, err
	}
	defer b.deleteTopic(topic)
	if err := d.empty(ctx); err != nil {
		return sample, err
	}
	if err := d.tidy(ctx); err != nil {
		return sample, err
	}
	m := meter{rig: r, b: b}
	if s.relay != nil {
		c, err := r.startRelay(b, d.url, *s.relay, "writers")
		if c != nil {
			defer func() { _ = c.stop() }() // stopped below where all went well
		}
		if err != nil {
			return sample, err
		}
		if err := c.start(); err != nil {
			return sample, err
		}
		m.sides = []*child{c}
	}
	before := m.now()
	written, took, err := r.writeFlatOut(ctx, d.url, topic)
	if err != nil {
		return sample, err
	}
	after := m.now()
	sample.rate, sample.cost = float64(written)/took.Seconds(), after.minus(before).per100k(written)
	r.say("writers, %s: %.0f transactions/s", s.name, sample.rate)
	if s.relay == nil {
		return sample, d.empty(ctx)
	}
	done, err := b.produced(ctx, topic)
	if err != nil {
		return sample, err
	}
	sample.left = float64(written - done)
	working, cancel := alive(ctx, m.sides...)
	defer cancel()
	if err := d.drained(working, b, topic, written); err != nil {
		return sample, because(working, err)
	}
	if err := stopAll(m.sides); err != nil {
		return sample, err
	}
	if err := exactly(ctx, b, topic, written); err != nil {
		return sample, err
	}
	return sample, d.empty(ctx) // or autovacuum would come while another side is measured
}

// writeFlatOut lets the clients write as fast as they can, and returns how many rows there are.
func (r *rig) writeFlatOut(ctx context.Context, url, topic string) (written int64, took time.Duration, err error) {
	conns := make([]*pgx.Conn, writerClients)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close(context.WithoutCancel(ctx))
			}
		}
	}()
	for i := range conns {
		if conns[i], err = pgx.Connect(ctx, url); err != nil {
			return 0, 0, err
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, writerClients)
	start := time.Now()
	for _, c := range conns {
		wg.Go(func() {
			for time.Since(start) < r.o.duration {
				seq := int(next.Add(1)) - 1
				if _, err := c.Exec(ctx, insertEvent, topic, fmt.Appendf(nil, "key-%d", seq%r.o.keys), body(seq, r.o.payload)); err != nil {
					errs <- fmt.Errorf("write event %d: %w", seq, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return next.Load(), time.Since(start), <-errs
}
