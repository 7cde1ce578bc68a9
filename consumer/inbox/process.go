package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/retry"
)

// Options say how messages are processed.
type Options struct {
	// Group is the consumer group that handles: each group handles each message once. Required.
	Group string
	// Inbox is the table. Defaults to that in the first schema of the search path.
	Inbox Inbox
	// Isolation is the isolation level of the transactions. Defaults to the database's own, READ COMMITTED as a rule.
	Isolation sql.IsolationLevel
	// Retry says how often a transaction is tried, and after which pauses, if the database rolled it back because of
	// concurrent ones (40001, 40P01), or if its outcome is not known. Defaults to 5 attempts, 10 ms doubling to 1 s,
	// and up to 50 % added at random.
	Retry retry.Policy
	// CommitTimeout bounds a commit; after that the outcome of the commit is not known. The end of the caller's context
	// does not break a commit off. Defaults to 10s.
	CommitTimeout time.Duration
	// Metrics, if not nil, counts.
	Metrics *Metrics
}

func (o Options) withDefaults() (Options, error) {
	if o.Retry == (retry.Policy{}) {
		o.Retry = retry.Policy{MaxAttempts: 5, Base: 10 * time.Millisecond, Max: time.Second, Jitter: 0.5}
	}
	if o.CommitTimeout == 0 {
		o.CommitTimeout = 10 * time.Second
	}
	if err := o.Retry.Validate(); err != nil {
		return o, fmt.Errorf("%w option Retry: %w", ErrInvalid, err)
	}
	switch {
	case o.Group == "":
		return o, fmt.Errorf("%w option Group: it is empty; name the consumer group", ErrInvalid)
	case o.CommitTimeout < 0:
		return o, fmt.Errorf("%w option CommitTimeout: %v is negative", ErrInvalid, o.CommitTimeout)
	}
	switch o.Isolation {
	case sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable:
		return o, nil
	}
	return o, fmt.Errorf("%w option Isolation: %v; PostgreSQL has read committed, repeatable read and serializable", ErrInvalid, o.Isolation)
}

// Beginner begins transactions: a *pgxpool.Pool, or a *pgx.Conn.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Processor handles messages, each once, in transactions of a database. T is the transaction that handlers get. It is
// safe for concurrent use if its database is.
type Processor[T any] struct {
	options Options
	begin   func(ctx context.Context) (transaction[T], error)
}

// transaction is one try.
type transaction[T any] struct {
	tx       T
	ask      Querier
	commit   func(ctx context.Context) error
	rollback func(ctx context.Context) error
}

// New returns a processor on a pool of pgx. Errors wrap ErrInvalid.
func New(db Beginner, o Options) (*Processor[pgx.Tx], error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	options := pgx.TxOptions{IsoLevel: map[sql.IsolationLevel]pgx.TxIsoLevel{
		sql.LevelReadCommitted:  pgx.ReadCommitted,
		sql.LevelRepeatableRead: pgx.RepeatableRead,
		sql.LevelSerializable:   pgx.Serializable,
	}[o.Isolation]}
	return &Processor[pgx.Tx]{options: o, begin: func(ctx context.Context) (transaction[pgx.Tx], error) {
		tx, err := db.BeginTx(ctx, options)
		if err != nil {
			return transaction[pgx.Tx]{}, err
		}
		w := &watchedTx{Tx: tx}
		return transaction[pgx.Tx]{tx: w, ask: tx, commit: w.finish, rollback: tx.Rollback}, nil
	}}, nil
}

// watchedTx is the transaction of a handler, which is not supposed to end it.
type watchedTx struct {
	pgx.Tx
	ended bool
}

// Commit commits, and is noted.
func (w *watchedTx) Commit(ctx context.Context) error {
	w.ended = true
	return w.Tx.Commit(ctx)
}

// Rollback rolls back, and is noted.
func (w *watchedTx) Rollback(ctx context.Context) error {
	w.ended = true
	return w.Tx.Rollback(ctx)
}

// finish commits, unless the handler has ended the transaction.
func (w *watchedTx) finish(ctx context.Context) error {
	if w.ended { // and another transaction may have its connection by now
		return pgx.ErrTxClosed
	}
	if w.Tx.Conn().PgConn().TxStatus() == 'I' { // ended by a statement: a commit would succeed, and commit nothing
		_ = w.Tx.Rollback(ctx) // gives the connection back
		return pgx.ErrTxClosed
	}
	return w.Tx.Commit(ctx)
}

