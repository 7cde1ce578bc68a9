package inbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrInvalid is wrapped by errors about arguments and options; the database was not asked.
var ErrInvalid = errors.New("inbox: invalid")

// Querier is what the inbox needs of a transaction or of a pool. A pgx.Tx, *pgx.Conn and *pgxpool.Pool are Queriers,
// and SQL makes a Querier of a transaction, connection or pool of database/sql.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// SQLQuerier is a *sql.Tx, *sql.Conn or *sql.DB.
type SQLQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// SQL lets the inbox work through database/sql, with any driver for PostgreSQL that takes $1 for an argument.
func SQL(db SQLQuerier) Querier { return sqlQuerier{db} }

type sqlQuerier struct{ db SQLQuerier }

func (q sqlQuerier) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return q.db.QueryRowContext(ctx, sql, args...)
}

// Inbox is the table inbox_message of one schema. The zero Inbox is the table that the search path finds, like the
// service's other tables. It is safe for concurrent use.
type Inbox struct{ schema string }

// In returns the inbox in the schema. The name is taken as it is, without folding to lower case; an error wraps
// ErrInvalid.
func In(schema string) (Inbox, error) {
	if schema == "" || len(schema) > 63 || strings.IndexByte(schema, 0) >= 0 {
		return Inbox{}, fmt.Errorf("%w schema %q: it must have 1 to 63 bytes and no NUL", ErrInvalid, schema)
	}
	return Inbox{schema: schema}, nil
}

// label names the schema for people.
func (i Inbox) label() string {
	if i.schema == "" {
		return "the first schema of the search path"
	}
	return "schema " + i.schema
}

// Once notes in the transaction that the consumer group handles the message, and reports whether it is the first time.
// false means that a committed transaction has handled the message: leave it alone. If another transaction is handling
// the message, Once waits until that one ends. When the transaction is rolled back, the note is gone, too.
//
// id is [Identity.String] of the message, or anything else that tells it from others; group and id can have any length
// and any bytes, and neither may be empty (the error wraps ErrInvalid). With isolation levels above READ COMMITTED the
// answer may be a serialization failure, as after every conflict there.
func (i Inbox) Once(ctx context.Context, tx Querier, group, id string) (first bool, err error) {
	firsts, err := i.OnceEach(ctx, tx, group, []string{id})
	return err == nil && firsts[0], err
}

// OnceEach is Once for several messages in one round trip. If ids has an id twice, at most its first occurrence is the
// first time.
func (i Inbox) OnceEach(ctx context.Context, tx Querier, group string, ids []string) (first []bool, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if group == "" {
		return nil, fmt.Errorf("%w message: the consumer group is empty", ErrInvalid)
	}
	names := make([]string, len(ids))
	for n, id := range ids {
		if id == "" {
			return nil, fmt.Errorf("%w message: id %d of %d is empty", ErrInvalid, n+1, len(ids))
		}
		names[n] = stored(id)
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	argument, _ := json.Marshal(sorted) // strings always can be
	var answer string
	if err := tx.QueryRow(ctx, inSchema(insertSQL, i.schema), stored(group), string(argument)).Scan(&answer); err != nil {
		return nil, fmt.Errorf("ask the inbox: %w", withHint(err))
	}
	var inserted []string
	if err := json.Unmarshal([]byte(answer), &inserted); err != nil {
		return nil, fmt.Errorf("ask the inbox: its answer is not a JSON array of ids: %w", err)
	}
	fresh := make(map[string]bool, len(inserted))
	for _, name := range inserted {
		fresh[name] = true
	}
	first = make([]bool, len(ids))
	for n, name := range names {
		first[n] = fresh[name]
		delete(fresh, name)
	}
	return first, nil
}

// Once is [Inbox.Once] where the search path leads. For database/sql pass SQL(tx).
func Once(ctx context.Context, tx Querier, group, id string) (first bool, err error) {
	return Inbox{}.Once(ctx, tx, group, id)
}
