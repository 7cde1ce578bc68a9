package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// waitLimit is how long WaitFor waits.
const waitLimit = 3 * time.Minute

// querier is a pool, a connection or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Exec executes a statement, or several of them without arguments. The test ends when that fails.
func Exec(t testing.TB, on querier, sql string, args ...any) {
	t.Helper()
	if _, err := on.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Value is the one value of the first row that a query returns; its other rows are ignored. The test ends when there
// is none.
func Value[T any](t testing.TB, on querier, sql string, args ...any) (v T) {
	t.Helper()
	if err := on.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// Column is the only value of each row that a query returns. The test ends when it fails.
func Column[T any](t testing.TB, on querier, sql string, args ...any) []T {
	t.Helper()
	rows, err := on.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return all
}

// WaitFor asks a query until it says true. The test ends when that takes longer than 30 seconds.
func WaitFor(t testing.TB, on querier, sql string, args ...any) {
	t.Helper()
	deadline := time.After(waitLimit)
	for asked := time.Now(); !Value[bool](t, on, sql, args...); asked = time.Now() {
		select {
		case <-time.After(Pause(asked)):
		case <-deadline:
			t.Fatalf("it does not come true within %v: %s", waitLimit, sql)
		}
	}
}

// Pause is how long to wait before a question that was asked at a time is asked again: ten times as long as it took, from
// 2 ms to half a second. So waiting takes a tenth of a core at most, and the rest is left to what is waited for.
func Pause(asked time.Time) time.Duration {
	return min(max(10*time.Since(asked), 2*time.Millisecond), 500*time.Millisecond)
}

// Compile has sessions that begin later compile large queries, as PostgreSQL does by default and the server of the tests does not
// (testSettings): for tests that sessions of ours have that off.
func Compile(t testing.TB, on querier) {
	t.Helper()
	Exec(t, on, `do $$ begin execute format('alter database %I set jit = on', current_database()); end $$`)
}

// Prepare fails the test unless the database prepares each of the queries that stand in queries/*.sql of files, as text
// has them by name.
func Prepare(t testing.TB, conn *pgx.Conn, files fs.FS, text func(name string) string) {
	t.Helper()
	paths, err := fs.Glob(files, "queries/*.sql")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no query files, %v", err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(strings.TrimPrefix(path, "queries/"), ".sql")
		if _, err := conn.Prepare(t.Context(), name, text(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With is the address of the database with one more parameter, for example target_session_attrs.
func (d *DB) With(name, value string) string {
	u, err := url.Parse(d.URL)
	if err != nil {
		panic(err) // New made it
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // libpq takes a plus for a plus
	return u.String()
}

// As is the address of the database for sessions that have the rights of a role.
func (d *DB) As(role string) string { return d.With("options", "-c role="+role) }

// Login makes a login that has a role, which must be there, and returns the address of the database for it, and its
// password. Unlike a session of As it is no superuser to itself. It is dropped when t ends.
func (d *DB) Login(t testing.TB, role string) (address, password string) {
	t.Helper()
	login, password := "test_"+strings.ToLower(rand.Text()), rand.Text()
	conn := d.Conn(t)
	Exec(t, conn, fmt.Sprintf(`create role %s login password '%s' in role %s`, login, password, role))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
		defer cancel()
		if _, err := conn.Exec(ctx, "drop role "+login); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(d.URL)
	if err != nil {
		panic(err) // New made it
	}
	u.User = url.UserPassword(login, password)
	return u.String(), password
}
