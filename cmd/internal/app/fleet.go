package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/loop"
)

const (
	// fleetPause is how often is settled which sources this process works on.
	fleetPause = 300 * time.Millisecond
	// reloadPause is how often the settings are read again. What was read must be the same twice, so that a file which is
	// being written is not taken.
	reloadPause = 5 * time.Second
	// knockPause is how often a process looks, on average, whether a source of another process is led; knockHomeless is
	// that while the processes do not see one another.
	knockPause    = 45 * time.Second
	knockHomeless = 4 * time.Second
	// knocksInVain is how many looks in a row must find nobody who leads for this process to lead.
	knocksInVain = 2
	// openAtOnce is how many sources are opened at the same time.
	openAtOnce = 64
)

// fleet is all sources with a name, and what of them this process works on.
type fleet struct {
	app     *App
	log     *slog.Logger
	members *members
	opening chan struct{}
	hangup  chan struct{}

	mu      sync.Mutex
	sources []config.Source
	work    map[string]*sourceWork // what this process works on, or lets go of
	knocks  map[string]*knocking   // of sources of other processes
	ids     map[uuid.UUID]string   // names by identity, of what is open here
	// commander sends the desk's commands to them; nil without a desk.
	commander *commander
	refused   string // why the settings were not taken; empty if they were
}

// knocking is what this process found out about a source of another process.
type knocking struct {
	owner   uint32
	next    time.Time
	inVain  int
	adopted bool
}

// makeFleet prepares the work on sources with a name.
func (a *App) makeFleet(context.Context) error {
	log := a.options.Logger.With("component", "sources")
	f := &fleet{app: a, log: log, members: newMembers(log), opening: make(chan struct{}, openAtOnce), hangup: make(chan struct{}, 1),
		sources: a.options.Config.Sources, work: map[string]*sourceWork{}, knocks: map[string]*knocking{}, ids: map[uuid.UUID]string{}}
	if err := a.options.Registry.Register(f); err != nil {
		return err
	}
	a.fleet = f
	if err := f.makeCommander(); err != nil {
		return err
	}
	limit := a.options.Config.Outbox.PublishTimeout + config.SettleTime + time.Second
	a.parts = append(a.parts, part{name: "sources", limit: limit, run: f.run})
	return nil
}

// Reload has the settings read again at once, where the options say how.
func (a *App) Reload() {
	if a.fleet == nil {
		return
	}
	select {
	case a.fleet.hangup <- struct{}{}:
	default: // they will be
	}
}

// run works until ctx ends and everything that it began has ended.
func (f *fleet) run(ctx context.Context) error {
	if id, err := f.mainIdentity(ctx); err == nil {
		f.ids[id] = config.MainSource
	}
	var beside sync.WaitGroup
	beside.Go(func() { f.members.run(ctx, f.home) })
	beside.Go(func() { f.watchSettings(ctx) })
	if f.commander != nil {
		beside.Go(func() { f.commander.run(ctx) })
	}
	loop.Every(ctx, fleetPause, f.pass)
	beside.Wait()
	f.mu.Lock()
	work := slices.Collect(maps.Values(f.work))
	f.mu.Unlock()
	for _, w := range work {
		w.stop()
	}
	for _, w := range work {
		<-w.done
	}
	return nil
}

// mainIdentity is the identity of the database of database.url: a source must not lead to it as well.
func (f *fleet) mainIdentity(ctx context.Context) (id uuid.UUID, err error) {
	if !f.app.desk() {
		return id, errors.New("there is none")
	}
	return f.app.identity(ctx)
}

// identity is that of the database of database.url, and of the desk there.
func (a *App) identity(ctx context.Context) (id uuid.UUID, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	err = a.service.QueryRow(ctx, "select source_uuid from postrider.outbox_source").Scan(&id)
	return id, err
}

