package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/retry"
)

// onEach runs a test with a service of its own on each face.
func onEach(t *testing.T, o inbox.Options, test func(t *testing.T, s *service, f face, metrics func(name, label string) int)) {
	t.Helper()
	for _, name := range []string{"pgx", "database/sql"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, reg := newService(t), prometheus.NewRegistry()
			o := o
			o.Metrics = inbox.NewMetrics(reg)
			test(t, s, s.faces(o)[name], func(name, label string) int { return counter(t, reg, name, label) })
		})
	}
}

// counter reads a counter by its name and the value of its label.
func counter(t *testing.T, reg *prometheus.Registry, name, label string) int {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	t.Fatalf("no metric %s %s", name, label)
	return 0
}

const messages, retries = "postrider_inbox_messages_total", "postrider_inbox_retries_total"

func TestProcess(t *testing.T) {
	t.Parallel()
	onEach(t, inbox.Options{Group: "g"}, func(t *testing.T, s *service, f face, metrics func(string, string) int) {
		handle := func(_ context.Context, exec execFunc) error { return exec(putEffect, "g", "m") }
		for turn := range 3 {
			if first, err := f.process(t.Context(), "m", handle); err != nil || first != (turn == 0) {
				t.Errorf("turn %d: %v, %v", turn, first, err)
			}
		}
		if s.effects("m") != 1 || metrics(messages, "handled") != 1 || metrics(messages, "duplicate") != 2 || metrics(messages, "failed") != 0 {
			t.Errorf("%d effects", s.effects("m"))
		}
		// The pool gets every connection back.
		s.eventually("transactions left open", 0, `select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`)
	})
}

func TestProcessEach(t *testing.T) {
	t.Parallel()
	onEach(t, inbox.Options{Group: "g"}, func(t *testing.T, s *service, f face, metrics func(string, string) int) {
		broken := errors.New("broken")
		all := func(ids []string, fail error) func(context.Context, execFunc, []int) error {
			return func(_ context.Context, exec execFunc, fresh []int) error {
				for _, n := range fresh {
					if err := exec(putEffect, "g", ids[n]); err != nil {
						return err
					}
				}
				return fail
			}
		}
		for _, c := range []struct {
			ids  []string
			fail error
			want int
		}{
			{[]string{"a", "b", "a"}, broken, 0}, // all or none
			{[]string{"a", "b", "a"}, nil, 2},
			{[]string{"b", "c"}, nil, 1},
			{[]string{"a", "c"}, broken, 0}, // is not asked
		} {
			n, err := f.each(t.Context(), c.ids, all(c.ids, c.fail))
			if n != c.want || (err != nil) != (c.fail != nil && n == 0 && c.ids[1] == "b") {
				t.Errorf("%v: %d, %v", c.ids, n, err)
			}
		}
		if a, b, c := s.effects("a"), s.effects("b"), s.effects("c"); a != 1 || b != 1 || c != 1 {
			t.Errorf("effects %d %d %d", a, b, c)
		}
		if metrics(messages, "handled") != 3 || metrics(messages, "duplicate") != 4 || metrics(messages, "failed") != 3 {
			t.Error("the metrics are wrong")
		}
	})
}

// A handler's mistake leaves nothing behind, and the message is handled when it comes again.
func TestHandlerFails(t *testing.T) {
	t.Parallel()
	own := errors.New("out of stock")
	for name, c := range map[string]struct {
		fail func(ctx context.Context, exec execFunc) error
		is   error
	}{
		"an error of its own":           {func(context.Context, execFunc) error { return own }, own},
		"an error of the database":      {func(_ context.Context, exec execFunc) error { return exec(`select 1/0`) }, nil},
		"an error that it passed over":  {func(_ context.Context, exec execFunc) error { _ = exec(`select 1/0`); return nil }, inbox.ErrTransactionEnded},
		"a constraint found at the end": {func(_ context.Context, exec execFunc) error { return exec(`insert into late values (1), (1)`) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, inbox.Options{Group: "g"}, func(t *testing.T, s *service, f face, metrics func(string, string) int) {
				s.exec(`create table late (n int, constraint late_unique unique (n) deferrable initially deferred)`)
				calls := 0
				_, err := f.process(t.Context(), "m", func(ctx context.Context, exec execFunc) error {
					calls++
					if err := exec(putEffect, "g", "m"); err != nil {
						return err
					}
					return c.fail(ctx, exec)
				})
				if err == nil || (c.is != nil && !errors.Is(err, c.is)) || calls != 1 {
					t.Errorf("%v, after %d calls", err, calls)
				}
				if s.effects("m") != 0 || metrics(retries, "unknown_outcome") != 0 {
					t.Errorf("%d effects", s.effects("m"))
				}
				first, err := f.process(t.Context(), "m", func(_ context.Context, exec execFunc) error { return exec(putEffect, "g", "m") })
				if err != nil || !first || s.effects("m") != 1 {
					t.Errorf("when it came again: %v, %v, %d effects", first, err, s.effects("m"))
				}
			})
		})
	}
}

