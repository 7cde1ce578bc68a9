package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/migrations"
)

const (
	// commandPause is how often is looked for commands that another process wrote, or that no person waits for, with one
	// statement for all sources.
	commandPause = time.Second
	// busyFirst and busyLast bound the pauses before a source whose relay has a key in work is asked again.
	busyFirst = 30 * time.Millisecond
	busyLast  = time.Second
	// followAtOnce is how many redrives are followed in one transaction.
	followAtOnce = 1000
)

// commander sends the desk's commands to the sources that this process carries, and follows what they redrive.
type commander struct {
	fleet    *fleet
	redriver *dlqpostgres.Redriver

	mu   sync.Mutex
	desk string // its identity, that of its own outbox; empty until it was read
}

// makeCommander prepares what sends commands, where this process has a desk.
func (f *fleet) makeCommander() error {
	a := f.app
	if !a.desk() || !a.installed(migrations.PartDesk) {
		return nil
	}
	c := &commander{fleet: f}
	if a.services != nil {
		c.redriver = a.services.Redriver
	} else {
		services, err := NewTracedServices(a.service, a.options.Config, a.options.TracerProvider)
		if err != nil {
			return err
		}
		c.redriver = services.Redriver
		c.redriver.KnowSources(a.ownersNow, a.namesNow)
	}
	c.redriver.OnCommands(c.wake)
	f.commander = c
	return nil
}

// wake has the sources asked that this process is connected to.
func (c *commander) wake(sources []string) {
	connected := c.fleet.connected()
	for _, name := range sources {
		if w := connected[name]; w != nil {
			w.wakeCommands()
		}
	}
}

// wakeCommands has the source asked.
func (w *sourceWork) wakeCommands() {
	select {
	case w.commands <- struct{}{}:
	default: // a look is already asked for
	}
}

// identity is how sources know the desk.
func (c *commander) identity(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.desk == "" {
		id, err := c.fleet.mainIdentity(ctx)
		if err != nil {
			return "", fmt.Errorf("read the identity of the desk: %w", err)
		}
		c.desk = id.String()
	}
	return c.desk, nil
}

// run looks for commands until ctx ends, and has the sources asked that have some.
func (c *commander) run(ctx context.Context) {
	said := saidOnce{log: c.fleet.log, what: "looking for commands to sources failed; this is tried again"}
	loop.Every(ctx, commandPause, func(ctx context.Context) { said.note(ctx, c.pass(ctx)) })
}

func (c *commander) pass(ctx context.Context) error {
	connected := c.fleet.connected()
	if len(connected) == 0 {
		return nil
	}
	due, err := c.redriver.SourcesDue(ctx, slices.Collect(maps.Keys(connected)))
	for _, name := range due {
		connected[name].wakeCommands()
	}
	return err
}

// saidOnce logs a failure when it begins or changes.
type saidOnce struct {
	log  *slog.Logger
	what string
	last string
}

func (s *saidOnce) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != s.last {
		s.log.Warn(s.what, "err", err)
	}
	s.last = text
}

// connected are the sources whose databases this process is connected to.
func (f *fleet) connected() map[string]*sourceWork {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]*sourceWork{}
	for name, w := range f.work {
		if w.connected.Load() {
			all[name] = w
		}
	}
	return all
}

// command sends commands to the source whenever there are some, until ctx ends. A source that does not obey is carried all the
// same; one that is stopped is an error.
func (w *sourceWork) command(ctx context.Context, k *carrier) error {
	if w.fleet.commander == nil {
		<-ctx.Done()
		return nil
	}
	w.connected.Store(true)
	defer w.connected.Store(false)
	said := saidOnce{log: w.log, what: "commands did not reach the source; they are sent again"}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-w.commands:
			err = w.commandNow(ctx, k)
		case <-time.After(spread(confirmPause)):
			err = w.confirm(ctx, k.pool)
		}
		if isStopped(err) {
			return err
		}
		said.note(ctx, err)
	}
}

// commandNow sends what there is to send, has the relay look at what the source did, and looks how the redrives of the source
// stand.
func (w *sourceWork) commandNow(ctx context.Context, k *carrier) error {
	c := w.fleet.commander
	desk, err := c.identity(ctx)
	if err != nil {
		return err
	}
	for pause := busyFirst; ; {
		sent, err := c.redriver.SendCommands(ctx, desk, w.source.Name, k.pool)
		if err != nil {
			return err
		}
		if sent.Answered > 0 {
			k.wake() // an event that is back in its place goes at once
			pause = busyFirst
			if sent.More || sent.Busy > 0 {
				continue
			}
		}
		if sent.Busy == 0 || pause > busyLast {
			break
		}
		if err := loop.Sleep(ctx, pause); err != nil {
			return err
		}
		pause *= 2
	}
	_, err = c.redriver.FollowSource(ctx, desk, w.source.Name, k.pool, followAtOnce, w.fleet.app.options.Config.DLQ.ResolveOnDelivery)
	return err
}
