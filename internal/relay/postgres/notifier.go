package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/relay"
)

// channel is where writers notify; see the default of outbox_event.created_at.
const channel = "postrider_outbox"

// disarmed is the payload that tells relays that writers notify no longer. A notification that wakes has an empty
// payload, a test has a token.
const disarmed = "disarmed"

const (
	// lease is how long writers notify after they were asked to; renewed after two thirds. A request of
	// a relay that died ends with the lease.
	lease = 15 * time.Second
	// giveWay is how long an idle relay does not ask writers to notify after another one was busy. It would
	// hear what the other one is fetching already.
	giveWay = time.Second
)

// NotifierOptions are the settings of a Notifier.
type NotifierOptions struct {
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Password is that of Options: asked for each connection that listens. Defaults to nil.
	Password func() (string, error)

	patience  time.Duration // with a notification that was sent
	lookAgain time.Duration // whether notifications arrive after all
	checkup   time.Duration // of a connection on which nothing is heard
}

// Notifier implements relay.Notifier by NOTIFY: the default of outbox_event.created_at notifies while the sequence
// outbox_notifier says so.
type Notifier struct {
	pool     sessions
	o        NotifierOptions
	notified chan struct{}

	mu    sync.Mutex
	alive bool
	until time.Time // writers notify, by this clock
	mark  int64     // of the last time this relay was busy
	said  string    // the state that was logged last
}

var _ relay.Notifier = (*Notifier)(nil)

// NewNotifier returns a notifier on a pool that NewPool opened. It listens on a connection of its own.
func NewNotifier(pool *pgxpool.Pool, o NotifierOptions) *Notifier {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With("component", "notifier")
	if o.patience == 0 {
		o.patience = 5 * time.Second
	}
	if o.lookAgain == 0 {
		o.lookAgain = 5 * time.Minute
	}
	if o.checkup == 0 {
		o.checkup = 30 * time.Second
	}
	return &Notifier{pool: sessions{pool}, o: o, notified: make(chan struct{}, 1)}
}

// Notified implements relay.Notifier.
func (n *Notifier) Notified() <-chan struct{} { return n.notified }

func (n *Notifier) notify() {
	select {
	case n.notified <- struct{}{}:
	default: // a notification is waiting; when the relay takes it, the relay sees all events that are there
	}
}

// Alive implements relay.Notifier.
func (n *Notifier) Alive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.alive
}

// Armed implements relay.Notifier. It ends while there is still time to renew.
func (n *Notifier) Armed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.alive && time.Until(n.until) > lease/3
}

// Arm implements relay.Notifier.
func (n *Notifier) Arm(ctx context.Context) bool {
	began := time.Now()
	n.mu.Lock()
	mark := n.mark
	n.mu.Unlock()
	var off string
	var outcome *string
	err := n.pool.QueryRow(ctx, armNotifier, int64(lease/time.Second), mark, giveWay.Milliseconds()).Scan(&off, &outcome)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		n.say(slog.LevelWarn, "writers cannot be asked to notify, polling goes on; run postrider migrate roles if rights are missing", "err", err)
		return false
	case outcome != nil && *outcome == "two-phase":
		n.say(slog.LevelWarn, "writers are not asked to notify, because this server lets them prepare transactions (max_prepared_transactions) and one that notified cannot be prepared; polling goes on")
		return false
	case outcome == nil || *outcome != "armed":
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.until = began.Add(lease)
	return n.alive
}

// setAlive changes whether notifications are known to arrive.
func (n *Notifier) setAlive(alive bool) {
	n.mu.Lock()
	n.alive = alive
	if !alive {
		n.until = time.Time{}
	}
	n.mu.Unlock()
	if !alive {
		n.notify()
	}
}

// over notes that writers notify no longer.
func (n *Notifier) over(mark int64) {
	n.mu.Lock()
	n.until = time.Time{}
	if mark != 0 {
		n.mark = mark
	}
	n.mu.Unlock()
	n.notify()
}

// say logs a state when it differs from the one logged last.
func (n *Notifier) say(level slog.Level, state string, args ...any) {
	what := state
	for _, a := range args {
		if err, is := a.(error); is {
			what += errorKey(err)
		}
	}
	n.mu.Lock()
	new := n.said != what
	n.said = what
	n.mu.Unlock()
	if new {
		n.o.Logger.Log(context.Background(), level, state, args...)
	}
}

// errorKey is the part of an error that stays the same when it is met again; addresses of connections do not.
func errorKey(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