// home is the database in which processes see one another.
func (f *fleet) home() (config.Database, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case len(f.sources) == 0:
		return config.Database{}, false
	case f.app.desk():
		return f.app.options.Config.Database, true
	}
	return f.sources[0].Database, true // they are in the order of their names
}

// pass begins the work on sources that this process should lead, and ends the work on others.
func (f *fleet) pass(ctx context.Context) {
	processes, away := f.members.list()
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := map[string]*config.Source{}
	names := make([]string, len(f.sources))
	for i := range f.sources {
		names[i] = f.sources[i].Name
		wanted[names[i]] = &f.sources[i]
	}
	owners := assign(names, processes)
	for name, w := range f.work {
		select {
		case <-w.done:
			delete(f.work, name)
			continue
		default:
		}
		if s := wanted[name]; s == nil || !s.Same(w.source) || !f.leads(name, owners[name]) {
			w.stop()
		}
	}
	for name, s := range wanted {
		if f.leads(name, owners[name]) {
			if f.work[name] == nil && ctx.Err() == nil {
				f.work[name] = f.begin(ctx, *s)
			}
			continue
		}
		f.knockIfDue(ctx, *s, !away.IsZero())
	}
	maps.DeleteFunc(f.knocks, func(name string, _ *knocking) bool { return wanted[name] == nil })
}

// leads reports whether this process should lead a source that owner should lead by the list of processes. It also leads a
// source that it found without a leader, until the source has another owner. Call it with mu held.
func (f *fleet) leads(name string, owner uint32) bool {
	k := f.knocks[name]
	if k == nil || k.owner != owner {
		k = &knocking{owner: owner, next: time.Now().Add(spread(knockPause))}
		f.knocks[name] = k
	}
	return owner == f.members.self || k.adopted
}

// spread is a pause of this length on average, which differs by up to a half.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// knockIfDue looks whether a source of another process is led, if it is time. Call it with mu held.
func (f *fleet) knockIfDue(ctx context.Context, s config.Source, homeless bool) {
	k, pause := f.knocks[s.Name], spread(knockPause)
	if homeless {
		pause = spread(knockHomeless)
		if soon := time.Now().Add(knockHomeless * 3 / 2); k.next.After(soon) {
			k.next = time.Now().Add(pause)
		}
	}
	if time.Now().Before(k.next) {
		return
	}
	k.next = time.Now().Add(pause)
	go func() {
		led, err := f.isLed(ctx, s)
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil || led {
			k.inVain = 0
			return
		}
		if k.inVain++; k.inVain >= knocksInVain && !k.adopted {
			k.adopted = true
			f.log.Warn("no process leads the source, so this one does", "source", s.Name)
		}
	}()
}

// isLed asks the database of a source whether a relay leads. It keeps no connection.
func (f *fleet) isLed(ctx context.Context, s config.Source) (led bool, err error) {
	select {
	case f.opening <- struct{}{}:
		defer func() { <-f.opening }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	conn, err := Connect(ctx, s.Database)
	if err != nil {
		return false, err
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), memberLimit)
	defer cancel()
	defer conn.Close(bounded) //nolint:errcheck // nothing was changed
	err = conn.QueryRow(bounded, "select leads from postrider.outbox_leader").Scan(&led)
	return led, err
}

// watchSettings takes the sources of the settings when they change, until ctx ends.
func (f *fleet) watchSettings(ctx context.Context) {
	read := f.app.options.Reload
	if read == nil {
		return
	}
	var before *config.Config
	tick := time.NewTicker(reloadPause)
	defer tick.Stop()
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-f.hangup:
			asked = true
		case <-tick.C:
		}
		c, err := read()
		if err != nil {
			f.refuse(err, asked)
			before = nil
			continue
		}
		if asked || before != nil && sameSources(before.Sources, c.Sources) {
			f.take(c)
		}
		before = &c
	}
}

func sameSources(a, b []config.Source) bool { return slices.EqualFunc(a, b, config.Source.Same) }

