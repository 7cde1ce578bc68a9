package inbox_test

import (
	"context"
	"database/sql"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		os.Exit(childMain(text))
	}
	pgtest.Main(m)
}

// service is the database of a service: its inbox, and a table in which each handled message is one row more.
type service struct {
	t    testing.TB
	url  string
	pool *pgxpool.Pool
	sql  *sql.DB
}

func newService(t testing.TB) *service {
	t.Helper()
	db := pgtest.NewEmpty(t)
	s := &service{t: t, url: db.URL, pool: db.Pool(t)}
	s.openSQL()
	if err := inbox.Migrate(t.Context(), s.pool); err != nil {
		t.Fatal(err)
	}
	s.exec(`create table effect (n bigint generated always as identity, consumer_group text, message text)`)
	s.exec(`create table account (id int primary key, balance int not null)`)
	s.exec(`insert into account values (1, 0), (2, 0)`)
	return s
}

// openSQL opens the pool through database/sql, too.
func (s *service) openSQL() {
	s.sql = stdlib.OpenDBFromPool(s.pool)
	s.t.Cleanup(func() {
		if err := s.sql.Close(); err != nil {
			s.t.Error(err)
		}
	})
}

func (s *service) exec(query string, args ...any) {
	s.t.Helper()
	pgtest.Exec(s.t, s.pool, query, args...)
}

func (s *service) count(query string, args ...any) int {
	s.t.Helper()
	return pgtest.Value[int](s.t, s.pool, query, args...)
}

// effects is how often a message took effect.
func (s *service) effects(message string) int {
	s.t.Helper()
	return s.count(`select count(*) from effect where message = $1`, message)
}

// eventually waits until a query counts that many.
func (s *service) eventually(what string, want int, query string, args ...any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		got := s.count(query, args...)
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("%s: %d, want %d", what, got, want)
		}
	}
}

const (
	putEffect = `insert into effect (consumer_group, message) values ($1, $2)`
	// waiting counts the sessions of the database that wait for another transaction.
	waiting = `select count(*) from pg_locks l join pg_stat_activity a using (pid) where l.locktype = 'transactionid' and not l.granted and a.datname = current_database()`
)

// face is one of the two ways into a database: pgx and database/sql.
type face struct {
	// process handles a message: do runs statements in its transaction.
	process func(ctx context.Context, id string, do func(ctx context.Context, exec execFunc) error) (bool, error)
	// each handles several.
	each func(ctx context.Context, ids []string, do func(ctx context.Context, exec execFunc, fresh []int) error) (int, error)
}

type execFunc func(query string, args ...any) error

// faces are processors of the service with these options, by name.
func (s *service) faces(o inbox.Options) map[string]face {
	s.t.Helper()
	byPGX, err := inbox.New(s.pool, o)
	if err != nil {
		s.t.Fatal(err)
	}
	bySQL, err := inbox.NewSQL(s.sql, o)
	if err != nil {
		s.t.Fatal(err)
	}
	onPGX := func(ctx context.Context, tx pgx.Tx) execFunc {
		return func(query string, args ...any) error { _, err := tx.Exec(ctx, query, args...); return err }
	}
	onSQL := func(ctx context.Context, tx *sql.Tx) execFunc {
		return func(query string, args ...any) error { _, err := tx.ExecContext(ctx, query, args...); return err }
	}
	type do = func(ctx context.Context, exec execFunc) error
	type doEach = func(ctx context.Context, exec execFunc, fresh []int) error
	return map[string]face{
		"pgx": {
			process: func(ctx context.Context, id string, do do) (bool, error) {
				return byPGX.Process(ctx, id, func(ctx context.Context, tx pgx.Tx) error { return do(ctx, onPGX(ctx, tx)) })
			},
			each: func(ctx context.Context, ids []string, do doEach) (int, error) {
				return byPGX.ProcessEach(ctx, ids, func(ctx context.Context, tx pgx.Tx, fresh []int) error { return do(ctx, onPGX(ctx, tx), fresh) })
			},
		},
		"database/sql": {
			process: func(ctx context.Context, id string, do do) (bool, error) {
				return bySQL.Process(ctx, id, func(ctx context.Context, tx *sql.Tx) error { return do(ctx, onSQL(ctx, tx)) })
			},
			each: func(ctx context.Context, ids []string, do doEach) (int, error) {
				return bySQL.ProcessEach(ctx, ids, func(ctx context.Context, tx *sql.Tx, fresh []int) error { return do(ctx, onSQL(ctx, tx), fresh) })
			},
		},
	}
}

// behindProxy runs a test for both ways into a database that is behind a proxy.
func behindProxy(t *testing.T, o inbox.Options, test func(t *testing.T, s *service, proxy *pgproxy.Proxy, f face)) {
	t.Helper()
	for _, way := range []string{"pgx", "database/sql"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			proxy := pgproxy.Start(t, s.url)
			test(t, s, proxy, s.through(proxy).faces(o)[way])
		})
	}
}
