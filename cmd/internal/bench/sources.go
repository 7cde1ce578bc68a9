package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/loop"
)

// sources lets one process lead many outboxes, each in a database of its own, to which nothing is written.
func sources(ctx context.Context, r *rig, b *broker, t *table) (err error) {
	set, err := r.newSources(ctx, r.o.sources, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, set.drop()) }()
	var with []sourcesRun
	var without, floor []cpu
	for range r.o.runs {
		share, err := r.idleOnce(ctx, b, nil) // PostgreSQL looks into each database once a minute, whether it is used or not
		if err != nil {
			return err
		}
		without = append(without, share)
		if share, err = set.readOnce(ctx, b); err != nil {
			return err
		}
		floor = append(floor, share)
		one, err := set.carryQuietly(ctx, b)
		if err != nil {
			return err
		}
		with = append(with, one)
		r.say("sources: process %.2f %%, PostgreSQL %.2f %% of a core, with one read a second each %.2f %%, with nothing connected %.2f %%; %.2f connections and %.2f transactions a second each, %.2f MiB each",
			one.cost.side, one.cost.database, share.database, without[len(without)-1].database, one.connections, one.transactions, one.memory)
	}
	more := make([]float64, len(with))
	for i := range with {
		more[i] = with[i].cost.database - without[i].database
	}
	of := func(f func(sourcesRun) float64) []float64 { return pick(with, f) }
	database := func(c cpu) float64 { return c.database }
	t.add(b, fmt.Sprintf("%d quiet sources", r.o.sources), "defaults, roles relay and http",
		cell{Name: "process, % of a core", Runs: of(func(s sourcesRun) float64 { return s.cost.side })},
		cell{Name: "PostgreSQL", Runs: of(func(s sourcesRun) float64 { return s.cost.database })},
		cell{Name: "PostgreSQL, more than with nothing connected", Runs: more},
		cell{Name: "connections each", Runs: of(func(s sourcesRun) float64 { return s.connections })},
		cell{Name: "transactions/s each", Runs: of(func(s sourcesRun) float64 { return s.transactions })},
		cell{Name: "MiB each", Runs: of(func(s sourcesRun) float64 { return s.memory })})
	t.add(b, fmt.Sprintf("%d connections", r.o.sources), "one prepared read a second each", cell{Name: "PostgreSQL", Runs: pick(floor, database)})
	t.add(b, "nothing connected", "", cell{Name: "PostgreSQL", Runs: pick(without, database)})
	t.note("One process leads %d outboxes, each in a database of its own on one server, all empty. CPU time over %v, %v after all were led. MiB is the process's resident memory, shared out. PostgreSQL's autovacuum looks into each of the databases once a minute, used or not.",
		r.o.sources, r.o.idleDuration, r.o.sourcesSettle)
	return nil
}

// sourcesRun is what one run measured, for each source where that makes sense.
type sourcesRun struct {
	cost                              cpu // in percent of a core
	memory, connections, transactions float64
}

// carryQuietly runs a process until it leads all sources, and measures it while nothing is written.
func (s *sourceSet) carryQuietly(ctx context.Context, b *broker) (one sourcesRun, err error) {
	k, err := s.carry(b, "", "relay,http")
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, k.stop()) }()
	if err := s.awaitLed(ctx, k); err != nil {
		return one, err
	}
	if err := loop.Sleep(ctx, s.rig.o.sourcesSettle); err != nil {
		return one, err
	}
	before, err := s.transactions(ctx)
	if err != nil {
		return one, err
	}
	began := time.Now()
	if one.cost, err = s.rig.idleOnce(ctx, b, k.child); err != nil {
		return one, err
	}
	after, err := s.transactions(ctx)
	if err != nil {
		return one, err
	}
	n := float64(len(s.databases))
	one.transactions = float64(after-before) / time.Since(began).Seconds() / n
	if one.memory, _, err = memoryOf(k.pid()); err != nil {
		return one, err
	}
	one.memory /= n
	var open int64
	err = s.ask(ctx, "select count(*) from pg_stat_activity where datname = any ($1) and backend_type = 'client backend'", &open)
	one.connections = float64(open) / n
	return one, err
}

// readOnce measures one connection to each source that reads something by its key once a second.
func (s *sourceSet) readOnce(ctx context.Context, b *broker) (cpu, error) {
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{}, len(s.databases))
	for _, d := range s.databases {
		conn, err := pgx.Connect(ctx, d.url)
		if err != nil {
			return cpu{}, err
		}
		defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is in hand
		go func() {
			defer func() { ended <- struct{}{} }()
			loop.Every(reading, time.Second, func(ctx context.Context) {
				var found bool
				if err := conn.QueryRow(ctx, "select exists (select from postrider.outbox_event where id > $1)", 0).Scan(&found); err != nil && ctx.Err() == nil {
					cancel(err)
				}
			})
		}()
	}
	share, err := s.rig.idleOnce(reading, b, nil)
	err = because(reading, err)
	cancel(nil)
	for range s.databases {
		<-ended
	}
	return share, err
}

// transactions is how many transactions the databases of sources have had, as far as the statistics have them by now.
func (s *sourceSet) transactions(ctx context.Context) (n int64, err error) {
	err = s.ask(ctx, "select coalesce(sum(xact_commit + xact_rollback), 0)::bigint from pg_stat_database where datname = any ($1)", &n)
	return n, err
}

// ask asks the server something about the databases.
func (s *sourceSet) ask(ctx context.Context, sql string, into *int64) error {
	s.rig.mu.Lock()
	defer s.rig.mu.Unlock()
	return s.rig.admin.QueryRow(ctx, sql, pick(s.databases, func(d *database) string { return d.name })).Scan(into)
}
