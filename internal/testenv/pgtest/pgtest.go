// Package pgtest gives each test a PostgreSQL database of its own.
//
// New clones a database that has all migrations applied, which takes some ten milliseconds;
// LISTEN channels, advisory locks and statistics are per database, so tests run in parallel
// without seeing each other. A test that failed keeps its database and logs where it is.
//
// The server is chosen once per test process, and the choice is printed:
//
//  1. the one in POSTRIDER_TEST_DATABASE_URL, whose role may create databases;
//  2. one started from PostgreSQL binaries on this machine, which are fetched where there are
//     none (see package pgserver), stopped by Main;
//  3. one in Docker.
//
// With none of them the test fails and says so; it is never skipped. A package that uses
// pgtest stops the server in its TestMain:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// databaseTimeout bounds the creation and the removal of one database.
const databaseTimeout = time.Minute

// DB is a database that belongs to one test.
type DB struct {
	// URL is the address, with everything needed to connect as its owner.
	URL string
	// Name is the database's name on its server.
	Name string
}

// New returns a fresh database at the newest version of the schema.
func New(t testing.TB) *DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), templateTimeout)
	defer cancel()
	s := testServer(t)
	template, err := s.migratedTemplate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s.create(t, s.clone(template))
}

// NewEmpty returns a fresh database without any schema of ours.
func NewEmpty(t testing.TB) *DB {
	t.Helper()
	s := testServer(t)
	return s.create(t, s.clone("template0")+sortOrder)
}

// Pool opens a pool of connections to the database, closed when t ends.
func (d *DB) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), d.URL)
	if err != nil {
		t.Fatalf("pgtest: open a pool to %s: %v", d.Name, err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Conn opens one connection to the database, closed when t ends.
func (d *DB) Conn(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.URL)
	if err != nil {
		t.Fatalf("pgtest: connect to %s: %v", d.Name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
		defer cancel()
		_ = conn.Close(ctx) // a test may have broken it on purpose
	})
	return conn
}

// Copy makes a copy of the database as it is now, like a backup that is restored elsewhere. Sessions of the database are ended.
func (d *DB) Copy(t testing.TB) *DB {
	t.Helper()
	s := testServer(t)
	d.end(t, s)
	copied := s.create(t, s.clone(d.Name))
	d.allow(t, s)
	return copied
}

// Replace puts a copy in the place of the database, which is gone then: it is set back to when it was copied. Sessions of both are ended.
func (d *DB) Replace(t testing.TB, with *DB) {
	t.Helper()
	s := testServer(t)
	d.end(t, s)
	with.end(t, s)
	was := databaseName(t.Name())
	for _, sql := range []string{"alter database " + quote(d.Name) + " rename to " + quote(was), "alter database " + quote(with.Name) + " rename to " + quote(d.Name),
		"alter database " + quote(was) + " rename to " + quote(with.Name)} {
		d.do(t, s, sql)
	}
	d.allow(t, s)
	with.allow(t, s)
}

// end ends the sessions of the database, and lets none begin.
func (d *DB) end(t testing.TB, s *server) {
	t.Helper()
	d.do(t, s, "alter database "+quote(d.Name)+" allow_connections false")
	d.do(t, s, "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '"+d.Name+"'")
}

func (d *DB) allow(t testing.TB, s *server) {
	t.Helper()
	d.do(t, s, "alter database "+quote(d.Name)+" allow_connections true")
}

func (d *DB) do(t testing.TB, s *server, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), databaseTimeout)
	defer cancel()
	if err := s.exec(ctx, sql); err != nil {
		t.Fatalf("pgtest: %s: %v", sql, err)
	}
}

// create makes a database, as the clause says, and has it dropped when the test has passed.
func (s *server) create(t testing.TB, clause string) *DB {
	t.Helper()
	db := &DB{Name: databaseName(t.Name())}
	var err error
	if db.URL, err = withDatabase(s.url, db.Name); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), databaseTimeout)
	defer cancel()
	if err := s.exec(ctx, "create database "+quote(db.Name)+clause); err != nil {
		t.Fatalf("pgtest: create the test's database: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("pgtest: the test failed; its database %s is kept %s", db.Name, s.kept)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
		defer cancel()
		if err := s.exec(ctx, "drop database "+quote(db.Name)+" with (force)"); err != nil {
			t.Errorf("pgtest: drop the test's database: %v", err)
		}
	})
	return db
}

// clone is the clause that copies a template. Copying its files is several times faster than
// writing it through the log, as PostgreSQL does by default from version 15 on, when nothing
// has to reach the disk.
func (s *server) clone(template string) string {
	clause := " template " + quote(template)
	if s.number >= 150000 {
		clause += " strategy file_copy"
	}
	return clause
}

// exec runs one statement in the maintenance database. Its connections are kept for the next one: opening two costs the
// server as much as making a database and removing it.
func (s *server) exec(ctx context.Context, sql string) error {
	conn, err := s.takeIdle(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, sql); err != nil {
		_ = conn.Close(ctx)
		return err
	}
	s.idleMu.Lock()
	defer s.idleMu.Unlock()
	s.idle = append(s.idle, conn)
	return nil
}

// takeIdle returns a connection to the maintenance database that no test uses. One that died while it was kept is closed: a
// test is not failed by a server that was started again.
func (s *server) takeIdle(ctx context.Context) (*pgx.Conn, error) {
	for {
		conn := s.popIdle()
		if conn == nil {
			return pgx.Connect(ctx, s.url)
		}
		if conn.Ping(ctx) == nil {
			return conn, nil
		}
		_ = conn.Close(ctx)
	}
}

func (s *server) popIdle() *pgx.Conn {
	s.idleMu.Lock()
	defer s.idleMu.Unlock()
	last := len(s.idle) - 1
	if last < 0 {
		return nil
	}
	conn := s.idle[last]
	s.idle = s.idle[:last]
	return conn
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// databaseName makes a name of at most 63 bytes that tells which test it is from.
func databaseName(test string) string {
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		}
		return '_'
	}, strings.TrimPrefix(test, "Test"))
	id := strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	return "postrider_test_" + readable[:min(len(readable), 34)] + "_" + id
}

// withDatabase is the address of another database on the same server.
func withDatabase(server, database string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return "", fmt.Errorf("pgtest: the server's address must have the form postgres://user:password@host:port/database")
	}
	u.Path = "/" + database
	u.RawPath = ""
	return u.String(), nil
}
