package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
)

const (
	// deskPurges is how often each way to purge is measured; each removes deskPurged.
	deskPurges, deskPurged = 5, 1000
)

// desk asks the API server of a desk with many investigations what people and their tools ask it: first a mix at exact
// times, then each search for a part of a message alone, then the views; and then it purges.
func desk(ctx context.Context, r *rig, b *broker, t *table) error {
	d, err := r.newDatabase(ctx, "bench_desk", true)
	if err != nil {
		return err
	}
	defer d.drop()
	r.say("desk: loading %d investigations", r.o.deskEntries)
	if err := d.loadDesk(ctx, r.o.deskEntries); err != nil {
		return fmt.Errorf("load investigations: %w", err)
	}
	return r.serveDesk(ctx, b, d, func(asker *deskAsker, server *child) error {
		known, err := d.deskSample(ctx, asker)
		if err != nil {
			return err
		}
		for _, step := range []func(context.Context, *deskBench) error{deskMix, deskSearches, deskViews, deskPurging} {
			if err := step(ctx, &deskBench{r, b, d, t, asker, server, known}); err != nil {
				return err
			}
		}
		t.note("%d investigations of %d groups, 500 topics and templates and 90 days, with a letter each; a fifth are of one outage 81 days ago, within three hours and with one message. The mix: 30 %% pages of the whole list, 35 %% with filters, 25 %% investigations and groups whole, 10 %% numbers.", r.o.deskEntries, deskGroups)
		return nil
	})
}

// deskBench is what the parts of the scenario work with.
type deskBench struct {
	*rig
	b      *broker
	d      *database
	t      *table
	asker  *deskAsker
	server *child
	known  *deskKnown
}

// serveDesk runs f beside the product's API server, in a process of its own, with a key for it.
func (r *rig) serveDesk(ctx context.Context, b *broker, d *database, f func(*deskAsker, *child) error) error {
	pool, err := pgxpool.New(ctx, d.url)
	if err != nil {
		return err
	}
	_, key, err := access.NewStore(pool).Create(access.WithActor(ctx, access.Actor{Name: "bench"}),
		access.NewKey{Name: "bench", Scopes: []access.Scope{access.Read, access.Purge}})
	pool.Close()
	if err != nil {
		return err
	}
	server, err := r.startServe(b, d.url, nil, "http")
	if server != nil {
		defer func() { _ = server.stop() }()
	}
	if err != nil {
		return err
	}
	if err := server.start(); err != nil {
		return err
	}
	address, err := server.line()
	if err != nil {
		return err
	}
	asker := newDeskAsker("http://"+address, key, r.o.clients)
	defer asker.close()
	return errors.Join(f(asker, server), server.stop())
}

// deskRun is what one run of the mix measured.
type deskRun struct {
	all, late histogram
	kinds     map[string]*histogram
	names     map[string]*histogram
	cost      cpu
}

// deskMix asks the mix at exact times. A question's time is from when it was due until its answer was read.
func deskMix(ctx context.Context, s *deskBench) error {
	questions := deskQuestions(s.known)
	for _, q := range questions { // each once first: this opens connections, and sees that there is something to find
		if err := s.asker.check(ctx, q, rand.New(rand.NewPCG(1, 1))); err != nil {
			return err
		}
	}
	if _, err := s.mixOnce(ctx, questions, min(s.o.deskDuration, 5*time.Second)); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	var runs []*deskRun
	for range s.o.runs {
		run, err := s.mixOnce(ctx, questions, s.o.deskDuration)
		if err != nil {
			return err
		}
		runs = append(runs, run)
		s.say("desk: p50 %.2f ms, p95 %.2f ms, p99 %.2f ms, longest %.1f ms, begun late p99 %.2f ms", run.all.quantile(0.5), run.all.quantile(0.95),
			run.all.quantile(0.99), run.all.quantile(1), run.late.quantile(0.99))
		for _, q := range questions {
			h := run.names[q.name]
			s.say("desk:   %-36s %5d asked, p50 %7.2f ms, p95 %7.2f ms, longest %7.2f ms", q.name, h.n, h.quantile(0.5), h.quantile(0.95), h.quantile(1))
		}
	}
	settings := fmt.Sprintf("%d a second", s.o.deskRate)
	of := func(q float64) []float64 { return pick(runs, func(r *deskRun) float64 { return r.all.quantile(q) }) }
	share := func(f func(cpu) float64) []float64 {
		return pick(runs, func(r *deskRun) float64 { return 100 * f(r.cost) / s.o.deskDuration.Seconds() })
	}
	s.t.add(s.b, "the mix", settings, cell{Name: "p50 ms", Runs: of(0.5)}, cell{Name: "p95 ms", Runs: of(0.95)}, cell{Name: "p99 ms", Runs: of(0.99)},
		cell{Name: "longest ms", Runs: of(1)}, cell{Name: "begun late p99 ms", Runs: pick(runs, func(r *deskRun) float64 { return r.late.quantile(0.99) })},
		cell{Name: "server, % of a core", Runs: share(func(c cpu) float64 { return c.side })}, cell{Name: "PostgreSQL", Runs: share(func(c cpu) float64 { return c.database })})
	for _, kind := range deskKinds {
		of := func(q float64) []float64 {
			return pick(runs, func(r *deskRun) float64 { return r.kinds[kind].quantile(q) })
		}
		s.t.add(s.b, "of it: "+kind, settings, cell{Name: "p50 ms", Runs: of(0.5)}, cell{Name: "p95 ms", Runs: of(0.95)}, cell{Name: "p99 ms", Runs: of(0.99)}, cell{Name: "longest ms", Runs: of(1)})
	}
	return nil
}

