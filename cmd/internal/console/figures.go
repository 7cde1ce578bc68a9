package console

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/series"
	"github.com/postrider/postrider/internal/dlq"
)

// figures are how everything stood at a time. They are read once for all people who look with the same sources, and are not changed
// afterwards.
type figures struct {
	// At is when they were read.
	At time.Time
	// Own says that they have those of the desk's own database: its outbox, its tasks and the plots. Without them Status has the
	// operations alone.
	Own bool
	// Sources says that the settings may name other databases: Status and the plots say nothing of their outboxes.
	Sources bool
	// Status is that of the API.
	Status api.Status
	// Causes are groups that are open, the worst first, at most maxCauses; Open is how many there are.
	Causes []cause
	Open   int64
	// Muted is how many groups are muted.
	Muted int64
	// Pending is how many investigations are open.
	Pending int64
	// Short and Long are the figures of plots: of 15 minutes and of 24 hours.
	Short, Long []point
	// Half and Most are from insert to acknowledgement: of half of the newest events, and of 99 of 100; Known says that
	// there were such.
	Half, Most time.Duration
	Known      bool
	// Mark changes when a page would show something else than plots and ages.
	Mark uint64
}

// cause is a group with its hours.
type cause struct {
	api.Group
	// Hours are how many investigations were opened in each of the last 24 hours, the oldest first.
	Hours [24]int64
}

// withHours adds the hours to groups.
func withHours(ctx context.Context, from Investigations, groups []api.Group, now time.Time) ([]cause, error) {
	ids := make([]uuid.UUID, len(groups))
	for i := range groups {
		ids[i] = groups[i].UUID
	}
	hours, err := from.GroupHours(ctx, ids)
	if err != nil {
		return nil, err
	}
	causes := make([]cause, len(groups))
	for i, g := range groups {
		causes[i] = cause{Group: g, Hours: lastHours(hours[g.UUID], now)}
	}
	return causes, nil
}

const (
	// maxCauses is how many causes the first page shows.
	maxCauses = 12
	// watched is for how long after the last page figures are read often.
	watched = time.Minute
	// unwatchedPause is how often they are read while no page is open, for plots.
	unwatchedPause = 10 * time.Second
	// readLimit bounds one look. Figures that take longer are skipped, and pages keep the last ones.
	readLimit = 5 * time.Second
)

// sampler reads figures.
type sampler struct {
	api            API
	outbox         Outbox
	investigations Investigations
	every          time.Duration
	sources        bool // see Config.Sources
	log            *slog.Logger
	database       Pinger       // nil for none
	asking         atomic.Int64 // how many reads wait for the database

	mu      sync.Mutex
	now     *figures
	failed  error         // why the last look failed; nil where it did not
	slow    bool          // the last look took longer than it may
	since   time.Time     // when looks began to fail
	seen    time.Time     // when a page was asked for last
	silent  chan struct{} // closed while the database does not answer
	changed chan struct{}
	wake    chan struct{} // a page asks again
	some    someFigures   // of people who see some sources alone
}

// run reads until ctx ends.
func (s *sampler) run(ctx context.Context) {
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { s.listen(ctx) })
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		case <-s.wake:
			pause.Stop()
		}
		s.look(ctx)
		next := s.every
		if !s.isWatched() {
			next = max(unwatchedPause, next)
		}
		pause.Reset(next)
	}
}

func (s *sampler) isWatched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.seen) < watched
}

// look reads once, and keeps the figures or the failure.
func (s *sampler) look(ctx context.Context) {
	answering, done := s.whileItAnswers(ctx)
	defer done()
	reading, cancel := context.WithTimeout(answering, readLimit)
	defer cancel()
	f, err := s.read(reading, access.AllSources())
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && s.database != nil && reading.Err() != nil && answering.Err() == nil:
		// The database answers pings, so it is not away. The figures are slow, or wait for connections.
		if !s.slow {
			s.log.Warn("figures take long to read; pages show the last ones", "limit", readLimit.String(), "err", err)
		}
		s.slow = true
		return
	case err != nil:
		s.fail(ifSilent(reading, err))
	default:
		if s.failed != nil {
			s.log.Info("figures are read again", "after", time.Since(s.since).Round(time.Second).String())
		}
		s.now, s.failed, s.slow = f, nil, false
	}
	s.tell()
}

// fail keeps why figures could not be read.
func (s *sampler) fail(err error) {
	if s.failed == nil {
		s.since = time.Now()
		s.log.Warn("figures could not be read; pages show the last ones", "err", err)
	}
	s.failed = err
}

