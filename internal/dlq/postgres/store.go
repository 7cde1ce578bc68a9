package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
)

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 30 * time.Second

// Config is what a Store needs.
type Config struct {
	// Pool is the database, at the newest version of the schema. Required.
	Pool *pgxpool.Pool
	// Timeout bounds each call, its transaction included; a call that takes longer fails in passing.
	// Defaults to 30s.
	Timeout time.Duration
	// Redactor hides parts of messages in snapshots. Defaults to none.
	Redactor *dlq.Redactor
	// Auditor writes into the audit log which investigations are closed because another goes on. Defaults to none; then the
	// closed ones say it alone.
	Auditor Auditor
}

// Store keeps letters and opens investigations. It is safe for concurrent use, by any number of processes.
type Store struct {
	pool    *pgxpool.Pool
	timeout time.Duration
	// redactor and audit may be nil.
	redactor *dlq.Redactor
	audit    Auditor
}

var (
	_ dlq.Letters   = (*Store)(nil)
	_ dlq.Standings = (*Store)(nil)
)

// NewStore returns a store on the pool, which stays the caller's. It fails on an invalid Config.
func NewStore(cfg Config) (*Store, error) {
	switch {
	case cfg.Pool == nil:
		return nil, errors.New("dead-letter store: Pool is required")
	case cfg.Timeout < 0:
		return nil, errors.New("dead-letter store: Timeout is negative")
	case cfg.Timeout == 0:
		cfg.Timeout = DefaultTimeout
	}
	return &Store{pool: cfg.Pool, timeout: cfg.Timeout, redactor: cfg.Redactor, audit: cfg.Auditor}, nil
}

// errRace says that another collector recorded a letter, or opened an investigation, between our looking for it and
// our inserting it.
var errRace = errors.New("another collector recorded the same at the same time")

// RecordLetters implements dlq.Letters. The time it takes grows with the number of letters, the number of
// its statements does not, unless letters are very large.
func (s *Store) RecordLetters(ctx context.Context, letters []dlq.Letter) (dlq.Recorded, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if len(letters) == 0 {
		return dlq.Recorded{}, nil
	}
	unique := distinct(letters)
	for {
		recorded, err := s.record(ctx, unique)
		if errors.Is(err, errRace) {
			continue // it is seen now; each round at least one letter or subject fewer is new, so this ends
		}
		if deadlock(err) && ctx.Err() == nil {
			continue // the other one went on
		}
		if err != nil {
			return dlq.Recorded{}, err
		}
		recorded.Repeated = len(letters) - recorded.New
		return recorded, nil
	}
}

// begin begins a transaction that does not keep its locks when this process vanishes in it. A session
// cannot be relied on for that: behind a pooler it is shared.
const begin = "begin isolation level read committed read write; set local idle_in_transaction_session_timeout = '60s'; " + perStatement

// perStatement bounds each statement, to the end of the transaction: the server goes on with one whose client has gone.
const perStatement = "set local statement_timeout = '60s'"

// record is one attempt at the transaction.
func (s *Store) record(ctx context.Context, letters []*dlq.Letter) (dlq.Recorded, error) {
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return dlq.Recorded{}, translate("begin", err)
	}
	// After a commit this does nothing; otherwise the connection that failed is put right or closed.
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	recorded, err := s.recordIn(ctx, tx, letters)
	if err != nil || recorded.New == 0 {
		return recorded, err
	}
	if err := tx.Commit(ctx); err != nil {
		// Even an error of the server's is not about a letter here, and without one the outcome is unknown.
		// Both are passing: what was committed is found the next time.
		return recorded, errors.Join(errors.New("commit dead letters"), err)
	}
	return recorded, nil
}

// recordIn records in a transaction. Investigations come before their letters, because a letter names its
// investigation.
func (s *Store) recordIn(ctx context.Context, tx pgx.Tx, letters []*dlq.Letter) (recorded dlq.Recorded, err error) {
	letters, err = unrecorded(ctx, tx, letters)
	if err != nil || len(letters) == 0 {
		return recorded, err
	}
	cs := openings(letters)
	if err := assign(ctx, tx, cs); err != nil {
		return recorded, err
	}
	if err := s.open(ctx, tx, cs); err != nil {
		return recorded, err
	}
	if err := insert(ctx, tx, letters, cs); err != nil {
		return recorded, err
	}
	if err := nameOrigins(ctx, tx, s.audit, opened(cs)); err != nil {
		return recorded, err
	}
	recorded.New, recorded.Opened = len(letters), len(opened(cs))
	recorded.Added = recorded.New - recorded.Opened
	return recorded, nil
}

// opened are the openings whose investigations are new.
func opened(cs []*opening) []*opening {
	return slices.DeleteFunc(slices.Clone(cs), func(c *opening) bool { return c.entry != c.proposed })
}

