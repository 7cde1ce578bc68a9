package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/doctor"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// looksAtOnce is how many databases are looked at at the same time.
const looksAtOnce = 16

// LookAtSources looks at the database of each source, in the order of names. What is wrong with one is in its own look. If desk is
// not nil, it says how many commands each has not answered.
func LookAtSources(ctx context.Context, c config.Config, desk *Services) api.Sources {
	began := time.Now().UTC()
	looks := make([]api.Source, len(c.Sources))
	free := make(chan struct{}, looksAtOnce)
	var all sync.WaitGroup
	for i, s := range c.Sources {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			looks[i] = lookAt(ctx, c.Of(s), s)
		})
	}
	all.Wait()
	addCommands(ctx, looks, desk)
	return api.Sources{List: api.ListOf(looks, ""), LookedAt: began, Removed: addStops(ctx, looks, desk)}
}

// lookAtSources is LookAtSources for the sources of this process. A look that was given up is an error.
func (a *App) lookAtSources(ctx context.Context) (api.Sources, error) {
	found := LookAtSources(ctx, a.settingsNow(), a.services)
	return found, ctx.Err()
}

// settingsNow are the settings with the sources as they were read last.
func (a *App) settingsNow() config.Config {
	c := a.options.Config
	if a.fleet != nil {
		a.fleet.mu.Lock()
		defer a.fleet.mu.Unlock()
		c.Sources = a.fleet.sources
	}
	return c
}

// knowOwners notes which sources may write to a topic, whenever the sources have changed.
func (a *App) knowOwners(c config.Config) {
	owners := c.OwnersOf()
	a.owners.Store(&owners)
}

// ownersNow returns the sources that may write to a topic.
func (a *App) ownersNow(topic string) []string { return (*a.owners.Load())(topic) }

// namesNow reports whether the settings name a source.
func (a *App) namesNow(source string) bool { return a.settingsNow().NamesSource(source) }

// addCommands adds what the desk knows to looks. A desk that cannot be asked leaves that unknown.
func addCommands(ctx context.Context, looks []api.Source, desk *Services) {
	if desk == nil {
		return
	}
	names := make([]string, len(looks))
	for i := range looks {
		names[i] = looks[i].Name
	}
	var own string
	if err := desk.pool.QueryRow(ctx, "select source_uuid::text from postrider.outbox_source").Scan(&own); err == nil {
		for i := range looks {
			looks[i].OtherDesk = looks[i].Desk != nil && *looks[i].Desk != own
		}
	}
	waiting, err := desk.Redriver.WaitingCommands(ctx, names)
	if err != nil {
		return
	}
	for i := range looks {
		looks[i].WaitingCommands = new(int64)
		for _, w := range waiting {
			if w.Source == looks[i].Name {
				*looks[i].WaitingCommands, looks[i].OldestCommandAt = w.Count, api.TimeOrNull(w.Oldest)
			}
		}
	}
}

// addStops adds to looks why people stopped sources, or the desk did, and returns what the desk knows of sources that are not among
// them.
func addStops(ctx context.Context, looks []api.Source, desk *Services) []api.RemovedSource {
	removed := []api.RemovedSource{}
	if desk == nil {
		return removed
	}
	known, err := desk.Redriver.KnownSources(ctx)
	if err != nil {
		return removed
	}
	for _, k := range known {
		i := slices.IndexFunc(looks, func(l api.Source) bool { return l.Name == k.Name })
		if i < 0 {
			removed = append(removed, api.NewRemovedSource(k))
			continue
		}
		if l := &looks[i]; l.OK && k.Stopped != "" {
			l.OK, l.Reason = false, new(string(k.Stopped))
			l.Error = new((&dlq.StoppedError{Source: k.Name, Reason: k.Stopped}).Error())
		}
	}
	return removed
}

func lookAt(ctx context.Context, c config.Config, s config.Source) api.Source {
	look := api.Source{Name: s.Name, Database: s.Database.URL.String(), Origin: s.Origin()}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	if err := readSource(ctx, c, &look); err != nil {
		look.Reason, look.Error = api.OrNull(reasonOf(err)), api.OrNull(obs.OneLine(err.Error()))
		return look
	}
	look.OK = true
	return look
}

func readSource(ctx context.Context, c config.Config, l *api.Source) error {
	if _, err := prepareSource(ctx, c.Database, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	pool, err := postgres.NewPool(ctx, c.Database.URL.Reveal(), relayPool(c, 1))
	if err != nil {
		return err
	}
	defer pool.Close()
	var name string
	var place, is *string
	err = pool.QueryRow(ctx, "select coalesce(s.name, ''), s.desk, s.place, postrider.outbox_place(), l.leads, l.worker, l.at from postrider.outbox_source s, postrider.outbox_leader l").
		Scan(&name, &l.Desk, &place, &is, &l.Led, &l.Leader, &l.LedSince)
	if err != nil {
		return err
	}
	if name != "" && name != l.Name {
		return fmt.Errorf("%w: this database is the source %s and not %s; a source keeps its name", errOtherName, name, l.Name)
	}
	if err := copied(l.Name, place, is); err != nil {
		return err
	}
	status, err := postgres.NewStore(pool, postgres.StoreOptions{LetterTopic: c.DLQTopicOf}).Status(ctx)
	l.Pending, l.Parked, l.Scheduled, l.Exhausted, l.DeadLettered = status.Pending, status.Parked, status.Scheduled, status.Exhausted, status.DeadLettered
	l.Holds, l.OldestDueSeconds = status.HoldCount, status.OldestDueSeconds
	return err
}

// sourceFinding says what a look found as the doctor says it.
func sourceFinding(l api.Source) doctor.Finding {
	waiting := l.Pending + l.Parked + l.Scheduled
	f := doctor.Finding{Group: "sources", Check: l.Name, Verdict: doctor.OK, Says: fmt.Sprintf("led by %s, %d events wait", api.OrZero(l.Leader), waiting)}
	switch {
	case !l.OK:
		f.Verdict, f.Says = doctor.Failed, api.OrZero(l.Reason)+": "+api.OrZero(l.Error)
		f.Hint = "mend the database, its login or the settings at " + l.Origin + "; the other sources go on"
	case !l.Led:
		f.Verdict, f.Says = doctor.Warning, fmt.Sprintf("no relay leads it, %d events wait", waiting)
		f.Hint = "see that postrider serve runs with this source and reaches its database; a source with sleep is led only while it is looked at"
	case l.OtherDesk:
		f.Verdict, f.Says = doctor.Warning, fmt.Sprintf("it belongs to the desk %s, and refuses the commands of this one", api.OrZero(l.Desk))
		f.Hint = "take it out of the settings of one of the two desks; to hand it over, the owner of its schema runs: update postrider.outbox_source set desk = null"
	}
	return f
}

// addSources adds the looks at the sources to a report.
func addSources(ctx context.Context, c config.Config, desk *Services, r *doctor.Report) {
	for _, l := range LookAtSources(ctx, c, desk).Items {
		f := sourceFinding(l)
		r.Findings = append(r.Findings, f)
		switch f.Verdict {
		case doctor.Failed:
			r.Failed++
		case doctor.Warning:
			r.Warnings++
		}
	}
	r.OK = r.Failed == 0
}