// tell wakes who waits for next.
func (s *sampler) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// latest returns the newest figures, nil where there were none yet, and why there are no newer ones, since when.
func (s *sampler) latest() (f *figures, since time.Time, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeUp()
	return s.now, s.since, s.failed
}

// next returns a channel that is closed when figures were read again.
func (s *sampler) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeUp()
	return s.changed
}

// wakeUp has figures read at once when no page has asked for a while.
func (s *sampler) wakeUp() {
	if time.Since(s.seen) >= watched {
		s.wakeRun()
	}
	s.seen = time.Now()
}

// wakeRun has figures read at once.
func (s *sampler) wakeRun() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// readerOf asks for figures. It has no key, and may read alone.
func readerOf(sources access.Sources) access.Actor {
	return access.Actor{Name: "console", KeyID: "console", Scopes: []access.Scope{access.Read}, Sources: sources}
}

// read reads the figures of sources.
func (s *sampler) read(ctx context.Context, sources access.Sources) (*figures, error) {
	ctx = access.Limited(ctx, readerOf(sources))
	f := &figures{At: time.Now(), Own: sources.Has(dlq.MainSource), Sources: s.sources}
	var err error
	if err := s.readCauses(ctx, f); err != nil {
		return nil, err
	}
	if !f.Own {
		found, err := call[api.List[api.Operation]](ctx, s.api, http.MethodGet, "/operations", url.Values{"open": {"true"}, "page_size": {"100"}}, nil)
		f.Status.Operations = found.Items
		f.Mark = f.mark()
		return f, err
	}
	if f.Status, err = call[api.Status](ctx, s.api, http.MethodGet, "/status", nil, nil); err != nil {
		return nil, err
	}
	for span, points := range map[series.Span]*[]point{series.Short: &f.Short, series.Long: &f.Long} {
		found, err := call[api.Series](ctx, s.api, http.MethodGet, "/series", url.Values{"span": {string(span)}}, nil)
		if err != nil {
			return nil, err
		}
		*points = pointsOf(found)
	}
	if f.Half, f.Most, f.Known, err = s.outbox.Latency(ctx); err != nil {
		return nil, err
	}
	f.Mark = f.mark()
	return f, nil
}

// readCauses reads the groups that are open, with their hours, in the order that the list of causes has.
func (s *sampler) readCauses(ctx context.Context, f *figures) error {
	states, pending, err := s.investigations.GroupStates(ctx)
	if err != nil {
		return err
	}
	f.Open, f.Muted, f.Pending = states[dlq.GroupNew]+states[dlq.GroupRegressed]+states[dlq.GroupOngoing], states[dlq.GroupMuted], pending
	found, err := call[api.List[api.Group]](ctx, s.api, http.MethodGet, "/groups", url.Values{"order_by": {string(dlq.GroupsByWorst)}, "page_size": {fmt.Sprint(maxCauses)}}, nil)
	if err != nil {
		return err
	}
	open := slices.DeleteFunc(found.Items, func(g api.Group) bool { return g.State == dlq.GroupMuted || g.State == dlq.GroupResolved })
	if len(open) == 0 { // what was counted was closed in between
		f.Open = 0
	}
	f.Causes, err = withHours(ctx, s.investigations, open, f.At)
	return err
}

// lastHours puts counts in their places among the last 24 hours.
func lastHours(counts []dlq.HourCount, now time.Time) (hours [24]int64) {
	first := now.UTC().Truncate(time.Hour).Add(-23 * time.Hour)
	for _, c := range counts {
		if i := int(c.Hour.UTC().Sub(first) / time.Hour); i >= 0 && i < len(hours) {
			hours[i] += c.Opened
		}
	}
	return hours
}

// mark sums up what pages show, without figures that always move.
func (f *figures) mark() uint64 {
	h := fnv.New64a()
	for i := range f.Causes {
		g := &f.Causes[i]
		fmt.Fprint(h, g.UUID, g.State, g.Pending, g.Assignee != nil, g.UpdatedAt.UnixNano())
	}
	for _, hold := range f.Status.Outbox.Holds {
		fmt.Fprint(h, hold.ID, hold.Draining, hold.Asked != nil, hold.Parked)
	}
	for i := range f.Status.Operations {
		o := &f.Status.Operations[i]
		fmt.Fprint(h, o.UUID, o.State, o.Done, o.Delivered, o.CameBack)
	}
	fmt.Fprint(h, f.Open, f.Muted, f.Pending)
	return h.Sum64()
}
