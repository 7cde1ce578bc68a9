package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/cmd/internal/soak"
	"github.com/postrider/postrider/internal/loop"
)

const (
	// killedProcesses share the sources, which have killedRate events a second each.
	killedProcesses, killedRate = 3, 20
)

// killedSide is how a process of several is lost.
type killedSide struct {
	name string
	// homeAway: the database in which the processes see one another answers no more, from the kill on. cutOff: the process is not killed;
	// its links to PostgreSQL swallow everything, as when its machine is cut off.
	homeAway, cutOff bool
}

// killed loses one of several processes that share sources, again and again, and measures when each source moves again.
func killed(ctx context.Context, r *rig, b *broker, t *table) error {
	for _, side := range []killedSide{{name: "kill -9"}, {name: "kill -9, the home away", homeAway: true}, {name: "cut off", cutOff: true}} {
		if err := about(side.name, r.killedBy(ctx, b, t, side)); err != nil {
			return err
		}
	}
	t.note("%d times each. All move when the first event of the last source has arrived that was written after the process was lost: also those of the other processes count. The home is the database in which the processes see one another. A process that is cut off has links to PostgreSQL that swallow everything and close nothing; brokers it reaches.", r.o.takeovers)
	return nil
}

func (r *rig) killedBy(ctx context.Context, b *broker, t *table, side killedSide) (err error) {
	l, err := r.newLosing(ctx, side)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.end()) }()
	before, after := r.o.takeoverCalm, 2*r.o.takeoverCalm
	n := int(killedRate * (before + after).Seconds())
	loads, err := l.set.loads(ctx, b, 2, n*r.o.takeovers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endLoads(loads)) }()
	running := make([]*carrier, killedProcesses)
	stop := sync.OnceValue(func() error {
		var errs []error
		for _, k := range running {
			if k != nil {
				errs = append(errs, k.stop())
			}
		}
		return errors.Join(errs...)
	})
	defer func() { err = errors.Join(err, stop()) }()
	var all, moved, longest []float64
	for i := range r.o.takeovers {
		for p := range running {
			if running[p] == nil {
				if running[p], err = l.set.carryBy(b, l.desk, "relay,http", l.settings[p]); err != nil {
					return err
				}
			}
		}
		if err := l.set.awaitLed(ctx, running...); err != nil {
			return err
		}
		place := i % killedProcesses
		had, err := running[place].leads(ctx)
		if err != nil {
			return err
		}
		waits, late, err := loseOne(ctx, loads, func() error { return l.lose(running[place], place) }, i*n, n, before)
		if err == nil {
			err = l.mend(running[place], place)
		}
		if err != nil { // stop ends the process
			return fmt.Errorf("loss %d: %w", i+1, err)
		}
		running[place] = nil
		slices.Sort(waits)
		r.say("%s %d: it led %d of %d sources; the last moves after %.0f ms, longest event %.0f ms", side.name, i+1, had, r.o.killedSources, waits[len(waits)-1], late)
		all, moved, longest = append(all, waits[len(waits)-1]), append(moved, float64(had)), append(longest, late)
	}
	if err := stop(); err != nil {
		return err
	}
	var there contents
	for _, l := range loads {
		one, err := b.contents(ctx, n*r.o.takeovers, l.arrivals.writes.times, l.topic)
		if err != nil {
			return err
		}
		there = there.plus(one)
	}
	cells := []cell{{Name: "all move after ms", Runs: all}, {Name: "sources of the lost one", Runs: moved, Whole: true}, {Name: "longest event ms", Runs: longest}}
	t.add(b, side.name, fmt.Sprintf("%d processes, %d sources, %d/s each", killedProcesses, r.o.killedSources, killedRate), append(cells, contentCells([]contents{there})...)...)
	return nil
}

// losing is sources that processes share, and the links by which they are lost.
type losing struct {
	side     killedSide
	set      *sourceSet
	settings []string // of each process
	folders  []string // of these, where they are its own
	links    []*soak.Link
	home     *database // and its link, where it is a database of its own
	homeLink *soak.Link
	desk     string // its address by the link; empty for none
}

