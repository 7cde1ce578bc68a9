package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/relay"
)

// channel is where writers notify; see the default of outbox_event.created_at.
const channel = "postrider_outbox"

// disarmed is the payload that tells relays that writers ring no longer. That of a ring is empty, that of a
// test a token.
const disarmed = "disarmed"

const (
	// lease is how long writers ring after they were asked to; renewed after two thirds. What a relay that
	// died leaves behind ends with it.
	lease = 15 * time.Second
	// giveWay is how long an idle relay does not ask writers to ring after another one was busy. It would
	// hear what the other one is fetching already.
	giveWay = time.Second
)

// DoorbellOptions are the settings of a Doorbell.
type DoorbellOptions struct {
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Password is that of Options: asked for each connection that listens. Defaults to nil.
	Password func() (string, error)

	patience  time.Duration // with a notification that was sent
	lookAgain time.Duration // whether notifications arrive after all
	checkup   time.Duration // of a connection on which nothing is heard
}

// Doorbell implements relay.Doorbell by NOTIFY: the default of outbox_event.created_at notifies while the sequence
// outbox_doorbell says so.
type Doorbell struct {
	pool sessions
	o    DoorbellOptions
	rung chan struct{}

	mu    sync.Mutex
	alive bool
	until time.Time // writers ring, by this clock
	mark  int64     // of the last time this relay was busy
	said  string    // the state that was logged last
}

var _ relay.Doorbell = (*Doorbell)(nil)

// NewDoorbell returns a doorbell on a pool that NewPool opened. It listens on a connection of its own.
func NewDoorbell(pool *pgxpool.Pool, o DoorbellOptions) *Doorbell {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With("component", "doorbell")
	if o.patience == 0 {
		o.patience = 5 * time.Second
	}
	if o.lookAgain == 0 {
		o.lookAgain = 5 * time.Minute
	}
	if o.checkup == 0 {
		o.checkup = 30 * time.Second
	}
	return &Doorbell{pool: sessions{pool}, o: o, rung: make(chan struct{}, 1)}
}

// Rung implements relay.Doorbell.
func (d *Doorbell) Rung() <-chan struct{} { return d.rung }

func (d *Doorbell) ring() {
	select {
	case d.rung <- struct{}{}:
	default: // one is waiting; whoever takes it sees all that is there
	}
}

// Alive implements relay.Doorbell.
func (d *Doorbell) Alive() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.alive
}

// Armed implements relay.Doorbell. It ends while there is still time to renew.
func (d *Doorbell) Armed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.alive && time.Until(d.until) > lease/3
}

// Arm implements relay.Doorbell.
func (d *Doorbell) Arm(ctx context.Context) bool {
	began := time.Now()
	d.mu.Lock()
	mark := d.mark
	d.mu.Unlock()
	var off string
	var outcome *string
	err := d.pool.QueryRow(ctx, armDoorbell, int64(lease/time.Second), mark, giveWay.Milliseconds()).Scan(&off, &outcome)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		d.say(slog.LevelWarn, "writers cannot be asked to ring, polling goes on; run postrider migrate roles if rights are missing", "err", err)
		return false
	case outcome != nil && *outcome == "two-phase":
		d.say(slog.LevelWarn, "writers are not asked to ring, because this server lets them prepare transactions (max_prepared_transactions) and one that notified cannot be prepared; polling goes on")
		return false
	case outcome == nil || *outcome != "armed":
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = began.Add(lease)
	return d.alive
}

// setAlive changes whether rings are known to arrive.
func (d *Doorbell) setAlive(alive bool) {
	d.mu.Lock()
	d.alive = alive
	if !alive {
		d.until = time.Time{}
	}
	d.mu.Unlock()
	if !alive {
		d.ring()
	}
}

// over notes that writers ring no longer.
func (d *Doorbell) over(mark int64) {
	d.mu.Lock()
	d.until = time.Time{}
	if mark != 0 {
		d.mark = mark
	}
	d.mu.Unlock()
	d.ring()
}

// say logs a state when it differs from the one logged last.
func (d *Doorbell) say(level slog.Level, state string, args ...any) {
	what := state
	for _, a := range args {
		if err, is := a.(error); is {
			what += sameEachTime(err)
		}
	}
	d.mu.Lock()
	new := d.said != what
	d.said = what
	d.mu.Unlock()
	if new {
		d.o.Logger.Log(context.Background(), level, state, args...)
	}
}

// sameEachTime is what of an error is the same when it is met again: addresses of connections are not.
func sameEachTime(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
