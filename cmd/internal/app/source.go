package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// SourceState is what a process does with a source.
type SourceState string

const (
	// SourceLeading: it leads.
	SourceLeading SourceState = "leading"
	// SourceStandby: it should lead, and another session does.
	SourceStandby SourceState = "standby"
	// SourceOpening: it has begun to connect.
	SourceOpening SourceState = "opening"
	// SourceRefused: it cannot carry the source; the reason says why.
	SourceRefused SourceState = "refused"
	// SourceAsleep: it has looked, and looks again when sleep is over.
	SourceAsleep SourceState = "asleep"
	// SourceElsewhere: another process should lead it.
	SourceElsewhere SourceState = "elsewhere"
)

// SourceStates returns every state.
func SourceStates() []SourceState {
	return []SourceState{SourceLeading, SourceStandby, SourceOpening, SourceRefused, SourceAsleep, SourceElsewhere}
}

// SourceStatus is what a process does with one source.
type SourceStatus struct {
	Name  string
	State SourceState
	// Reason is why it is refused, in a word; Error says it in full. Empty otherwise.
	Reason, Error string
	// OtherDesk is the desk that it obeys, where that is another one than that of this process; empty otherwise, and without a desk.
	OtherDesk string
}

const (
	// openLimit bounds the questions to a database before its outbox is carried.
	openLimit = 20 * time.Second
	// refusedFirst and refusedLast bound the pauses before a source that was refused is tried again.
	refusedFirst = time.Second
	refusedLast  = 30 * time.Second
	// cleanedAtOnce is how many rows retention removes at most when a source that sleeps wakes up.
	cleanedAtOnce = 10_000
)

// sourceWork is what this process does with one source, until it is stopped.
type sourceWork struct {
	fleet  *fleet
	source config.Source
	log    *slog.Logger
	stop   context.CancelFunc
	done   chan struct{}
	// commands says that the desk has commands for it; connected is whether they can be sent.
	commands  chan struct{}
	connected atomic.Bool

	mu      sync.Mutex
	state   SourceState
	failing map[string]error // by loop of the relay, and "" for what keeps the source from being opened
	said    string           // the reason that was logged last
	// otherDesk is the desk that the source obeys, where that is another one than that of this process.
	otherDesk string
}

// begin begins the work on a source. It goes on when ctx ends, until it is stopped: then it finishes what it has in hand.
func (f *fleet) begin(ctx context.Context, s config.Source) *sourceWork {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &sourceWork{fleet: f, source: s, log: f.log.With("source", s.Name), stop: stop, done: make(chan struct{}), state: SourceOpening,
		commands: make(chan struct{}, 1), failing: map[string]error{}}
	go func() {
		defer close(w.done)
		defer stop()
		w.run(ctx)
	}()
	return w
}

// run carries the source until ctx ends. What keeps it from that is tried again.
func (w *sourceWork) run(ctx context.Context) {
	pause := refusedFirst
	for ctx.Err() == nil {
		opened, err := w.carry(ctx)
		if ctx.Err() != nil {
			return
		}
		if opened {
			pause = refusedFirst
		}
		w.set(SourceOpening)
		w.Worked("", err)
		_ = loop.Sleep(ctx, spread(pause))
		pause = min(2*pause, refusedLast)
	}
}

