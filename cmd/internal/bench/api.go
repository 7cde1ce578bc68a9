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
	// apiPurges is how often each way to purge is measured; each removes apiPurged.
	apiPurges, apiPurged = 5, 1000
)

// api asks the API server of a desk with many investigations what people and their tools ask it: first a mix at exact
// times, then each search for a part of a message alone, then the views; and then it purges.
func api(ctx context.Context, r *rig, b *broker, t *table) error {
	d, err := r.newDatabase(ctx, "bench_desk", true)
	if err != nil {
		return err
	}
	defer d.drop()
	r.say("api: loading %d investigations", r.o.apiEntries)
	if err := d.loadAPI(ctx, r.o.apiEntries); err != nil {
		return fmt.Errorf("load investigations: %w", err)
	}
	return r.serveAPI(ctx, b, d, []access.Scope{access.Read, access.Purge}, func(asker *apiAsker, server *child) error {
		known, err := d.apiSample(ctx, asker)
		if err != nil {
			return err
		}
		for _, step := range []func(context.Context, *apiBench) error{apiMix, apiSearches, apiViews, apiPurging} {
			if err := step(ctx, &apiBench{r, b, d, t, asker, server, known}); err != nil {
				return err
			}
		}
		t.note("%d investigations of %d groups, 500 topics and templates and 90 days, with a letter each; a fifth are of one outage 81 days ago, within three hours and with one message. The mix: 30 %% pages of the whole list, 35 %% with filters, 25 %% investigations and groups whole, 10 %% numbers.", r.o.apiEntries, apiGroups)
		return nil
	})
}

// apiBench is what the parts of the scenario work with.
type apiBench struct {
	*rig
	b      *broker
	d      *database
	t      *table
	asker  *apiAsker
	server *child
	known  *apiKnown
}

// newKey makes a key for the API that has these scopes.
func (d *database) newKey(ctx context.Context, scopes []access.Scope) (key string, err error) {
	pool, err := pgxpool.New(ctx, d.url)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	_, key, err = access.NewStore(pool).Create(access.WithActor(ctx, access.Actor{Name: "bench"}), access.NewKey{Name: "bench", Scopes: scopes})
	return key, err
}

// serveAPI runs f beside the product's API server, in a process of its own, with a key for it that has these scopes.
func (r *rig) serveAPI(ctx context.Context, b *broker, d *database, scopes []access.Scope, f func(*apiAsker, *child) error) error {
	key, err := d.newKey(ctx, scopes)
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
	asker := newAPIAsker("http://"+address, key, r.o.clients)
	defer asker.close()
	return errors.Join(f(asker, server), server.stop())
}

// apiRun is what one run of the mix measured.
type apiRun struct {
	all, late histogram
	kinds     map[string]*histogram
	names     map[string]*histogram
	cost      cpu
}

// apiMix asks the mix at exact times. A question's time is from when it was due until its answer was read.
func apiMix(ctx context.Context, s *apiBench) error {
	questions := apiQuestions(s.known)
	for _, q := range questions { // each once first: this opens connections, and sees that there is something to find
		if err := s.asker.check(ctx, q, rand.New(rand.NewPCG(1, 1))); err != nil {
			return err
		}
	}
	if _, err := s.mixOnce(ctx, questions, min(s.o.apiDuration, 5*time.Second)); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	var runs []*apiRun
	for range s.o.runs {
		run, err := s.mixOnce(ctx, questions, s.o.apiDuration)
		if err != nil {
			return err
		}
		runs = append(runs, run)
		s.say("api: p50 %.2f ms, p95 %.2f ms, p99 %.2f ms, longest %.1f ms, begun late p99 %.2f ms", run.all.quantile(0.5), run.all.quantile(0.95),
			run.all.quantile(0.99), run.all.quantile(1), run.late.quantile(0.99))
		for _, q := range questions {
			h := run.names[q.name]
			s.say("api:   %-36s %5d asked, p50 %7.2f ms, p95 %7.2f ms, longest %7.2f ms", q.name, h.n, h.quantile(0.5), h.quantile(0.95), h.quantile(1))
		}
	}
	settings := fmt.Sprintf("%d a second", s.o.apiRate)
	of := func(q float64) []float64 { return pick(runs, func(r *apiRun) float64 { return r.all.quantile(q) }) }
	share := func(f func(cpu) float64) []float64 {
		return pick(runs, func(r *apiRun) float64 { return 100 * f(r.cost) / s.o.apiDuration.Seconds() })
	}
	s.t.add(s.b, "the mix", settings, cell{Name: "p50 ms", Runs: of(0.5)}, cell{Name: "p95 ms", Runs: of(0.95)}, cell{Name: "p99 ms", Runs: of(0.99)},
		cell{Name: "longest ms", Runs: of(1)}, cell{Name: "begun late p99 ms", Runs: pick(runs, func(r *apiRun) float64 { return r.late.quantile(0.99) })},
		cell{Name: "server, % of a core", Runs: share(func(c cpu) float64 { return c.side })}, cell{Name: "PostgreSQL", Runs: share(func(c cpu) float64 { return c.database })})
	for _, kind := range apiKinds {
		of := func(q float64) []float64 {
			return pick(runs, func(r *apiRun) float64 { return r.kinds[kind].quantile(q) })
		}
		s.t.add(s.b, "of it: "+kind, settings, cell{Name: "p50 ms", Runs: of(0.5)}, cell{Name: "p95 ms", Runs: of(0.95)}, cell{Name: "p99 ms", Runs: of(0.99)}, cell{Name: "longest ms", Runs: of(1)})
	}
	return nil
}