// mixOnce asks the mix for a time.
func (s *deskBench) mixOnce(ctx context.Context, questions []deskQuestion, length time.Duration) (*deskRun, error) {
	run := &deskRun{kinds: map[string]*histogram{}, names: map[string]*histogram{}}
	for _, q := range questions {
		run.names[q.name] = &histogram{}
	}
	for _, kind := range deskKinds {
		run.kinds[kind] = &histogram{}
	}
	m := meter{rig: s.rig, b: s.b, sides: []process{s.server}}
	working, cancel := alive(ctx, s.server)
	defer cancel()
	before := m.now()
	n := max(1, int(float64(s.o.deskRate)*length.Seconds()))
	err := pace{s.o.deskRate, s.o.clients, &run.late}.run(working, n, func(ctx context.Context, i int, due time.Time) error {
		random := rand.New(rand.NewPCG(7, uint64(i)))
		q := drawQuestion(questions, random)
		_, err := s.asker.get(ctx, q.path(random))
		took := time.Since(due)
		run.all.add(took)
		run.kinds[q.kind].add(took)
		run.names[q.name].add(took)
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		return nil
	})
	run.cost = m.now().minus(before)
	return run, because(working, err)
}

// deskSearches asks for each part of a message alone, one search after the other.
func deskSearches(ctx context.Context, s *deskBench) error {
	for _, q := range searchQuestions() {
		random := rand.New(rand.NewPCG(3, 3))
		if err := s.asker.check(ctx, q, random); err != nil {
			return err
		}
		var h histogram
		for range s.o.deskAsks {
			began := time.Now()
			if _, err := s.asker.get(ctx, q.path(random)); err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			h.add(time.Since(began))
		}
		s.say("desk: %s: p50 %.2f ms, p95 %.2f ms, longest %.2f ms", q.name, h.quantile(0.5), h.quantile(0.95), h.quantile(1))
		s.t.add(s.b, q.name, fmt.Sprintf("alone, %d times", s.o.deskAsks), cell{Name: "p50 ms", Runs: []float64{h.quantile(0.5)}},
			cell{Name: "p95 ms", Runs: []float64{h.quantile(0.95)}}, cell{Name: "longest ms", Runs: []float64{h.quantile(1)}})
	}
	return nil
}

// deskViews reads the view of investigations, and renews what it shows.
func deskViews(ctx context.Context, s *deskBench) error {
	renewed, err := s.d.timed(ctx, "select postrider.refresh_dashboards()")
	if err != nil {
		return err
	}
	var runs []float64
	for range max(5, s.o.runs) {
		ms, err := s.d.timed(ctx, "select * from postrider.v_dlq_dashboard")
		if err != nil {
			return err
		}
		runs = append(runs, ms)
	}
	s.t.add(s.b, "v_dlq_dashboard", "summary of at most 5 minutes", cell{Name: "p50 ms", Runs: []float64{median(runs)}}, cell{Name: "longest ms", Runs: []float64{slices.Max(runs)}})
	s.t.add(s.b, "the summaries renewed", "once a minute, by one process", cell{Name: "p50 ms", Runs: []float64{renewed}}, cell{Name: "longest ms", Runs: []float64{renewed}})
	return nil
}

// deskPurging removes investigations by their age, and by a part of their message.
func deskPurging(ctx context.Context, s *deskBench) error {
	for _, c := range []struct{ name, reason string }{
		{"purge by age", ""}, {"purge by age and the message of the old outage", outageWords}, {"purge by age and a message that none has", absentWords},
	} {
		var h histogram
		for range deskPurges {
			began := time.Now()
			if err := s.asker.purge(ctx, time.Now(), c.reason); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			h.add(time.Since(began))
		}
		s.say("desk: %s: p50 %.1f ms, longest %.1f ms", c.name, h.quantile(0.5), h.quantile(1))
		s.t.add(s.b, c.name, fmt.Sprintf("up to %d a request", deskPurged), cell{Name: "p50 ms", Runs: []float64{h.quantile(0.5)}}, cell{Name: "longest ms", Runs: []float64{h.quantile(1)}})
	}
	return nil
}