// A panic goes on to the caller's recover, and leaves neither a row nor a transaction.
func TestHandlerPanics(t *testing.T) {
	t.Parallel()
	onEach(t, inbox.Options{Group: "g"}, func(t *testing.T, s *service, f face, _ func(string, string) int) {
		func() {
			defer func() {
				if got := recover(); got != "no" {
					t.Errorf("recovered %v", got)
				}
			}()
			_, _ = f.process(t.Context(), "m", func(_ context.Context, exec execFunc) error {
				_ = exec(putEffect, "g", "m")
				panic("no")
			})
		}()
		if first, err := f.process(t.Context(), "m", func(context.Context, execFunc) error { return nil }); err != nil || !first || s.effects("m") != 0 {
			t.Errorf("%v, %v, %d effects", first, err, s.effects("m"))
		}
	})
}

// A handler that ends the transaction by its methods is told so.
func TestHandlerEndsTransaction(t *testing.T) {
	t.Parallel()
	s := newService(t)
	byPGX, err := inbox.New(s.pool, inbox.Options{Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := byPGX.Process(t.Context(), "m", func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }); !errors.Is(err, inbox.ErrTransactionEnded) {
		t.Errorf("pgx: %v", err)
	}
	if _, err := byPGX.Process(t.Context(), "m", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "rollback")
		return err
	}); !errors.Is(err, inbox.ErrTransactionEnded) {
		t.Errorf("pgx, as a statement: %v", err)
	}
	bySQL, err := inbox.NewSQL(s.sql, inbox.Options{Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bySQL.Process(t.Context(), "m", func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }); !errors.Is(err, inbox.ErrTransactionEnded) {
		t.Errorf("database/sql: %v", err)
	}
	if s.count(`select count(*) from inbox_message`) != 0 {
		t.Error("the message counts as handled")
	}
}

// Two handlers that lock the same rows in opposite order: the server ends one of them, which is tried again.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	onEach(t, inbox.Options{Group: "g"}, func(t *testing.T, s *service, f face, metrics func(string, string) int) {
		const add = `update account set balance = balance + 1 where id = $1`
		var once [2]sync.Once
		var both, wg sync.WaitGroup
		both.Add(2)
		for n, order := range [][2]int{{1, 2}, {2, 1}} {
			wg.Go(func() {
				first, err := f.process(t.Context(), fmt.Sprint("m", n), func(_ context.Context, exec execFunc) error {
					if err := exec(add, order[0]); err != nil {
						return err
					}
					once[n].Do(func() { both.Done(); both.Wait() }) // in the first try each has one row
					return exec(add, order[1])
				})
				if err != nil || !first {
					t.Errorf("%v, %v", first, err)
				}
			})
		}
		wg.Wait()
		if got := s.count(`select sum(balance) from account`); got != 4 || metrics(retries, "deadlock") == 0 {
			t.Errorf("the balances add up to %d, want 4; %d deadlocks", got, metrics(retries, "deadlock"))
		}
	})
}