// refuse notes that settings are wrong. Nothing changes.
func (f *fleet) refuse(err error, asked bool) {
	f.mu.Lock()
	known := f.refused == err.Error()
	f.refused = err.Error()
	f.mu.Unlock()
	if !known || asked {
		f.log.Error("the settings are wrong, and nothing changes until they are right", "mistakes", strings.Split(err.Error(), "\n"))
	}
}

// take makes the sources those of the settings.
func (f *fleet) take(c config.Config) {
	beside := f.app.options.Config.ChangedBeside(c)
	notice := ""
	if len(beside) > 0 {
		notice = "these settings have changed and count after a restart: " + strings.Join(beside, ", ")
	}
	f.mu.Lock()
	same, known, right := sameSources(f.sources, c.Sources), f.refused == notice, f.refused != "" && notice == ""
	before := f.sources
	f.sources, f.refused = c.Sources, notice
	f.mu.Unlock()
	if notice != "" && !known {
		f.log.Warn(notice)
	}
	if right {
		f.log.Info("the settings are right again, and count")
	}
	if same {
		return
	}
	settings := f.app.options.Config
	settings.Sources = c.Sources
	f.app.knowOwners(settings)
	had := map[string]config.Source{}
	for _, s := range before {
		had[s.Name] = s
	}
	var came, changed []string
	for _, s := range c.Sources {
		if old, known := had[s.Name]; !known {
			came = append(came, s.Name)
		} else if !old.Same(s) {
			changed = append(changed, s.Name)
		}
		delete(had, s.Name)
	}
	f.log.Info("the sources have changed", "came", came, "changed", changed, "gone", slices.Sorted(maps.Keys(had)))
}

// ready is nil unless each source that this process should lead is refused.
func (f *fleet) ready(context.Context) error {
	var all []string
	for _, s := range f.Statuses() {
		switch s.State {
		case SourceRefused:
			all = append(all, s.Name+" ("+s.Reason+")")
		case SourceElsewhere:
		default:
			return nil
		}
	}
	if len(all) > 0 {
		return fmt.Errorf("no source can be carried: %s", strings.Join(all, ", "))
	}
	return nil
}

// The metrics of the fleet.
var (
	sourcesDesc = prometheus.NewDesc("postrider_sources",
		"Sources with a name, by what this process does with them: leading, standby (another session leads), opening, refused, asleep, elsewhere (of another process).", []string{"state"}, nil)
	sourceRefusedDesc = prometheus.NewDesc("postrider_source_refused",
		"1 while this process cannot carry the source, by the reason in a word; no series otherwise.", []string{"source", "reason"}, nil)
	sourceOtherDeskDesc = prometheus.NewDesc("postrider_source_other_desk",
		"1 while the source obeys another desk than that of this process, so that commands of this one wait; no series otherwise.", []string{"source"}, nil)
	sourcesRefusedDesc = prometheus.NewDesc("postrider_sources_settings_refused",
		"1 while the settings on the disk are wrong or need a restart, so that this process goes on with older ones, otherwise 0.", nil, nil)
)

// Describe implements prometheus.Collector.
func (f *fleet) Describe(to chan<- *prometheus.Desc) {
	to <- sourcesDesc
	to <- sourceRefusedDesc
	to <- sourceOtherDeskDesc
	to <- sourcesRefusedDesc
}

// Collect implements prometheus.Collector.
func (f *fleet) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	states := map[SourceState]int{}
	for _, s := range f.Statuses() {
		states[s.State]++
		if s.State == SourceRefused {
			gauge(sourceRefusedDesc, 1, s.Name, s.Reason)
		}
		if s.OtherDesk != "" {
			gauge(sourceOtherDeskDesc, 1, s.Name)
		}
	}
	for _, state := range SourceStates() {
		gauge(sourcesDesc, float64(states[state]), string(state))
	}
	f.mu.Lock()
	refused := f.refused != ""
	f.mu.Unlock()
	n := 0.0
	if refused {
		n = 1
	}
	gauge(sourcesRefusedDesc, n)
}