func (r *rig) newLosing(ctx context.Context, side killedSide) (l *losing, err error) {
	l = &losing{side: side}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.end())
		}
	}()
	if l.set, err = r.newSources(ctx, r.o.killedSources, ""); err != nil {
		return nil, err
	}
	for range killedProcesses {
		l.settings = append(l.settings, l.set.settings)
	}
	if side.homeAway {
		if l.home, err = r.newDatabase(ctx, fmt.Sprintf("bench_home_%d", r.stages.Add(1)), true); err != nil {
			return nil, err
		}
		if err := l.home.exec(ctx, "update postrider.outbox_source set source_uuid = gen_random_uuid()"); err != nil { // a copy, as the others are
			return nil, err
		}
		if l.homeLink, err = linkTo(l.home.url); err != nil {
			return nil, err
		}
		if l.desk, err = urlBy(l.home.url, l.homeLink.Addr()); err != nil {
			return nil, err
		}
	}
	if !side.cutOff {
		return l, nil
	}
	for p := range killedProcesses {
		link, err := linkTo(r.server.URL())
		if err != nil {
			return nil, err
		}
		l.links = append(l.links, link)
		folder, err := os.MkdirTemp("", "postrider-bench-sources-")
		if err != nil {
			return nil, err
		}
		l.folders = append(l.folders, folder)
		if l.settings[p], err = l.set.writeSettings(folder, link.Addr(), ""); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// linkTo opens a link to the server of a database.
func linkTo(address string) (*soak.Link, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	link, err := soak.NewLink()
	if err == nil {
		link.Aim(u.Host)
	}
	return link, err
}

var swallows = soak.Condition{NothingUp: true, NothingDown: true}

// lose loses a process.
func (l *losing) lose(k *carrier, place int) error {
	if l.side.cutOff {
		l.links[place].Set(swallows)
		return nil
	}
	if l.side.homeAway {
		l.homeLink.Set(swallows)
		l.homeLink.Cut()
	}
	return k.kill()
}

// mend makes all as it was before, but for the process, which is over.
func (l *losing) mend(k *carrier, place int) error {
	if l.side.homeAway {
		l.homeLink.Set(soak.Condition{})
	}
	if !l.side.cutOff {
		return nil
	}
	err := k.kill()
	l.links[place].Cut() // what waited in them must not arrive
	l.links[place].Set(soak.Condition{})
	return err
}

func (l *losing) end() error {
	var errs []error
	for _, link := range append(l.links, l.homeLink) {
		if link != nil {
			link.Close()
		}
	}
	for _, folder := range l.folders {
		errs = append(errs, os.RemoveAll(folder))
	}
	if l.home != nil {
		l.home.drop()
	}
	if l.set != nil {
		errs = append(errs, l.set.drop())
	}
	return errors.Join(errs...)
}

// loseOne loses a process in the middle of a load, and returns for each source in milliseconds when it moved again, and the
// longest that an event took.
func loseOne(ctx context.Context, loads []*sourceLoad, lose func() error, first, n int, before time.Duration) (waits []float64, longest float64, err error) {
	written := make(chan error, 1)
	go func() { written <- writeAll(ctx, loads, first, n, killedRate) }()
	err = loop.Sleep(ctx, before)
	at := make([]int64, len(loads)) // each has a clock of its own
	for i, l := range loads {
		at[i] = l.arrivals.writes.now()
	}
	if err := errors.Join(err, lose(), <-written); err != nil {
		return nil, 0, err
	}
	for i, l := range loads {
		next := int64(0)
		for seq := first; seq < first+n; seq++ {
			began, done := l.arrivals.writes.times(seq)
			seen := l.arrivals.seen[seq].Load()
			longest = max(longest, milliseconds(time.Duration(seen-done)))
			if began > at[i] && (next == 0 || seen < next) {
				next = seen
			}
		}
		if next == 0 {
			return nil, 0, errors.New("nothing was written after the process was lost: raise -takeover-calm")
		}
		waits = append(waits, milliseconds(time.Duration(next-at[i])))
	}
	return waits, longest, nil
}