// carry opens the source and carries its outbox. opened says whether it came so far.
func (w *sourceWork) carry(ctx context.Context) (opened bool, err error) {
	if w.source.Sleep > 0 {
		return w.carryNow(ctx)
	}
	k, release, err := w.open(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	w.opened(SourceStandby)
	carrying, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var beside sync.WaitGroup
	beside.Go(func() { w.prune(carrying, k) })
	beside.Go(func() { stop(w.command(carrying, k)) })
	err = k.engine.Run(carrying)
	stop(nil)
	beside.Wait()
	if cause := context.Cause(carrying); ctx.Err() == nil && isStopped(cause) {
		err = cause
	}
	return true, err
}

// carryNow does what there is to do, lets go of the database, and sleeps. A source whose database sleeps is not kept awake.
func (w *sourceWork) carryNow(ctx context.Context) (opened bool, err error) {
	for {
		if err := w.wake(ctx); err != nil {
			return opened, err
		}
		opened = true
		if err := loop.Sleep(ctx, w.source.Sleep); err != nil {
			return opened, nil
		}
	}
}

func (w *sourceWork) wake(ctx context.Context) error {
	k, release, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer release()
	defer w.set(SourceAsleep)
	w.opened(SourceStandby)
	if w.fleet.commander != nil {
		if err := w.commandNow(ctx, k); err != nil && ctx.Err() == nil {
			w.log.Warn("commands did not reach the source; they are sent when it wakes up again", "err", err)
		}
	}
	for _, act := range []func(context.Context, relay.ActionOptions) (relay.ActionResult, error){k.engine.ProcessPending, k.engine.ProcessRetries} {
		if _, err := act(ctx, relay.ActionOptions{}); err != nil {
			return err
		}
	}
	_, err = k.engine.Cleanup(ctx, relay.CleanupOptions{MaxRows: cleanedAtOnce})
	return err
}

// prune removes old rows of the audit log of a database that has no desk of its own.
func (w *sourceWork) prune(ctx context.Context, k *carrier) {
	keep := days(w.fleet.app.options.Config.DLQ.AuditRetentionDays)
	audit := access.NewStore(k.pool)
	loop.AfterEvery(ctx, prunePause, func(ctx context.Context) {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if _, more, err = audit.PurgeAudit(ctx, keep, 5000); err != nil && ctx.Err() == nil {
				w.log.Warn("old rows of the audit log were not removed; this is tried again", "in", prunePause.String(), "err", err)
				return
			}
		}
	})
}