// Handlers that read each other's writes fail under SERIALIZABLE, are tried again, and all take effect once.
func TestSerializationFailure(t *testing.T) {
	t.Parallel()
	o := inbox.Options{Group: "g", Isolation: sql.LevelSerializable, Retry: retry.Policy{MaxAttempts: 100, Base: time.Millisecond, Max: 20 * time.Millisecond, Jitter: 1}}
	onEach(t, o, func(t *testing.T, s *service, f face, metrics func(string, string) int) {
		var first, wg sync.WaitGroup
		first.Add(2)
		for n := range 2 {
			wg.Go(func() {
				var once sync.Once
				_, err := f.process(t.Context(), fmt.Sprint("m", n), func(_ context.Context, exec execFunc) error {
					// Each writes the row that the other has read: not both can have been first.
					if err := exec(`select sum(balance) from account`); err != nil {
						return err
					}
					once.Do(func() { first.Done(); first.Wait() })
					return exec(`update account set balance = (select sum(balance) from account) + 1 where id = $1`, n+1)
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		// One after the other in either order: 1, then 1 + 1.
		if low, high := s.count(`select min(balance) from account`), s.count(`select max(balance) from account`); low != 1 || high != 2 {
			t.Errorf("balances %d and %d, want 1 and 2", low, high)
		}
		if metrics(retries, "serialization") == 0 {
			t.Error("nothing failed to serialize: nothing was tested")
		}
	})
}

// Copies under REPEATABLE READ and SERIALIZABLE: the one that waited fails to serialize, looks again and sees the row.
func TestCopiesAboveReadCommitted(t *testing.T) {
	t.Parallel()
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			onEach(t, inbox.Options{Group: "g", Isolation: level}, func(t *testing.T, s *service, f face, metrics func(string, string) int) {
				started, finish := make(chan struct{}), make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					if first, err := f.process(t.Context(), "m", func(_ context.Context, exec execFunc) error {
						close(started)
						<-finish
						return exec(putEffect, "g", "m")
					}); err != nil || !first {
						t.Errorf("the first: %v, %v", first, err)
					}
				})
				<-started
				wg.Go(func() {
					if first, err := f.process(t.Context(), "m", func(_ context.Context, exec execFunc) error { return exec(putEffect, "g", "m") }); err != nil || first {
						t.Errorf("the copy: %v, %v", first, err)
					}
				})
				s.eventually("copies that wait", 1, waiting)
				close(finish)
				wg.Wait()
				if s.effects("m") != 1 || metrics(retries, "serialization") == 0 {
					t.Errorf("%d effects, %d failures to serialize", s.effects("m"), metrics(retries, "serialization"))
				}
			})
		})
	}
}

// The end of the caller's context rolls back a transaction whose commit has not begun.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	onEach(t, inbox.Options{Group: "g"}, func(t *testing.T, s *service, f face, _ func(string, string) int) {
		why := errors.New("the service stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := f.process(ctx, "m", func(_ context.Context, exec execFunc) error {
			if err := exec(putEffect, "g", "m"); err != nil {
				return err
			}
			cancel(why)
			return nil
		})
		if !errors.Is(err, why) || s.effects("m") != 0 {
			t.Errorf("%v, %d effects", err, s.effects("m"))
		}
		if _, err := f.process(ctx, "m", func(context.Context, execFunc) error { t.Error("called"); return nil }); !errors.Is(err, why) {
			t.Errorf("begun after the end: %v", err)
		}
		if first, err := f.process(t.Context(), "m", func(context.Context, execFunc) error { return nil }); err != nil || !first {
			t.Errorf("when it came again: %v, %v", first, err)
		}
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for mention, o := range map[string]inbox.Options{
		"Group":         {},
		"Isolation":     {Group: "g", Isolation: sql.LevelSnapshot},
		"CommitTimeout": {Group: "g", CommitTimeout: -1},
		"Retry":         {Group: "g", Retry: retry.Policy{MaxAttempts: 1}},
	} {
		_, one := inbox.New(nil, o)
		_, other := inbox.NewSQL(nil, o)
		for _, err := range []error{one, other} {
			if !errors.Is(err, inbox.ErrInvalid) || !strings.Contains(err.Error(), mention) {
				t.Errorf("%s: %v", mention, err)
			}
		}
	}
	db := pgtest.NewEmpty(t)
	p, err := inbox.New(db.Pool(t), inbox.Options{Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Process(t.Context(), "m", nil); err == nil || !strings.Contains(err.Error(), "inbox.Migrate") {
		t.Errorf("no table: %v", err)
	}
}

func TestMetricsAreThereAtOnce(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	inbox.NewMetrics(reg)
	inbox.NewMetrics(nil)
	if n, err := testutil.GatherAndCount(reg); err != nil || n != 3+4+1 {
		t.Errorf("%d series, %v", n, err)
	}
}
