package pooler

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testenv/pgbouncer"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

var session = map[string]string{"jit": "off", "lock_timeout": "7s"}

func open(t *testing.T, url string, mode Mode) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	Configure(cfg, mode, session)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// look says what a pool's connection is like.
func look(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	var jit, lock string
	if err := conn.QueryRow(t.Context(), "select current_setting('jit'), current_setting('lock_timeout') where $1 = 1", 1).Scan(&jit, &lock); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("behind %v jit %s lock %s prepares %v", Behind(conn.Conn()), jit, lock,
		conn.Conn().Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement)
}

func TestModes(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	pgtest.Compile(t, db.Conn(t))
	pooled := pgbouncer.Start(t, db.URL, 3)
	const straight, behind = "behind false jit off lock 7s prepares true", "behind true jit on lock 0 prepares false"
	for _, c := range []struct {
		url  string
		mode Mode
		want string
	}{
		{db.URL, Auto, straight}, {db.URL, "", straight}, {db.URL, None, straight}, {db.URL, Transaction, behind},
		{pooled, Auto, behind}, {pooled, "", behind}, {pooled, Transaction, behind},
	} {
		if got := look(t, open(t, c.url, c.mode)); got != c.want {
			t.Errorf("%s, mode %q: %s, want %s", c.url, c.mode, got, c.want)
		}
	}
	// Without looking, the parameters are sent, and a pooler does not know them.
	if _, err := open(t, pooled, None).Acquire(t.Context()); err == nil || !strings.Contains(err.Error(), "unsupported startup parameter") {
		t.Errorf("mode none through a pooler: %v", err)
	}
}

// TestStatementsThroughAPooler: statements with arguments, many times, by clients that share servers.
func TestStatementsThroughAPooler(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	pool := open(t, pgbouncer.Start(t, db.URL, 2), Auto)
	errs := make(chan error)
	const clients = 4
	for c := range clients {
		go func() {
			for n := range 50 {
				var got int
				if err := pool.QueryRow(t.Context(), fmt.Sprintf("select $1::int + %d", n%5), c).Scan(&got); err != nil || got != c+n%5 {
					errs <- fmt.Errorf("%d + %d = %d, %w", c, n%5, got, err)
					return
				}
			}
			errs <- nil
		}()
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestNobodyThere: the error is that of connecting.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := url.URL{Scheme: "postgres", User: url.UserPassword("u", "hunter2"), Host: l.Addr().String(), Path: "/d"}
	l.Close()
	_, err = open(t, address.String(), Auto).Acquire(t.Context())
	if err == nil || !strings.Contains(err.Error(), "failed to connect") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Acquire: %v", err)
	}
}