// open proves that the database is the source of this name, and prepares what carries its outbox.
func (w *sourceWork) open(ctx context.Context) (_ *carrier, release func(), err error) {
	f := w.fleet
	select {
	case f.opening <- struct{}{}:
		defer func() { <-f.opening }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	settings := f.app.options.Config.Of(w.source)
	parts, err := prepareSource(ctx, settings.Database, w.log)
	if err != nil {
		return nil, nil, err
	}
	if !slices.Contains(parts, migrations.PartOutbox) {
		return nil, nil, fmt.Errorf("%w: postrider migrate up --only outbox installs it", errNoOutbox)
	}
	id, err := w.identify(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := f.claim(id, w.source.Name); err != nil {
		return nil, nil, err
	}
	k, err := f.app.newCarrier(context.WithoutCancel(ctx), settings, &w.source, w)
	if err != nil {
		f.giveBack(id)
		return nil, nil, err
	}
	release = func() { k.close(); f.giveBack(id) }
	if err := w.confirm(ctx, k.pool); err != nil {
		release()
		return nil, nil, err
	}
	return k, release, nil
}

const (
	// confirmPause is how often is looked on average whether the database of a source was set back.
	confirmPause = 15 * time.Second
	// confirmLimit bounds such a look. A source is carried, too, when its desk does not answer.
	confirmLimit = 2 * time.Second
)

// confirm returns the *dlq.StoppedError of a source that is stopped, because its database or that of the desk was set back.
// Without a desk, and where one of the two does not answer, it is not known.
func (w *sourceWork) confirm(ctx context.Context, database *pgxpool.Pool) error {
	c := w.fleet.commander
	if c == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, confirmLimit)
	defer cancel()
	desk, err := c.identity(bounded)
	if err == nil {
		var other string
		if other, err = c.redriver.Confirm(bounded, desk, w.source.Name, database); err == nil {
			w.noteDesk(other)
		}
	}
	if err != nil && !isStopped(err) {
		if ctx.Err() == nil {
			w.log.Debug("it is not known whether the source or the desk was set back", "err", err)
		}
		return nil
	}
	return err
}

// noteDesk notes the other desk that the source obeys; empty for none.
func (w *sourceWork) noteDesk(desk string) {
	w.mu.Lock()
	was := w.otherDesk
	w.otherDesk = desk
	w.mu.Unlock()
	switch {
	case desk != "" && was == "":
		w.log.Warn("the source obeys another desk: its events are carried, and commands of this desk wait", "desk", desk)
	case desk == "" && was != "":
		w.log.Info("the source obeys no other desk any more")
	}
}

func isStopped(err error) bool {
	_, stopped := errors.AsType[*dlq.StoppedError](err)
	return stopped
}

// identify writes the name of the source into its database, where that has none yet, and returns the identity.
func (w *sourceWork) identify(ctx context.Context) (id uuid.UUID, err error) {
	conn, err := Connect(ctx, w.source.Database)
	if err != nil {
		return id, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is in hand
	var place, is *string
	err = conn.QueryRow(ctx, "select s.source_uuid, s.place, postrider.outbox_place() from postrider.outbox_name_source($1) s", w.source.Name).Scan(&id, &place, &is)
	if err == nil {
		err = copied(w.source.Name, place, is)
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "55000" { // object_not_in_prerequisite_state
		err = fmt.Errorf("%w: %w", errOtherName, err)
	}
	return id, err
}

// copied is the error of a database that is not the one that was named.
func copied(source string, named, is *string) error {
	if named == nil || is == nil || *named == *is {
		return nil
	}
	return fmt.Errorf("%w: the database was named %s as %s, and this is %s. If it was moved and the old one will not come back, run `postrider sources rejoin %s`; if it is a copy, give it a name of its own in the settings and run `postrider sources rejoin NAME --new-identity`",
		errCopy, source, *named, *is, source)
}

// errNoOutbox: the database has no outbox. errCopy: two names lead to one outbox, or to copies of one. errOtherName: the
// database is another source.
var (
	errOtherName = errors.New("the source has another name")
	errNoOutbox  = errors.New("the database has no outbox")
	errCopy      = errors.New("two sources have one identity")
)

// claim notes which source has an identity. One identity with two names is one database, or a copy of one.
func (f *fleet) claim(id uuid.UUID, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if other, taken := f.ids[id]; taken {
		return fmt.Errorf("%w: %s and %s are the outbox %s; take one of them out of the settings, or if one database is a copy of the other, give the copy a name that no source had before, and run `postrider sources rejoin NAME --new-identity`",
			errCopy, other, name, id)
	}
	f.ids[id] = name
	return nil
}

func (f *fleet) giveBack(id uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ids, id)
}

func (w *sourceWork) set(state SourceState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
}

// opened says that the database is one that can be carried.
func (w *sourceWork) opened(state SourceState) {
	w.set(state)
	w.Worked("", nil)
}

// Leads implements relay.Observer.
func (w *sourceWork) Leads(leads bool) {
	if !leads {
		w.set(SourceStandby)
		return
	}
	w.set(SourceLeading)
	w.Worked("lead", nil)
}

// Worked implements relay.Observer.
func (w *sourceWork) Worked(name string, err error) {
	w.mu.Lock()
	if err == nil {
		delete(w.failing, name)
	} else {
		w.failing[name] = err
	}
	reason, text := w.reason()
	new := reason != w.said
	w.said = reason
	w.mu.Unlock()
	switch {
	case new && reason != "":
		w.log.Error("the source cannot be carried; this is tried again", "reason", reason, "err", text)
	case new:
		w.log.Info("the source can be carried")
	}
}

// reason is why the source is refused, in a word and in full. Call it with mu held.
func (w *sourceWork) reason() (word, text string) {
	for _, name := range slices.Sorted(maps.Keys(w.failing)) { // what keeps it from being opened comes first
		return reasonOf(w.failing[name]), obs.OneLine(w.failing[name].Error())
	}
	return "", ""
}

func (w *sourceWork) status() SourceStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := SourceStatus{Name: w.source.Name, State: w.state, OtherDesk: w.otherDesk}
	if s.Reason, s.Error = w.reason(); s.Reason != "" {
		s.State = SourceRefused
	}
	return s
}

// Statuses says what this process does with each source, in the order of names.
func (f *fleet) Statuses() []SourceStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]SourceStatus, len(f.sources))
	for i, s := range f.sources {
		all[i] = SourceStatus{Name: s.Name, State: SourceElsewhere}
		if w := f.work[s.Name]; w != nil {
			all[i] = w.status()
		}
	}
	return all
}