// unrecorded returns the letters that are not in the database, in the order given.
func unrecorded(ctx context.Context, tx pgx.Tx, letters []*dlq.Letter) ([]*dlq.Letter, error) {
	const doing = "find recorded letters"
	rows, err := tx.Query(ctx, letterFind, column(letters, func(l *dlq.Letter) string { return l.ID }))
	if err != nil {
		return nil, translate(doing, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, translate(doing, err)
	}
	known := make(map[string]struct{}, len(ids))
	for _, id := range ids {
		known[id] = struct{}{}
	}
	fresh := make([]*dlq.Letter, 0, len(letters))
	for _, l := range letters {
		if _, recorded := known[l.ID]; !recorded {
			fresh = append(fresh, l)
		}
	}
	return fresh, nil
}

// open opens or adds to the openings' investigations and sets their entry. If there are many, almost all are new;
// the new ones are copied in.
//
// The trigger that counts locks the groups of a statement in order, once the statement's rows are there. Unless there is
// only one statement, of new rows, all groups are locked before the first statement, and after the investigations that
// other sessions may hold. So no session waits in a circle, and if several collectors find a group closed, only one lets
// it come back.
func (s *Store) open(ctx context.Context, tx pgx.Tx, cs []*opening) error {
	now, err := lookUp(ctx, tx, cs)
	if err != nil {
		return err
	}
	if err := findOrigins(ctx, tx, cs); err != nil {
		return err
	}
	var known, fresh, endings []*opening // endings close what they come from
	for _, c := range cs {
		if c.known {
			known = append(known, c)
		} else {
			fresh = append(fresh, c)
		}
		if c.origin.closes {
			endings = append(endings, c)
		}
	}
	if len(known) > 0 || len(endings) > 0 {
		if err := lockPending(ctx, tx, known, column(endings, func(c *opening) uuid.UUID { return c.origin.entry })); err != nil {
			return err
		}
		groups := append(column(cs, func(c *opening) uuid.UUID { return c.group }),
			column(endings, func(c *opening) uuid.UUID { return c.origin.group })...)
		if _, err := tx.Exec(ctx, groupHold, groups); err != nil {
			return translate("lock groups", err)
		}
	}
	if len(fresh) > 0 {
		if err := openNew(ctx, tx, fresh, s.redactor, now); err != nil {
			return err
		}
	}
	return openOrAdd(ctx, tx, known, s.redactor)
}

// lookUp marks the openings whose subject has an investigation, and returns the time of the transaction.
func lookUp(ctx context.Context, tx pgx.Tx, cs []*opening) (now time.Time, err error) {
	types, ids := subjects(cs)
	var places []int64
	err = tx.QueryRow(ctx, entryKnown, types, ids).Scan(&now, &places)
	for _, place := range places {
		cs[place-1].known = true
	}
	return now, translate("look for investigations", err)
}

// subjects are the openings' subjects as parameters.
func subjects(cs []*opening) (types, ids []string) {
	return column(cs, func(c *opening) string { return string(c.subject.Type) }), column(cs, func(c *opening) string { return c.subject.ID })
}

// openNew opens investigations of subjects that have none.
func openNew(ctx context.Context, tx pgx.Tx, cs []*opening, r *dlq.Redactor, now time.Time) error {
	err := copyIn(ctx, tx, entryCopy, cs, func(to *row, c *opening) { writeEntry(to, c, r, now) })
	for _, c := range cs {
		c.entry = c.proposed
	}
	return raced("open new investigations", err)
}

// raced is translate for rows that were not there a moment ago.
func raced(doing string, err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == uniqueViolation {
		return errRace
	}
	return translate(doing, err)
}

// lockPending locks the subjects' pending investigations, and marks their openings, which take the investigations'
// groups. The investigations in others are locked with them.
func lockPending(ctx context.Context, tx pgx.Tx, cs []*opening, others []uuid.UUID) error {
	const doing = "lock pending investigations"
	types, ids := subjects(cs)
	rows, err := tx.Query(ctx, entryLock, types, ids, others)
	if err != nil {
		return translate(doing, err)
	}
	pending := make(map[dlq.Subject]uuid.UUID, len(cs))
	var subject dlq.Subject
	var group uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&subject.Type, &subject.ID, &group}, func() error { pending[subject] = group; return nil })
	if err != nil {
		return translate(doing, err)
	}
	for _, c := range cs {
		if group, there := pending[c.subject]; there {
			c.pending, c.group = true, group
		}
	}
	return nil
}

// openOrAdd is open for subjects that may have investigations.
func openOrAdd(ctx context.Context, tx pgx.Tx, cs []*opening, r *dlq.Redactor) error {
	const doing = "open investigations"
	bySubject := make(map[dlq.Subject]*opening, len(cs))
	for _, c := range cs {
		bySubject[c.subject] = c
	}
	// A snapshot shows at most what dlq.MaxSnapshotBytes allows, of three parts; that of a task is its own.
	size := func(c *opening) int {
		return 1024 + min(letterSize(c.first), 4*dlq.MaxSnapshotBytes) + len(c.first.TaskSnapshot) + len(c.first.Metadata)
	}
	for _, portion := range portions(cs, statementBytes, size) {
		rows, err := tx.Query(ctx, entryOpen, entryColumns(portion, r)...)
		if err != nil {
			return translate(doing, err)
		}
		var entry uuid.UUID
		var subject dlq.Subject
		_, err = pgx.ForEachRow(rows, []any{&entry, &subject.Type, &subject.ID}, func() error {
			bySubject[subject].entry = entry
			return nil
		})
		if err != nil {
			return translate(doing, err)
		}
	}
	return nil
}

// insert inserts the letters of the openings' investigations. It returns errRace if one was there.
func insert(ctx context.Context, tx pgx.Tx, letters []*dlq.Letter, cs []*opening) error {
	entries := make(map[dlq.Subject]uuid.UUID, len(cs))
	for _, c := range cs {
		entries[c.subject] = c.entry
	}
	letters = slices.Clone(letters)
	inOrder(letters)
	return raced("insert letters", copyIn(ctx, tx, letterCopy, letters, func(to *row, l *dlq.Letter) { writeLetter(to, l, entries[l.Subject]) }))
}
