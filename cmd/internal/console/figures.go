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
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// figures are how everything stood at a time. They are read once for all people who look, and are not changed afterwards.
type figures struct {
	// At is when they were read.
	At time.Time
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
	// Message is what went wrong in its newest investigation; empty where all were purged.
	Message string
}

// describe adds what lists show of groups beside themselves: hours, and the newest message.
func describe(ctx context.Context, from Investigations, groups []api.Group, now time.Time) ([]cause, error) {
	var ids, newest []uuid.UUID
	for i := range groups {
		ids = append(ids, groups[i].UUID)
		if groups[i].LastEntry != nil {
			newest = append(newest, *groups[i].LastEntry)
		}
	}
	hours, err := from.GroupHours(ctx, ids)
	if err != nil {
		return nil, err
	}
	messages, err := from.Messages(ctx, newest)
	if err != nil {
		return nil, err
	}
	causes := make([]cause, len(groups))
	for i, g := range groups {
		causes[i] = cause{Group: g, Hours: lastHours(hours[g.UUID], now)}
		if g.LastEntry != nil {
			causes[i].Message = messages[*g.LastEntry]
		}
	}
	return causes, nil
}

const (
	// maxCauses is how many causes the first page shows.
	maxCauses = 12
	// watched is for how long after the last page figures are read often.
	watched = time.Minute
	// unwatchedPause is how often they are read while nobody looks, for plots.
	unwatchedPause = 10 * time.Second
	// readLimit bounds one look.
	readLimit = 5 * time.Second
)

// sampler reads figures.
type sampler struct {
	api            API
	outbox         Outbox
	investigations Investigations
	every          time.Duration
	log            *slog.Logger
	series         series

	mu      sync.Mutex
	now     *figures
	failed  error     // why the last look failed; nil where it did not
	since   time.Time // when looks began to fail
	seen    time.Time // when a page was asked for last
	changed chan struct{}
	wake    chan struct{} // a page asks again
}

// run reads until ctx ends.
func (s *sampler) run(ctx context.Context) {
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
	reading, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	f, err := s.read(reading)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.failed
	if s.failed = err; err != nil {
		if was == nil {
			s.since = time.Now()
			s.log.Warn("figures could not be read; pages show the last ones", "err", err)
		}
	} else {
		if was != nil {
			s.log.Info("figures are read again", "after", time.Since(s.since).Round(time.Second).String())
		}
		s.now = f
	}
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
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	s.seen = time.Now()
}

// reader asks for figures. It has no key, and may read alone.
var reader = access.Actor{Name: "console", KeyID: "console", Scopes: []access.Scope{access.Read}}

func (s *sampler) read(ctx context.Context) (*figures, error) {
	ctx = access.WithActor(ctx, reader)
	f := &figures{At: time.Now()}
	var err error
	if f.Status, err = call[api.Status](ctx, s.api, http.MethodGet, "/status", nil, nil); err != nil {
		return nil, err
	}
	pending, err := call[api.EntryList](ctx, s.api, http.MethodGet, "/dlq", url.Values{"resolution_status": {string(dlq.Pending)}, "page_size": {"1"}}, nil)
	if err != nil {
		return nil, err
	}
	if pending.Total != nil {
		f.Pending = *pending.Total
	}
	if err := s.readCauses(ctx, f); err != nil {
		return nil, err
	}
	if err := s.series.read(ctx, s.outbox, s.investigations, f.At, f.Status.Outbox.OldestDueSeconds); err != nil {
		return nil, err
	}
	f.Short, f.Long = s.series.points(f.At)
	if f.Half, f.Most, f.Known, err = s.outbox.Latency(ctx); err != nil {
		return nil, err
	}
	f.Mark = f.mark()
	return f, nil
}

// readCauses reads the groups that are open, with their hours.
func (s *sampler) readCauses(ctx context.Context, f *figures) error {
	var groups []api.Group
	for _, state := range []dlq.GroupState{dlq.GroupNew, dlq.GroupRegressed, dlq.GroupOngoing, dlq.GroupMuted} {
		size := fmt.Sprint(maxCauses)
		if state == dlq.GroupMuted {
			size = "1"
		}
		found, err := call[api.List[api.Group]](ctx, s.api, http.MethodGet, "/groups", url.Values{"state": {string(state)}, "order_by": {string(dlq.GroupsByPending)}, "page_size": {size}}, nil)
		if err != nil {
			return err
		}
		if state == dlq.GroupMuted {
			f.Muted = *found.Total
			continue
		}
		f.Open += *found.Total
		groups = append(groups, found.Items...)
	}
	causes, err := describe(ctx, s.investigations, groups, f.At)
	if err != nil {
		return err
	}
	f.Causes = causes
	slices.SortStableFunc(f.Causes, func(a, b cause) int { return b.heat() - a.heat() })
	f.Causes = f.Causes[:min(len(f.Causes), maxCauses)]
	return nil
}

// heat orders causes: first what came back or is new and goes on, then by how much is open.
func (c *cause) heat() int {
	const most = 1 << 30
	h := int(min(c.Pending, most-1))
	if c.State == dlq.GroupNew || c.State == dlq.GroupRegressed {
		h += most
	}
	if c.Hours[23]+c.Hours[22] > 0 {
		h += most
	}
	return h
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
