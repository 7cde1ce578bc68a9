package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/loop"
)

// screenEvery is how often an open screen loads its page anew where nothing has changed, as the console's script does.
const screenEvery = 20 * time.Second

// screensOfOne is how many screens one session has open.
const screensOfOne = 10

// figuresLimit is how long a console may take until it has its first figures; pages that show them say so before.
const figuresLimit = 30 * time.Second

// console asks the pages of the web console for people at a desk with many investigations and tasks, while a relay beside it
// carries a steady load; and then it keeps many screens open.
func console(ctx context.Context, r *rig, b *broker, t *table) (err error) {
	// The load lasts as long as everything that is measured, and a little more for what begins in between.
	length := time.Duration(r.o.runs)*(r.o.consoleDuration+3*r.o.screensDuration+10*time.Second) + 10*time.Second
	events := int(float64(r.o.rate) * length.Seconds())
	l, err := r.newLoad(ctx, b, newPostrider(nil), loadSize{events: events}, nil)
	defer func() { err = errors.Join(err, l.end()) }()
	if err != nil {
		return err
	}
	r.say("console: loading %d investigations and %d tasks", r.o.apiEntries, r.o.consoleTasks)
	if err := l.d.loadAPI(ctx, r.o.apiEntries); err != nil {
		return fmt.Errorf("load investigations: %w", err)
	}
	if err := (&staleSide{healthy: r.o.consoleTasks, database: l.d}).loadHealthy(ctx); err != nil {
		return fmt.Errorf("load tasks: %w", err)
	}
	if err := l.d.exec(ctx, "vacuum (analyze) postrider.tasker_tasks"); err != nil {
		return err
	}
	if err := l.begin(ctx, 0); err != nil {
		return err
	}
	writing, stop := context.WithCancel(ctx)
	written := make(chan error, 1)
	go func() { written <- l.writeTogether(writing, 0, events, r.o.rate, r.o.consoleTogether) }()
	err = r.serveAPI(ctx, b, l.d, []access.Scope{access.Admin}, func(asker *apiAsker, server *child) error {
		known, err := l.d.apiSample(ctx, asker)
		if err != nil {
			return err
		}
		s := &consoleBench{rig: r, b: b, t: t, server: server, url: strings.TrimSuffix(asker.base, "/v1")}
		if s.pages, err = l.d.consolePages(ctx, known); err != nil {
			return err
		}
		for range (max(r.o.screens, 1) + screensOfOne - 1) / screensOfOne {
			session, err := s.signIn(ctx, asker.key)
			if err != nil {
				return err
			}
			defer session.CloseIdleConnections()
			s.sessions = append(s.sessions, session)
		}
		if err := s.askPages(ctx); err != nil {
			return err
		}
		return s.openScreens(ctx)
	})
	early := writing.Err() == nil && len(written) > 0
	stop()
	if wrote := <-written; wrote != nil && !errors.Is(wrote, context.Canceled) {
		err = errors.Join(err, fmt.Errorf("the load beside it: %w", wrote))
	} else if early && err == nil {
		err = errors.New("the load ended before the measurement did")
	}
	t.note("%d investigations and %d tasks; beside it %d events a second by %d writers, %d in a transaction, and a relay. Pages are asked at exact times in turn, each as often as the others; a page's time is from when it was due until it was read. A screen is a stream of events, and its page loaded anew every %v.", r.o.apiEntries, r.o.consoleTasks, r.o.rate, r.o.clients, r.o.consoleTogether, screenEvery)
	return err
}

// consoleBench is what the parts of the scenario work with.
type consoleBench struct {
	*rig
	b      *broker
	t      *table
	server *child
	url    string
	pages  []consolePage

	sessions []*http.Client // one for each screensOfOne screens
}

// consolePage is a page with the addresses that it is asked at.
type consolePage struct {
	name  string
	paths []string
}

