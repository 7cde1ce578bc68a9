package pgproxy_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/testenv/pgproxy"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type rig struct {
	*testing.T
	proxy  *pgproxy.Proxy
	direct *pgx.Conn
}

func newRig(t *testing.T) *rig {
	t.Helper()
	db := pgtest.NewEmpty(t)
	r := &rig{T: t, proxy: pgproxy.Start(t, db.URL), direct: db.Conn(t)}
	if _, err := r.direct.Exec(t.Context(), `create table written (n int, b bytea)`); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) connect() *pgx.Conn {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), r.proxy.URL())
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// write writes a number in a transaction, in one of the ways in which a transaction can be sent.
func write(ctx context.Context, conn *pgx.Conn, way string, n int) error {
	switch way {
	case "step by step":
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `insert into written values ($1)`, n)
			return err
		})
	case "without a begin":
		_, err := conn.Exec(ctx, `insert into written values ($1)`, n)
		return err
	case "in one batch":
		b := &pgx.Batch{}
		b.Queue("begin")
		b.Queue(`insert into written values ($1)`, n)
		b.Queue("commit")
		return conn.SendBatch(ctx, b).Close()
	}
	panic(way)
}

func (r *rig) written() (n int) {
	r.Helper()
	if err := r.direct.QueryRow(r.Context(), `select count(*) from written`).Scan(&n); err != nil {
		r.Fatal(err)
	}
	return n
}

func TestPassesEverythingOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn := r.connect()
	want := bytes.Repeat([]byte{0, 255, 'x'}, 1<<20)
	var got []byte
	if err := conn.QueryRow(t.Context(), `insert into written values (1, $1) returning b`, want).Scan(&got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if _, err := conn.Exec(t.Context(), `select 1/0`); err == nil {
		t.Error("an error did not pass")
	}
	for _, way := range []string{"step by step", "in one batch"} {
		if err := write(t.Context(), conn, way, 2); err != nil {
			t.Errorf("%s: %v", way, err)
		}
	}
	if n := r.written(); n != 3 || r.proxy.Cuts() != 0 {
		t.Errorf("%d rows are written, %d cuts", n, r.proxy.Cuts())
	}
}

func TestCuts(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"step by step", "in one batch", "without a begin"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" the commit, "+way, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				cut, committed := r.proxy.CutBeforeCommit, 0
				if when == "after" {
					cut, committed = r.proxy.CutAfterCommit, 1
				}
				cut(1, pgproxy.Containing("into written"))
				other := r.connect()
				if err := pgx.BeginFunc(t.Context(), other, func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), `select 1`); return err }); err != nil {
					t.Errorf("a transaction that does not match: %v", err)
				}
				err := write(t.Context(), r.connect(), way, 1)
				var pg *pgconn.PgError
				if err == nil || errors.As(err, &pg) {
					t.Errorf("the client sees %v, want that the connection is gone", err)
				}
				if n := r.written(); n != committed || r.proxy.Cuts() != 1 {
					t.Errorf("%d rows are written, want %d; %d cuts", n, committed, r.proxy.Cuts())
				}
				if err := write(t.Context(), r.connect(), way, 2); err != nil {
					t.Errorf("only one commit was to be cut: %v", err)
				}
				if err := write(t.Context(), other, way, 3); err != nil {
					t.Errorf("another connection was cut too: %v", err)
				}
			})
		}
	}
}

// TestOnlyCommitsAreCut: what failed or was rolled back is no commit, with a begin or without.
func TestOnlyCommitsAreCut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.CutAfterCommit(1, pgproxy.Containing("into written"))
	conn := r.connect()
	if _, err := conn.Exec(t.Context(), `insert into written select 1/(n - 1) from generate_series(1, 2) n`); err == nil {
		t.Error("a division by zero went well")
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `insert into written values (1)`); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := conn.Exec(t.Context(), `select 1`); err != nil || r.written() != 0 || r.proxy.Cuts() != 0 {
		t.Errorf("%v, %d rows are written, %d cuts", err, r.written(), r.proxy.Cuts())
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	p := pgproxy.Start(t, "postgres://u@127.0.0.1:1/none")
	if conn, err := pgx.Connect(t.Context(), p.URL()); err == nil {
		t.Errorf("connected to %v", conn)
	}
}

func TestCutsAtAQuery(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.CutAtQuery(1, pgproxy.Containing("into written"))
	if err := write(t.Context(), r.connect(), "in one batch", 1); err == nil || r.written() != 0 || r.proxy.Cuts() != 1 {
		t.Errorf("%v, %d rows are written, %d cuts", err, r.written(), r.proxy.Cuts())
	}
	if err := write(t.Context(), r.connect(), "in one batch", 2); err != nil || r.written() != 1 {
		t.Errorf("only one query was to be cut: %v", err)
	}
}

func TestFreezeAndThaw(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn, stuck := r.connect(), r.connect()
	r.proxy.Freeze()
	done := make(chan error, 1)
	go func() { done <- write(context.Background(), conn, "in one batch", 1) }()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := write(short, stuck, "in one batch", 2); err == nil {
		t.Error("something passed")
	}
	if n := r.written(); n != 0 {
		t.Errorf("%d rows are written", n)
	}
	r.proxy.Thaw()
	if err := <-done; err != nil {
		t.Errorf("after the thaw: %v", err)
	}
}

func TestDownAndUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn := r.connect()
	r.proxy.Down()
	if err := write(t.Context(), conn, "step by step", 1); err == nil {
		t.Error("something passed")
	}
	if other, err := pgx.Connect(t.Context(), r.proxy.URL()); err == nil {
		t.Errorf("connected to %v", other)
	}
	r.proxy.Up()
	if err := write(t.Context(), r.connect(), "step by step", 2); err != nil || r.written() != 1 {
		t.Errorf("%v, %d rows are written", err, r.written())
	}
}

func TestSlow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn := r.connect()
	r.proxy.Slow(7, time.Microsecond)
	if err := write(t.Context(), conn, "step by step", 1); err != nil {
		t.Error(err)
	}
	r.proxy.Slow(0, 0)
	if err := write(t.Context(), conn, "in one batch", 2); err != nil || r.written() != 2 {
		t.Errorf("%v, %d rows are written", err, r.written())
	}
}