// The reasons why a source is refused.
const (
	reasonAway        = "away"
	reasonSlow        = "slow"
	reasonFull        = "full"
	reasonReadOnly    = "read_only"
	reasonLogin       = "login"
	reasonRights      = "rights"
	reasonConnections = "connections"
	reasonNoDatabase  = "no_database"
	reasonSchema      = "schema"
	reasonVersion     = "version"
	// Also the reasons of dlq.StoppedError.
	reasonName    = "name"
	reasonCopy    = "copy"
	reasonRewound = "rewound"
	reasonBrokers = "brokers"
	reasonOther   = "error"
)

// byCode are the reasons that an SQLSTATE tells.
var byCode = map[string]string{
	"28P01": reasonLogin, "28000": reasonLogin, // invalid_password, invalid_authorization_specification
	"3D000": reasonNoDatabase,                // invalid_catalog_name
	"25006": reasonReadOnly,                  // read_only_sql_transaction
	"53100": reasonFull,                      // disk_full
	"53300": reasonConnections,               // too_many_connections
	"42501": reasonRights,                    // insufficient_privilege
	"57014": reasonSlow, "55P03": reasonSlow, // query_canceled, lock_not_available
	"42P01": reasonSchema, "42883": reasonSchema, "42703": reasonSchema, "3F000": reasonSchema, // undefined_table, _function, _column, invalid_schema_name
	"57P01": reasonAway, "57P02": reasonAway, "57P03": reasonAway, // admin_shutdown, crash_shutdown, cannot_connect_now
}

// reasonOf says in a word why a source is refused.
func reasonOf(err error) string {
	for _, c := range []struct {
		is     error
		reason string
	}{
		{errCopy, reasonCopy}, {errOtherName, reasonName}, {errNoOutbox, reasonSchema}, {migrations.ErrBehind, reasonSchema}, {migrations.ErrChanged, reasonSchema},
		{postgres.ErrReadOnlyServer, reasonReadOnly}, {postgres.ErrRewound, reasonRewound}, {errLacksRights, reasonRights}, {config.ErrPassword, reasonLogin}, {relay.ErrNoBrokers, reasonBrokers},
	} {
		if errors.Is(err, c.is) {
			return c.reason
		}
	}
	if stopped, is := errors.AsType[*dlq.StoppedError](err); is {
		return string(stopped.Reason)
	}
	if _, unfit := errors.AsType[*unfitError](err); unfit {
		return reasonVersion
	}
	if lost, ok := errors.AsType[*relay.StoreError](err); ok && lost.Code == "CONNECTION_LOST" {
		return reasonAway
	}
	_, unreached := errors.AsType[*pgconn.ConnectError](err)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		if unreached && refused.Code == "55000" { // the database accepts no connections
			return reasonAway
		}
		if reason := byCode[refused.Code]; reason != "" {
			return reason
		}
		if strings.HasPrefix(refused.Code, "08") { // connection_exception
			return reasonAway
		}
		return reasonOther
	}
	var network net.Error
	switch {
	case unreached, errors.As(err, &network) && !network.Timeout():
		return reasonAway
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network):
		return reasonSlow
	}
	return reasonOther
}