// consolePages are all lists of the console, and pages of single things as samples have them.
func (d *database) consolePages(ctx context.Context, known *apiKnown) ([]consolePage, error) {
	sample := func(sql string) ([]string, error) {
		rows, err := d.conn.Query(ctx, sql)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	}
	tasks, err := sample(`select task_uuid::text from postrider.tasker_tasks limit 200`)
	if err != nil {
		return nil, err
	}
	events, err := sample(`select id::text from postrider.outbox_event order by id limit 200`)
	if err != nil {
		return nil, err
	}
	redrivable, err := sample(`select dlq_group_uuid::text from postrider.dlq_group where entries > 0 and topic is not null limit 200`) // a cause of tasks has no message
	if err != nil {
		return nil, err
	}
	under := func(path string, of []string) []string {
		out := make([]string, len(of))
		for i, name := range of {
			out[i] = path + url.PathEscape(name)
		}
		return out
	}
	topics := make([]string, len(known.topics))
	for i, topic := range known.topics {
		topics[i] = "/investigations?" + url.Values{"topic": {topic}, "resolution_status": {"pending"}}.Encode()
	}
	pages := []consolePage{
		{"Now", []string{"/"}}, {"Causes", []string{"/causes"}}, {"a cause", under("/causes/", known.groups)}, {"the cause of the old outage", under("/causes/", []string{known.outage})},
		{"Investigations", []string{"/investigations"}}, {"Investigations, second page", []string{"/investigations?after=" + url.QueryEscape(known.next)}}, {"Investigations, open of a topic", topics},
		{"an investigation", under("/investigations/", known.entries)}, {"the form of a plan", under("/plan?kind=redrive&group=", redrivable)}, {"Operations", []string{"/operations"}},
		{"Outbox", []string{"/outbox"}}, {"an event", under("/outbox/", events)}, {"Tasks", []string{"/tasks"}}, {"Tasks, stale", []string{"/tasks?flagged=true"}}, {"a task", under("/tasks/", tasks)},
		{"Templates", []string{"/tasks/templates"}}, {"the archive", []string{"/tasks/archive"}}, {"Audit", []string{"/audit"}}, {"Consumers", []string{"/consumers"}}, {"Doctor", []string{"/doctor"}}, {"My access", []string{"/access"}},
	}
	for _, p := range pages {
		if len(p.paths) == 0 {
			return nil, fmt.Errorf("console: there is nothing to ask %s for", p.name)
		}
	}
	return pages, nil
}

// signIn opens a session.
func (s *consoleBench) signIn(ctx context.Context, key string) (*http.Client, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	session := &http.Client{Jar: jar, Transport: &http.Transport{MaxIdleConnsPerHost: s.o.clients},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/login", strings.NewReader(url.Values{"key": {key}}.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := session.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusSeeOther {
		return nil, fmt.Errorf("signing in to the console: %s", resp.Status)
	}
	return session, nil
}

// get reads a page on the n-th screen. Anything but a page is an error.
func (s *consoleBench) get(ctx context.Context, n int, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := s.session(n).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.Contains(string(page), "</html>")) {
		err = fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return err
}

// session is that of the n-th screen.
func (s *consoleBench) session(n int) *http.Client { return s.sessions[n/screensOfOne%len(s.sessions)] }

