package migrations

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The SQL that replaces a room's code in the database.
var (
	//go:embed history/drop_code.sql
	codeDrop string
	//go:embed history/record_code.sql
	codeRecord string
	//go:embed history/add_parts.sql
	partsAdd string
)

// Runner brings one database to the schema of its rooms. It is used from one goroutine at a time,
// as its connection is; several runners, also in several processes, may work on one database
// and wait for each other.
type Runner struct {
	conn        *pgx.Conn
	rooms       []Room
	lockTimeout time.Duration
	waiting     func(holder string)
	waited      bool
	keepNewer   bool
	only        []Part
	source      bool
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

// WithNewerCodeKept leaves the code of a room alone that took the place of this runner's: for a
// process that migrates when it starts, which may be an old one that starts again in the middle of
// an upgrade. Validate says so then (ErrAhead). By default Up puts its own back.
func WithNewerCodeKept() Option { return func(r *Runner) { r.keepNewer = true } }

// WithOnly names the parts that the database is to have. A database that has a part beside them is refused (ErrMore). By
// default, and with no part, an empty database gets all, and another keeps the parts that it has.
func WithOnly(parts ...Part) Option { return func(r *Runner) { r.only = parts } }

// WithSource says that the database is one whose outbox is carried beside that of the desk: an empty one is to have the outbox alone.
// What Validate tells to run names the database, because without that the command is about another.
func WithSource() Option { return func(r *Runner) { r.source = true } }

// New makes a Runner over a connection, which stays the caller's to close. Through a pooler in
// transaction mode it must be one that prepares no statements, for example with
// pgx.QueryExecModeCacheDescribe. The rooms come from All or Load.
func New(conn *pgx.Conn, rooms []Room, opts ...Option) *Runner {
	r := &Runner{conn: conn, rooms: rooms, lockTimeout: 5 * time.Second, waiting: func(string) {}}
	for _, opt := range opts {
		opt(r)
	}
	return r
}

// Applied is one migration, or the code of one room, that a call ran.
type Applied struct {
	Room string
	// Version is 0 for the room's code.
	Version  int
	Name     string
	Duration time.Duration
}

// Up applies every migration that the database lacks, and the code of each room that is another. It
// returns what it applied, also when a later step failed: each is a transaction of its own and
// stays. A database that is ahead, or that was made by other migrations, is refused before anything
// is changed (ErrAhead, ErrChanged); a failing file gives an *ApplyError.
func (r *Runner) Up(ctx context.Context) ([]Applied, error) { return r.run(ctx, false) }

// UpAgain is Up that applies the code of every room, also where the database has it already: it takes
// back changes that were made by hand.
func (r *Runner) UpAgain(ctx context.Context) ([]Applied, error) { return r.run(ctx, true) }

// step is one transaction: a migration, the code of a room, or the last migration of a room and its code.
type step struct {
	room      *Room
	migration *Migration
	withCode  bool // false for a migration that others follow
	code      []CodeFile
	adds      []Part // to be written down with it
}

// run makes one step after the other. Each has the lock and reads and checks the history again: between two,
// another migrator may have done a part of the way.
func (r *Runner) run(ctx context.Context, again bool) (done []Applied, err error) {
	r.waited = false
	anew := map[string]bool{}
	for _, room := range r.rooms {
		anew[room.Name] = again
	}
	for {
		did, err := r.turn(ctx, anew)
		if err != nil || len(did) == 0 {
			return done, err
		}
		done = append(done, did...)
	}
}

// turn makes the next step and returns what it applied; nothing if no step is left. anew says for which rooms the code
// is to be applied whatever the database has.
func (r *Runner) turn(ctx context.Context, anew map[string]bool) ([]Applied, error) {
	tx, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	open := true
	defer func() {
		if open {
			r.rollback(ctx, tx)
		}
	}()
	h, err := r.history(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.compare(h); err != nil {
		return nil, err
	}
	s := r.next(h, anew)
	if s == nil {
		return nil, nil
	}
	did, err := r.applyIn(ctx, tx, h, s)
	if err != nil {
		return nil, err
	}
	open = false
	if err := r.commit(ctx, tx, s); err != nil {
		return nil, err
	}
	if s.withCode {
		anew[s.room.Name] = false
	}
	return did, nil
}

// next is the first step that a database with this history lacks; nil where it has all.
func (r *Runner) next(h *history, anew map[string]bool) *step {
	for _, room := range h.rooms {
		there := h.newest(room.Name)
		s := &step{room: room, adds: h.added}
		if there < len(room.Migrations) {
			s.migration = &room.Migrations[there]
		}
		last := there+1 >= len(room.Migrations)
		due := s.migration != nil || anew[room.Name] || room.differs(h) && !(r.keepNewer && h.replaced(room.Name, room.Checksum))
		if last && due && len(room.Code) > 0 {
			var files map[string]string
			if was := h.codeOf(room.Name); was != nil && !anew[room.Name] {
				files = was.Files
			}
			s.withCode, s.code = true, room.wanted(files)
		}
		if s.migration != nil || s.withCode {
			return s
		}
	}
	return nil
}

// settings fixes for one transaction what would otherwise depend on the role that migrates, and names the room and the code
// that are applied. Bodies of functions are checked only when they are called, because the objects that they name may come
// in a later file, or in a later room.
func (r *Runner) settings(s *step) string {
	files := []byte("{}")
	if s.withCode {
		files, _ = json.Marshal(s.room.files()) // names and hex: nothing that could fail, and no quote
	}
	return fmt.Sprintf(`set local lock_timeout = %d;
set local statement_timeout = 0;
set local search_path = postrider, public;
set local check_function_bodies = off;
set local postrider.room = '%s';
set local postrider.code = '%s';
set local postrider.code_checksum = '%s';
set local postrider.parts = '%s';`, r.lockTimeout.Milliseconds(), s.room.Name, files, s.room.Checksum, JoinParts(s.adds))
}

// commit commits a step.
func (r *Runner) commit(ctx context.Context, tx pgx.Tx, s *step) error {
	err := tx.Commit(ctx)
	if err == nil {
		return nil
	}
	of := s.room.codeSource(CodeFile{})
	if s.migration != nil {
		of = s.migration.source()
		of.sql = "" // no statement of it failed
	}
	failed := newApplyError(of, 0, err)
	var refused *pgconn.PgError
	failed.Unknown = !errors.As(err, &refused) && !errors.Is(err, pgx.ErrTxCommitRollback)
	return failed
}

// applyIn runs one step and its change of the history.
func (r *Runner) applyIn(ctx context.Context, tx pgx.Tx, h *history, s *step) (did []Applied, err error) {
	began := time.Now()
	if _, err := r.script(ctx, r.settings(s)); err != nil {
		return nil, fmt.Errorf("migrations: prepare the transaction for %s: %w", s.room.Name, err)
	}
	if !h.made {
		if _, err := r.script(ctx, historyCreate); err != nil {
			return nil, fmt.Errorf("migrations: create the schema postrider and its history tables: %w", err)
		}
	}
	if len(s.adds) > 0 {
		if _, err := r.script(ctx, partsAdd); err != nil {
			return nil, fmt.Errorf("migrations: write the parts %s into postrider.schema_part: %w", JoinParts(s.adds), err)
		}
	}
	if _, err := r.script(ctx, codeDrop); err != nil {
		return nil, newApplyError(s.room.codeSource(CodeFile{}), 0, err)
	}
	if m := s.migration; m != nil {
		if completed, err := r.script(ctx, m.SQL); err != nil {
			return nil, newApplyError(m.source(), completed, err)
		}
		if _, err := tx.Exec(ctx, historyInsert, m.Room, m.Version, m.Name, m.Checksum); err != nil {
			return nil, fmt.Errorf("migrations: record %s in postrider.schema_migration: %w", m, err)
		}
		did = append(did, Applied{Room: m.Room, Version: m.Version, Name: m.Name, Duration: time.Since(began)})
		began = time.Now()
	}
	if !s.withCode {
		return did, nil
	}
	for _, f := range s.code {
		if completed, err := r.script(ctx, f.SQL); err != nil {
			return nil, newApplyError(s.room.codeSource(f), completed, err)
		}
	}
	if _, err := r.script(ctx, codeRecord); err != nil {
		return nil, fmt.Errorf("migrations: record the code of %s in postrider.schema_code: %w", s.room.Name, err)
	}
	return append(did, Applied{Room: s.room.Name, Name: codeFolder, Duration: time.Since(began)}), nil
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
