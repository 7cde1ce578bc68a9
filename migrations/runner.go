package migrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Runner brings one database from version to version. It is used from one goroutine at a time,
// as its connection is; several runners, also in several processes, may work on one database
// and wait for each other.
type Runner struct {
	conn        *pgx.Conn
	migrations  []Migration
	lockTimeout time.Duration
	waiting     func(holder string)
	waited      bool
}

// Option changes a Runner.
type Option func(*Runner)

// WithLockTimeout bounds how long a statement of a migration waits for a lock that another
// transaction holds. While it waits, everything that comes later to the same table queues
// behind it, so a long wait is an outage; a migration that gives up has changed nothing and can
// be run again. 0 waits for ever. Defaults to 5 seconds.
func WithLockTimeout(d time.Duration) Option { return func(r *Runner) { r.lockTimeout = d } }

// WithWaiting is called once when another migrator has the lock, with a description of it, for
// a line in the log. Defaults to nothing.
func WithWaiting(f func(holder string)) Option { return func(r *Runner) { r.waiting = f } }

// New makes a Runner over a connection, which stays the caller's to close. Through a pooler in
// transaction mode it must be one that prepares no statements, such as with
// pgx.QueryExecModeCacheDescribe. The migrations are those of All or Load.
func New(conn *pgx.Conn, migrations []Migration, opts ...Option) *Runner {
	r := &Runner{conn: conn, migrations: migrations, lockTimeout: 5 * time.Second, waiting: func(string) {}}
	for _, opt := range opts {
		opt(r)
	}
	return r
}

// Applied is one migration that a call ran.
type Applied struct {
	Version   int
	Name      string
	Direction Direction
	Duration  time.Duration
}

// Up applies every migration that the database lacks. It returns what it applied, also when a
// later one failed: each is a transaction of its own and stays. A database that is ahead, or
// that was made by other migrations, is refused before anything is changed (ErrAhead,
// ErrChanged); a failing migration gives an *ApplyError.
func (r *Runner) Up(ctx context.Context) ([]Applied, error) {
	return r.run(ctx, func(int) (int, error) { return r.newest(), nil })
}

// To goes to a version, up or down; 0 is the empty database. It refuses and reports as Up does.
func (r *Runner) To(ctx context.Context, version int) ([]Applied, error) {
	if err := r.checkVersion(version); err != nil {
		return nil, err
	}
	return r.run(ctx, func(int) (int, error) { return version, nil })
}

// Down takes the last steps migrations back. More steps than there are applied migrations is an
// error, and nothing is changed.
func (r *Runner) Down(ctx context.Context, steps int) ([]Applied, error) {
	if steps < 1 {
		return nil, fmt.Errorf("migrations: down: %d steps asked for; give 1 or more", steps)
	}
	return r.run(ctx, func(current int) (int, error) {
		if steps > current {
			return 0, fmt.Errorf("migrations: down: %d steps asked for, but the database is at version %d", steps, current)
		}
		return current - steps, nil
	})
}

func (r *Runner) checkVersion(version int) error {
	if version < 0 || version > r.newest() {
		return fmt.Errorf("migrations: version %d does not exist; this binary has 0 to %d", version, r.newest())
	}
	return nil
}

// run asks for the version to go to and goes there, one transaction at a time. Each has the lock and
// reads and checks the history again: between two, another migrator may have done a part of the way.
func (r *Runner) run(ctx context.Context, target func(current int) (int, error)) (done []Applied, err error) {
	r.waited = false
	at, to := 0, -1
	for {
		var did *Applied
		did, at, to, err = r.turn(ctx, at, to, target)
		if err != nil {
			return done, err
		}
		if did == nil {
			return done, nil
		}
		done = append(done, *did)
	}
}