// askPages asks every page in turn at exact times.
func (s *consoleBench) askPages(ctx context.Context) error {
	for _, p := range s.pages { // each once first: this opens connections, and sees that there is something to show
		err := s.get(ctx, 0, p.paths[0])
		for began := time.Now(); err != nil && time.Since(began) < figuresLimit; err = s.get(ctx, 0, p.paths[0]) {
			if loop.Sleep(ctx, 100*time.Millisecond) != nil {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	type run struct {
		pages []histogram
		late  histogram
		cost  cpu
	}
	var runs []*run
	for range s.o.runs {
		one := &run{pages: make([]histogram, len(s.pages))}
		m := meter{rig: s.rig, b: s.b, sides: []process{s.server}}
		working, cancel := alive(ctx, s.server)
		before := m.now()
		n := max(len(s.pages), int(float64(s.o.consoleRate)*s.o.consoleDuration.Seconds()))
		err := pace{s.o.consoleRate, s.o.clients, &one.late}.run(working, n, func(ctx context.Context, i int, due time.Time) error {
			p := s.pages[i%len(s.pages)]
			err := s.get(ctx, i, p.paths[rand.New(rand.NewPCG(11, uint64(i))).IntN(len(p.paths))])
			one.pages[i%len(s.pages)].add(time.Since(due))
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			return nil
		})
		one.cost = m.now().minus(before)
		err = because(working, err)
		cancel()
		if err != nil {
			return err
		}
		runs = append(runs, one)
	}
	settings := fmt.Sprintf("%d a second", s.o.consoleRate)
	for i, p := range s.pages {
		of := func(q float64) []float64 { return pick(runs, func(r *run) float64 { return r.pages[i].quantile(q) }) }
		s.say("console: %-34s p50 %7.2f ms, p95 %7.2f ms, longest %7.2f ms", p.name, median(of(0.5)), median(of(0.95)), median(of(1)))
		s.t.add(s.b, p.name, settings, cell{Name: "p50 ms", Runs: of(0.5)}, cell{Name: "p95 ms", Runs: of(0.95)}, cell{Name: "longest ms", Runs: of(1)})
	}
	share := func(f func(cpu) float64) []float64 {
		return pick(runs, func(r *run) float64 { return 100 * f(r.cost) / s.o.consoleDuration.Seconds() })
	}
	s.t.add(s.b, "all pages", settings, cell{Name: "begun late p99 ms", Runs: pick(runs, func(r *run) float64 { return r.late.quantile(0.99) })},
		cell{Name: "server, % of a core", Runs: share(func(c cpu) float64 { return c.side })}, cell{Name: "PostgreSQL", Runs: share(func(c cpu) float64 { return c.database })})
	return nil
}

// openScreens measures what the server costs while one person looks, while many hear of changes, and while they load their
// pages anew, too. The first is taken off the others.
func (s *consoleBench) openScreens(ctx context.Context) error {
	var one, streams, screens []float64
	for range s.o.runs {
		for _, c := range []struct {
			into   *[]float64
			n      int
			reload bool
		}{{&one, 1, false}, {&streams, s.o.screens, false}, {&screens, s.o.screens, true}} {
			share, err := s.screensOnce(ctx, c.n, c.reload)
			if err != nil {
				return err
			}
			*c.into = append(*c.into, share)
		}
	}
	s.t.add(s.b, "one stream", "first page", cell{Name: "server, % of a core", Runs: one})
	for _, c := range []struct {
		name string
		runs []float64
	}{{"streams", streams}, {"screens", screens}} {
		more := make([]float64, len(c.runs))
		for i := range c.runs {
			more[i] = c.runs[i] - one[i]
		}
		s.say("console: %d %s: %.1f %% of a core, %.1f %% more than one", s.o.screens, c.name, median(c.runs), median(more))
		s.t.add(s.b, fmt.Sprintf("%d %s", s.o.screens, c.name), "first page", cell{Name: "server, % of a core", Runs: c.runs}, cell{Name: "more than one, % of a core", Runs: more})
	}
	return nil
}

// screensOnce keeps screens open for a while, and returns the server's share of a core.
func (s *consoleBench) screensOnce(ctx context.Context, n int, reload bool) (share float64, err error) {
	working, cancel := alive(ctx, s.server)
	defer cancel()
	// A stream outlasts every limit of a request, and so has a client without one. What ends it is stop.
	open, stop := context.WithCancel(working)
	ended := make(chan error, 2*n)
	heard := make(chan struct{}, n)
	parts := 0
	for i := range n {
		parts++
		go func() { ended <- s.stream(open, i, heard) }()
		if reload {
			parts++
			go func() {
				// They did not open at once.
				err := loop.Sleep(open, time.Duration(i)*screenEvery/time.Duration(n))
				for err == nil {
					if err = s.get(open, i, "/"); err == nil {
						err = loop.Sleep(open, screenEvery)
					}
				}
				ended <- err
			}()
		}
	}
	defer func() {
		stop()
		for range parts {
			if failed := <-ended; err == nil && !errors.Is(failed, context.Canceled) {
				err = failed
			}
		}
		for _, session := range s.sessions {
			session.CloseIdleConnections()
		}
	}()
	for range n { // every stream is open, and has heard how things stand
		select {
		case <-heard:
		case failed := <-ended:
			parts--
			return 0, fmt.Errorf("a stream of events: %w", failed)
		case <-working.Done():
			return 0, context.Cause(working)
		}
	}
	m := meter{rig: s.rig, b: s.b, sides: []process{s.server}}
	before := m.now()
	if err := loop.Sleep(working, s.o.screensDuration); err != nil {
		return 0, because(working, err)
	}
	return 100 * m.now().minus(before).side / s.o.screensDuration.Seconds(), nil
}

// stream hears of changes on the n-th screen until ctx ends, and says when it has heard first.
func (s *consoleBench) stream(ctx context.Context, n int, heard chan<- struct{}) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/console/events", nil)
	if err != nil {
		return err
	}
	resp, err := s.session(n).Do(req)
	if err != nil {
		return because(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	buffer := make([]byte, 4096)
	for first := true; ; first = false {
		read, err := resp.Body.Read(buffer)
		if first && (err != nil || resp.StatusCode != http.StatusOK || read == 0) {
			return fmt.Errorf("GET /console/events: %s, %w", resp.Status, err)
		}
		if first {
			heard <- struct{}{}
		}
		if err != nil {
			return because(ctx, err)
		}
	}
}
