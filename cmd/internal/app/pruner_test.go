package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestOldRowsOfTheDeskGo: a process that serves the desk removes what is older than the settings say, with the rights of
// postrider_relay.
func TestOldRowsOfTheDeskGo(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	conn, address, _ := asRelay(t, db, broker)
	pgtest.Exec(t, conn, `
		insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, resolution_status, resolution_timestamp)
		select 'event', 'old ' || n, 'failed', 'max_retries_exceeded', now(), now(), '{}', 'cancelled', now() - n * interval '1 day' from generate_series(9, 12) n;
		insert into postrider.dlq_operation (kind, name, actor, state, scope, finished_at) select 'purge', 'old ' || n, 'a', 'completed', '{}', now() - n * interval '1 day' from generate_series(9, 12) n;
		insert into postrider.access_audit (actor, action, target_type, at) select 'old', 'b', 'c', now() - n * interval '1 day' from generate_series(39, 42) n;
		insert into postrider.access_answer (access_key_id, idempotency_key, request_hash, created_at) select 'k', n::text, '', now() - n * interval '1 day' from generate_series(9, 12) n`)
	c := settings(t, address, broker.Addrs...)
	c.DLQ.RetentionDays, c.DLQ.OperationRetentionDays, c.DLQ.AuditRetentionDays, c.HTTP.IdempotencyTTL = 10, 10, 40, 10*24*3600*1e9
	a := run(t, Options{Config: c, Roles: []Role{Operator, HTTP}})
	for _, table := range []string{"dlq_entry", "dlq_operation", "access_audit where actor = 'old'", "access_answer"} {
		eventually(t, table, func() (bool, string) {
			n := pgtest.Value[int](t, conn, "select count(*) from postrider."+table)
			return n == 1, strings.Repeat("|", n)
		})
	}
	_, metrics := get(t, a, "/metrics")
	for _, kind := range []string{"investigation", "operation", "audit", "answer"} {
		if line := `postrider_pruned_total{kind="` + kind + `"} 3`; !strings.Contains(metrics, line) {
			t.Errorf("no %s", line)
		}
	}
}

// testPruner removes rows of one kind, up to 500 in a portion.
func testPruner(t *testing.T, remove func(ctx context.Context, keep time.Duration, limit int) (int, bool, error)) *pruner {
	t.Helper()
	p := &pruner{log: slog.New(slog.DiscardHandler)}
	p.add("heavy", time.Hour, 500, remove)
	if err := p.register(prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestHeavyPortionsShrinkAndGrow: rows that are too heavy for a portion are removed in smaller ones, which grow only while
// they are quick. A portion that times out is tried again once in a pass, and smaller in the next. Another error ends the
// pass, and so does one row that takes too long.
func TestHeavyPortionsShrinkAndGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left, heavy, each := 1200, 200, 3*time.Second // the rows that are left, how many of them are heavy, and what a heavy one takes
		var asked []int
		var fail error
		p := testPruner(t, func(_ context.Context, _ time.Duration, limit int) (int, bool, error) {
			asked = append(asked, limit)
			if fail != nil {
				return 0, false, fail
			}
			takes := time.Duration(min(limit, heavy)) * each
			if time.Sleep(min(takes, time.Minute)); takes > time.Minute {
				return 0, false, context.DeadlineExceeded
			}
			n := min(limit, left)
			left, heavy = left-n, max(heavy-n, 0)
			return n, n == limit, nil
		})
		pass := func(what string, errs float64, want ...int) {
			t.Helper()
			asked = nil
			p.pass(t.Context())
			if got := testutil.ToFloat64(p.errors.WithLabelValues("heavy")); !slices.Equal(asked, want) || got != errs {
				t.Errorf("%s: portions of %v rows, %v errors, want %v and %v", what, asked, got, want, errs)
			}
		}
		// 500, 125 and 31 time out. The heavy rows take 21 s for each seven; then portions double.
		pass("heavy rows", 2, 500, 125)
		want := []int{31, 7}
		for range 28 {
			want = append(want, 7)
		}
		pass("heavy rows again", 3, append(want, 7, 14, 28, 56, 112, 224, 448, 500)...)
		if left != 0 || testutil.ToFloat64(p.rows.WithLabelValues("heavy")) != 1200 {
			t.Errorf("%d rows are left", left)
		}
		pass("nothing", 3, 500)
		fail = errors.New("the login lacks rights")
		pass("another error", 4, 500)
		fail, left, heavy, each = nil, 10, 10, time.Hour
		pass("one row is too heavy", 6, 500, 125)
		pass("it is with fewer", 8, 31, 7)
		pass("it still is", 9, 1)
		pass("and is", 10, 1)
		heavy = 0
		pass("it is not any more", 10, 1, 2, 4, 8)
	})
}

// TestTimedOut: a statement that the server ends because of statement_timeout, and one that the client gives up; not a
// connection that cannot be made.
func TestTimedOut(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	pgtest.Exec(t, conn, `set statement_timeout = '20ms'`)
	_, err := conn.Exec(t.Context(), `select pg_sleep(60)`)
	if !timedOut(err) {
		t.Errorf("the server's timeout is %v", err)
	}
	if _, err = conn.Exec(t.Context(), `select 1 / 0`); err == nil || timedOut(err) {
		t.Errorf("a division by zero is a timeout: %v", err)
	}
	// A server that takes connections and never answers.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, err = pgx.Connect(t.Context(), "postgres://postgres@"+silent.Addr().String()+"/postgres?sslmode=disable&connect_timeout=1")
	if !errors.Is(err, context.DeadlineExceeded) || timedOut(err) {
		t.Errorf("a database that cannot be reached: %v, a timeout of a statement: %t", err, timedOut(err))
	}
	pgtest.Exec(t, conn, `set statement_timeout = 0`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err = conn.Exec(ctx, `select pg_sleep(60)`); !timedOut(err) {
		t.Errorf("the client's timeout is %v", err)
	}
}