// turn makes one step from where the database is towards to; -1 asks target first. It returns the step, nil
// when there is none to make, and where that leads. at is where the last turn led.
func (r *Runner) turn(ctx context.Context, at, to int, target func(int) (int, error)) (*Applied, int, int, error) {
	tx, err := r.begin(ctx)
	if err != nil {
		return nil, at, to, err
	}
	open := true
	defer func() {
		if open {
			r.rollback(ctx, tx)
		}
	}()
	history, err := r.history(ctx)
	if err != nil {
		return nil, at, to, err
	}
	if err := r.compare(history); err != nil {
		return nil, at, to, err
	}
	current := len(history)
	if to < 0 {
		if to, err = target(current); err != nil {
			return nil, at, to, err
		}
		at = current
	}
	if (current-at)*(to-at) < 0 {
		return nil, at, to, fmt.Errorf("migrations: on the way from version %d to %d another migrator took the database to %d; make them agree, then run it again", at, to, current)
	}
	way := r.steps(current, to)
	if len(way) == 0 || (to-at)*(to-current) < 0 {
		return nil, current, to, nil // there, or past it by somebody else's doing
	}
	s := way[0]
	began := time.Now()
	if err := r.applyIn(ctx, tx, s); err != nil {
		return nil, at, to, err
	}
	open = false
	if err := r.commit(ctx, tx, s); err != nil {
		return nil, at, to, err
	}
	if s.direction == Up {
		current++
	} else {
		current--
	}
	return &Applied{Version: s.Version, Name: s.Name, Direction: s.direction, Duration: time.Since(began)}, current, to, nil
}

// step is one migration in one direction.
type step struct {
	Migration
	direction Direction
}

// steps is the way from one version to another.
func (r *Runner) steps(from, to int) []step {
	var way []step
	for v := from; v < to; v++ {
		way = append(way, step{r.migrations[v], Up})
	}
	for v := from; v > to; v-- {
		way = append(way, step{r.migrations[v-1], Down})
	}
	return way
}

// settings fixes for one transaction what would otherwise depend on the role that migrates.
func (r *Runner) settings() string {
	return fmt.Sprintf("set local lock_timeout = %d;\nset local statement_timeout = 0;\nset local search_path = postrider, public;",
		r.lockTimeout.Milliseconds())
}

// commit commits a step.
func (r *Runner) commit(ctx context.Context, tx pgx.Tx, s step) error {
	err := tx.Commit(ctx)
	if err == nil {
		return nil
	}
	failed := newApplyError(s.Migration, s.direction, len(splitStatements(s.sql(s.direction))), err)
	var refused *pgconn.PgError
	failed.Unknown = !errors.As(err, &refused) && !errors.Is(err, pgx.ErrTxCommitRollback)
	return failed
}

// applyIn runs one step and its change of the history.
func (r *Runner) applyIn(ctx context.Context, tx pgx.Tx, s step) error {
	if _, err := r.script(ctx, r.settings()); err != nil {
		return fmt.Errorf("migrations: prepare the transaction of %s: %w", s.File(s.direction), err)
	}
	if s.direction == Up && s.Version == 1 {
		if _, err := r.script(ctx, historyCreate); err != nil {
			return fmt.Errorf("migrations: create the schema postrider and its history table: %w", err)
		}
	}
	if completed, err := r.script(ctx, s.sql(s.direction)); err != nil {
		return newApplyError(s.Migration, s.direction, completed, err)
	}
	if s.direction == Up {
		if _, err := tx.Exec(ctx, historyInsert, s.Version, s.Name, s.Checksum); err != nil {
			return fmt.Errorf("migrations: record %s in postrider.schema_migration: %w", s, err)
		}
		return nil
	}
	if _, err := tx.Exec(ctx, historyDelete, s.Version); err != nil {
		return fmt.Errorf("migrations: remove %s from postrider.schema_migration: %w", s, err)
	}
	if s.Version == 1 {
		if _, err := r.script(ctx, historyDrop); err != nil {
			return fmt.Errorf("migrations: drop postrider.schema_migration and the schema: %w", err)
		}
	}
	return nil
}

// script sends SQL of any number of statements in one message of the simple protocol, as the
// file has it, so that the server's positions are positions in the file. It returns how many
// statements were completed.
func (r *Runner) script(ctx context.Context, sql string) (completed int, err error) {
	results, err := r.conn.PgConn().Exec(ctx, sql).ReadAll()
	for _, result := range results {
		if result.Err == nil {
			completed++
		}
	}
	return completed, err
}