// NewSQL returns a processor on a database of database/sql, with any driver for PostgreSQL that takes $1 for an
// argument. Errors wrap ErrInvalid.
func NewSQL(db *sql.DB, o Options) (*Processor[*sql.Tx], error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Processor[*sql.Tx]{options: o, begin: func(ctx context.Context) (transaction[*sql.Tx], error) {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: o.Isolation})
		if err != nil {
			return transaction[*sql.Tx]{}, err
		}
		return transaction[*sql.Tx]{tx: tx, ask: SQL(tx),
			commit:   func(context.Context) error { return tx.Commit() }, // bounded by the context it began with
			rollback: func(context.Context) error { return tx.Rollback() },
		}, nil
	}}, nil
}

// Process handles the message with this id, unless it was handled before. It runs handle in a transaction that also
// notes the id, and commits. A nil error means that the message is handled: now, if first is true; otherwise by an
// earlier transaction, which after a lost answer to a commit may be one of this call.
//
// handle may run several times, each time in a transaction of its own. At most one of them is committed, so everything
// that handle does belongs into tx. handle must neither commit nor roll back (ErrTransactionEnded; through database/sql
// a rollback that is sent as a statement is not noticed). If handle returns an error, the transaction is rolled back
// and the error returned as it is; after a serialization failure or a deadlock handle runs again. A panic rolls back
// and goes on. ctx bounds all but the commit. Errors of the database wrap the driver's, and ErrUnknownOutcome if the
// outcome of the commit is not known.
func (p *Processor[T]) Process(ctx context.Context, id string, handle func(ctx context.Context, tx T) error) (first bool, err error) {
	n, err := p.ProcessEach(ctx, []string{id}, func(ctx context.Context, tx T, _ []int) error { return handle(ctx, tx) })
	return n == 1, err
}

// ProcessEach is Process for several messages in one transaction, which costs far less than one for each: all are
// handled, or none is. handle gets the indexes in ids of the new messages, in order; if none is new, it is not called.
// ProcessEach returns how many messages were handled.
func (p *Processor[T]) ProcessEach(ctx context.Context, ids []string, handle func(ctx context.Context, tx T, fresh []int) error) (int, error) {
	inDoubt := false
	for attempt := 1; ; attempt++ {
		fresh, why, err := p.try(ctx, ids, handle)
		if err == nil {
			p.options.Metrics.message(handled, fresh)
			p.options.Metrics.message(duplicate, len(ids)-fresh)
			return fresh, nil
		}
		inDoubt = (inDoubt && why == connection) || why == unknown
		if why != never && !p.options.Retry.Exhausted(attempt, 0) && loop.Sleep(ctx, p.options.Retry.Delay(attempt, rand.Float64())) == nil {
			p.options.Metrics.retry(why)
			continue
		}
		p.options.Metrics.message(failed, len(ids))
		if inDoubt {
			err = fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
		}
		return 0, err
	}
}

// try is one transaction. It returns how many messages it handled, or why it may be tried again.
func (p *Processor[T]) try(ctx context.Context, ids []string, handle func(context.Context, T, []int) error) (handledNow int, why reason, err error) {
	if err := ctx.Err(); err != nil { // AfterFunc would say so some time after the handler has begun
		return 0, whyAsk(ctx, err), because(ctx, fmt.Errorf("begin a transaction: %w", err))
	}
	// A commit is not broken off with ctx, and database/sql rolls back when the context of the transaction ends. So it
	// has one of its own, which ends with ctx until the commit begins.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	detach := context.AfterFunc(ctx, cancel)
	defer detach()

	t, err := p.begin(own)
	if err != nil {
		return 0, whyAsk(ctx, err), because(ctx, fmt.Errorf("begin a transaction: %w", err))
	}
	open := true
	defer func() { // also when the handler panics
		if open {
			p.rollback(ctx, t)
		}
	}()
	first, err := p.options.Inbox.OnceEach(own, t.ask, p.options.Group, ids)
	if err != nil {
		return 0, whyAsk(ctx, err), because(ctx, err)
	}
	var fresh []int
	for n, is := range first {
		if is {
			fresh = append(fresh, n)
		}
	}
	if len(fresh) == 0 {
		return 0, never, nil // nothing to commit
	}
	if err := handle(ctx, t.tx, fresh); err != nil {
		return 0, collided(err), err
	}
	if !detach() {
		return 0, never, because(ctx, errors.New("handled, but not committed"))
	}
	open = false
	timer := time.AfterFunc(p.options.CommitTimeout, cancel)
	defer timer.Stop()
	if err := ended(t.commit(own)); err != nil {
		return 0, whyCommit(err), fmt.Errorf("commit: %w", err)
	}
	return len(fresh), never, nil
}

// rollbackTimeout bounds a rollback; a connection that does not answer is given up.
const rollbackTimeout = 5 * time.Second

func (p *Processor[T]) rollback(ctx context.Context, t transaction[T]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = t.rollback(ctx) // nothing is committed either way: the server rolls back when a connection is lost
}

// because adds why ctx ended, if it did: the transaction's own context only knows that it was.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}