// mixOnce asks the mix for a time.
func (s *apiBench) mixOnce(ctx context.Context, questions []apiQuestion, length time.Duration) (*apiRun, error) {
	run := &apiRun{kinds: map[string]*histogram{}, names: map[string]*histogram{}}
	for _, q := range questions {
		run.names[q.name] = &histogram{}
	}
	for _, kind := range apiKinds {
		run.kinds[kind] = &histogram{}
	}
	m := meter{rig: s.rig, b: s.b, sides: []process{s.server}}
	working, cancel := alive(ctx, s.server)
	defer cancel()
	before := m.now()
	n := max(1, int(float64(s.o.apiRate)*length.Seconds()))
	err := pace{s.o.apiRate, s.o.clients, &run.late}.run(working, n, func(ctx context.Context, i int, due time.Time) error {
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

// apiSearches asks for each part of a message alone, one search after the other.
func apiSearches(ctx context.Context, s *apiBench) error {
	for _, q := range searchQuestions() {
		random := rand.New(rand.NewPCG(3, 3))
		if err := s.asker.check(ctx, q, random); err != nil {
			return err
		}
		var h histogram
		for range s.o.apiAsks {
			began := time.Now()
			if _, err := s.asker.get(ctx, q.path(random)); err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			h.add(time.Since(began))
		}
		s.say("api: %s: p50 %.2f ms, p95 %.2f ms, longest %.2f ms", q.name, h.quantile(0.5), h.quantile(0.95), h.quantile(1))
		s.t.add(s.b, q.name, fmt.Sprintf("alone, %d times", s.o.apiAsks), cell{Name: "p50 ms", Runs: []float64{h.quantile(0.5)}},
			cell{Name: "p95 ms", Runs: []float64{h.quantile(0.95)}}, cell{Name: "longest ms", Runs: []float64{h.quantile(1)}})
	}
	return nil
}

// apiViews reads the view of investigations, and renews what it shows.
func apiViews(ctx context.Context, s *apiBench) error {
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

// apiPurging removes investigations by their age, and by a part of their message.
func apiPurging(ctx context.Context, s *apiBench) error {
	for _, c := range []struct{ name, reason string }{
		{"purge by age", ""}, {"purge by age and the message of the old outage", outageWords}, {"purge by age and a message that none has", absentWords},
	} {
		var h histogram
		for range apiPurges {
			began := time.Now()
			if err := s.asker.purge(ctx, time.Now(), c.reason); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			h.add(time.Since(began))
		}
		s.say("api: %s: p50 %.1f ms, longest %.1f ms", c.name, h.quantile(0.5), h.quantile(1))
		s.t.add(s.b, c.name, fmt.Sprintf("up to %d a request", apiPurged), cell{Name: "p50 ms", Runs: []float64{h.quantile(0.5)}}, cell{Name: "longest ms", Runs: []float64{h.quantile(1)}})
	}
	return nil
}
