package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
)

// sqlstates says what each error that the server can answer with must mean to an operator: the class,
// the code that the operator sees, and a word that the hint must have.
var sqlstates = map[string]struct {
	class relay.StoreClass
	code  string
	hint  string
}{
	"08000": {relay.StoreTransient, relay.CodeOther, ""}, "08003": {relay.StoreTransient, relay.CodeOther, ""},
	"08006": {relay.StoreTransient, relay.CodeOther, ""}, "08P01": {relay.StoreTransient, relay.CodeOther, ""},
	"0A000": {relay.StoreTransient, "0A000", ""},
	"22001": {relay.StorePermanent, relay.CodeOther, "migrate up"}, "22021": {relay.StorePermanent, relay.CodeOther, "migrate up"},
	"23502": {relay.StorePermanent, relay.CodeOther, "migrate up"}, "23505": {relay.StorePermanent, relay.CodeOther, "migrate up"},
	"23514": {relay.StorePermanent, relay.CodeOther, "migrate up"},
	"25006": {relay.StoreTransient, "25006", "primary"}, "25P02": {relay.StoreTransient, "25P02", ""},
	"25P03": {relay.StoreTransient, "25P03", "outbox.publish_timeout"}, "25P04": {relay.StoreTransient, "25P04", "transaction_timeout"},
	"26000": {relay.StoreTransient, "26000", ""},
	"28000": {relay.StorePermanent, "28000", "password"}, "28P01": {relay.StorePermanent, "28P01", "password"},
	"3D000": {relay.StorePermanent, "3D000", "database.url"}, "3F000": {relay.StorePermanent, "3F000", "migrate up"},
	"40001": {relay.StoreTransient, "40001", ""}, "40003": {relay.StoreUnknownOutcome, "40003", ""}, "40P01": {relay.StoreTransient, "40P01", ""},
	"40002": {relay.StoreTransient, relay.CodeOther, ""},
	"42501": {relay.StorePermanent, "42501", "migrate roles --apply"}, "42601": {relay.StorePermanent, relay.CodeOther, "migrate up"},
	"42703": {relay.StorePermanent, "42703", "migrate up"}, "42704": {relay.StorePermanent, "42704", "migrate up"},
	"42883": {relay.StorePermanent, "42883", "migrate up"}, "42P01": {relay.StorePermanent, "42P01", "migrate up"},
	"53000": {relay.StoreTransient, "53000", "log"}, "53100": {relay.StoreTransient, "53100", "disk"}, "53200": {relay.StoreTransient, "53200", "memory"},
	"53300": {relay.StoreTransient, "53300", "connection"}, "53400": {relay.StoreTransient, "53400", "log"},
	"54000": {relay.StorePermanent, relay.CodeOther, "log"}, "54001": {relay.StorePermanent, relay.CodeOther, "log"},
	"55000": {relay.StoreTransient, relay.CodeOther, ""}, "55006": {relay.StoreTransient, "55006", ""}, "55P03": {relay.StoreTransient, "55P03", "lock"},
	"57014": {relay.StoreTransient, "57014", "statement_timeout"}, "57P01": {relay.StoreTransient, "57P01", ""}, "57P02": {relay.StoreTransient, "57P02", ""},
	"57P03": {relay.StoreTransient, "57P03", ""}, "57P04": {relay.StoreTransient, relay.CodeOther, ""}, "57P05": {relay.StoreTransient, "57P05", ""},
	"58000": {relay.StoreTransient, relay.CodeOther, "log"}, "58030": {relay.StoreTransient, relay.CodeOther, "log"},
	"P0001": {relay.StorePermanent, "P0001", "trigger"}, "P0002": {relay.StorePermanent, relay.CodeOther, "log"},
	"XX000": {relay.StoreTransient, relay.CodeOther, "log"}, "XX001": {relay.StorePermanent, "XX001", "damaged"}, "XX002": {relay.StorePermanent, "XX002", "reindex"},
	"28P99": {relay.StorePermanent, relay.CodeOther, "password"}, "53999": {relay.StoreTransient, relay.CodeOther, "log"}, // of a newer server
	"ZZ999": {relay.StoreTransient, relay.CodeOther, ""}, "": {relay.StoreTransient, relay.CodeOther, ""}, // unknown states
}

func TestClassifyEveryState(t *testing.T) {
	t.Parallel()
	for state, want := range sqlstates {
		for _, severity := range []string{"ERROR", "FATAL"} {
			for _, writing := range []bool{false, true} {
				pg := &pgconn.PgError{SeverityUnlocalized: severity, Code: state, Message: "why"}
				got := classify(fmt.Errorf("settle: %w", pg), writing)
				class := want.class
				if writing && severity == "FATAL" {
					class = relay.StoreUnknownOutcome // it may have committed before it went
				}
				if got.Class != class || got.Code != want.code || (want.hint == "") != (got.Hint == "") || !strings.Contains(got.Hint, want.hint) || !errors.Is(got, pg) {
					t.Errorf("%s, %s, writing %v: %s, %s, hint %q; want %s, %s, a hint with %q", state, severity, writing, got.Class, got.Code, got.Hint, class, want.code, want.hint)
				}
			}
		}
	}
	for state := range states {
		if _, ok := sqlstates[state]; !ok {
			t.Errorf("%s has a meaning and no line in this test", state)
		}
	}
	for class := range stateClasses {
		found := false
		for state, want := range sqlstates {
			found = found || strings.HasPrefix(state, class) && want.code == relay.CodeOther
		}
		if !found {
			t.Errorf("class %s has a meaning and no line in this test", class)
		}
	}
}

func TestClassifyWhatIsNotTheServers(t *testing.T) {
	t.Parallel()
	unreachable := connectError(t, "postgres://nobody@127.0.0.1:1/none?sslmode=disable")
	for name, c := range map[string]struct {
		err     error
		writing bool
		class   relay.StoreClass
		code    string
	}{
		"reply lost at a commit":        {io.ErrUnexpectedEOF, true, relay.StoreUnknownOutcome, codeConnectionLost},
		"connection found closed":       {pgconn.ErrConnClosed, true, relay.StoreUnknownOutcome, codeConnectionLost},
		"connection reset":              {&net.OpError{Op: "read", Err: errors.New("reset")}, true, relay.StoreUnknownOutcome, codeConnectionLost},
		"reply lost while reading":      {io.ErrUnexpectedEOF, false, relay.StoreTransient, codeConnectionLost},
		"no answer to a commit":         {context.DeadlineExceeded, true, relay.StoreUnknownOutcome, codeTimeout},
		"no answer":                     {context.DeadlineExceeded, false, relay.StoreTransient, codeTimeout},
		"nothing listens":               {unreachable, false, relay.StoreTransient, codeUnreachable},
		"nothing listens, for a commit": {unreachable, true, relay.StoreTransient, codeUnreachable},
		"a standby":                     {ErrReadOnlyServer, true, relay.StoreTransient, codeReadOnlyServer},
		"ids that were rewound":         {rewound(1, 2), true, relay.StorePermanent, codeRewound},
		"a term that is not admitted":   {fmt.Errorf("%w: because", ErrNotAdmitted), true, relay.StorePermanent, codeNotAdmitted},
		"a row changed by hand":         {pgx.ScanArgError{ColumnIndex: 9, Err: errors.New("cannot scan NULL")}, true, relay.StorePermanent, codeUnreadable},
	} {
		if got := classify(fmt.Errorf("doing: %w", c.err), c.writing); got.Class != c.class || got.Code != c.code {
			t.Errorf("%s: %s, %s, want %s, %s", name, got.Class, got.Code, c.class, c.code)
		}
	}
}

func connectError(t *testing.T, url string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		_ = conn.Close(t.Context())
		t.Fatalf("connected to %s", url)
	}
	return err
}

// storeWith opens a store whose sessions have other settings.
func (f *fixture) storeWith(url string, settings map[string]string) (*Store, *pgxpool.Pool) {
	f.Helper()
	base, err := NewPool(f.Context(), url, Options{})
	if err != nil {
		f.Fatal(err)
	}
	cfg := base.Config()
	base.Close()
	before := cfg.BeforeConnect // sets the relay's own
	cfg.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		err := before(ctx, c)
		for name, value := range settings {
			c.RuntimeParams[name] = value
		}
		return err
	}
	pool, err := pgxpool.NewWithConfig(f.Context(), cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(pool.Close)
	return NewStore(pool, StoreOptions{}), pool
}

// TestErrorsOfARealServer provokes what a server answers, and asks what the store makes of it.
func TestErrorsOfARealServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		provoke func(f *fixture) error
		class   relay.StoreClass
		code    string
		text    string
	}{
		"table gone": {func(f *fixture) error {
			f.exec(`alter table postrider.outbox_hold rename to elsewhere`)
			return f.leadError(f.store)
		}, relay.StorePermanent, "42P01", "postrider migrate up"},
		"column gone": {func(f *fixture) error {
			f.exec(`alter table postrider.outbox_event rename column headers to titles`)
			_, err := f.leader().Read(f.Context(), relay.Question{Events: 1})
			return err
		}, relay.StorePermanent, "42703", "postrider migrate up"},
		"no rights": {func(f *fixture) error {
			store, _ := f.storeAs(`grant usage on schema postrider to %[1]s; grant select on all tables in schema postrider to %[1]s`)
			return f.leadError(store)
		}, relay.StorePermanent, "42501", "postrider migrate roles --apply"},
		"no connection left": {func(f *fixture) error {
			store, _ := f.storeAs(`alter role %[1]s connection limit 0`)
			return f.leadError(store)
		}, relay.StoreTransient, "53300", "raise the limit"},
		"statement too slow": {func(f *fixture) error {
			f.exec(slowSettle)
			store, _ := f.storeWith(f.db.URL, map[string]string{"statement_timeout": "500ms"})
			return f.settleError(f.leadBy(store, "w"))
		}, relay.StoreTransient, "57014", "statement_timeout"},
		"lock not had": {func(f *fixture) error {
			store, _ := f.storeWith(f.db.URL, map[string]string{"lock_timeout": "50ms"})
			defer f.locking(`lock table postrider.outbox_receipt in access exclusive mode`)("rollback")
			return f.leadError(store)
		}, relay.StoreTransient, "55P03", "pg_locks"},
		"session ended": {func(f *fixture) error {
			f.exec(`create function fall() returns trigger language plpgsql as $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;
				create trigger fall before insert on postrider.outbox_receipt for each row when (new.note is null) execute function fall()`)
			return f.settleError(f.leader())
		}, relay.StoreUnknownOutcome, "57P01", ""},
		"read-only transactions": {func(f *fixture) error {
			store, _ := f.storeWith(f.db.URL, nil)
			_, err := store.pool.Exec(f.Context(), `select 1`)
			if err == nil {
				_, err = store.pool.Exec(f.Context(), `set session characteristics as transaction read only`)
			}
			if err != nil {
				return err
			}
			_, err = store.ClaimLetters(f.Context(), toDLQ, 1)
			if err != nil {
				return err
			}
			f.exhaust("a")
			_, err = store.ClaimLetters(f.Context(), toDLQ, 1)
			return err
		}, relay.StoreTransient, "25006", "primary"},
		"read-only server": {func(f *fixture) error {
			store, _ := f.storeWith(f.db.URL, map[string]string{"default_transaction_read_only": "on"})
			return f.leadError(store)
		}, relay.StoreTransient, codeReadOnlyServer, "primary"},
		"disk full": {func(f *fixture) error {
			f.exec(`create function full_disk() returns trigger language plpgsql as $$
				begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$`)
			f.exec(`create trigger full_disk before insert on postrider.outbox_receipt for each row when (new.note is null) execute function full_disk()`)
			return f.settleError(f.leader())
		}, relay.StoreTransient, "53100", "make room"},
		"a foreign trigger": {func(f *fixture) error {
			f.exec(`create function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$`)
			f.exec(`create trigger refuse before insert on postrider.outbox_receipt execute function refuse()`)
			return f.leadError(f.store)
		}, relay.StorePermanent, "P0001", "trigger"},
		"answer to a commit lost": {func(f *fixture) error {
			proxy := pgproxy.Start(f.T, f.db.URL)
			store, _ := f.storeWith(proxy.URL(), nil)
			d := f.leadBy(store, "w")
			proxy.CutAfterCommit(1, pgproxy.Containing("insert into postrider.outbox_receipt"))
			return f.settleError(d)
		}, relay.StoreUnknownOutcome, codeConnectionLost, ""},
		"not leading": {func(f *fixture) error {
			d := f.leader()
			f.letGo(d)
			return f.settleError(d)
		}, relay.StoreTransient, relay.CodeOther, "does not lead the outbox any more"},
		"too late": {func(f *fixture) error {
			d := f.leader()
			defer f.locking(`lock table postrider.outbox_event in access exclusive mode`)("rollback")
			ctx, cancel := context.WithTimeout(f.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := d.Read(ctx, relay.Question{Events: 1})
			return err
		}, relay.StoreTransient, codeTimeout, "locks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.insert("a")
			err := c.provoke(f)
			got, ok := errors.AsType[*relay.StoreError](err)
			if !ok || got.Class != c.class || got.Code != c.code || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v: %+v, want %s, %s and %q in the text", err, got, c.class, c.code, c.text)
			}
		})
	}
}

const slowSettle = `
create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(10); return null; end $$;
create trigger slow before insert on postrider.outbox_receipt for each row when (new.note is null) execute function slow()`

// leadError is why a store does not lead.
func (f *fixture) leadError(s *Store) error {
	f.Helper()
	l, err := s.Lead(f.Context(), "w")
	if l != nil {
		f.letGo(l.(*leadership))
	}
	return err
}

// settleError is why a receipt is not written.
func (f *fixture) settleError(d *leadership) error {
	return d.Settle(f.Context(), []*relay.Receipt{{Position: 1, Events: relay.Ranges{{First: 1, Last: 1}}}})
}

// storeAs opens a store for a login of its own, which has what the grants say, with its name in place of
// %[1]s.
func (f *fixture) storeAs(grants string) (*Store, *pgxpool.Pool) {
	f.Helper()
	name := f.db.Name
	f.exec(fmt.Sprintf(`create role %[1]s login password 'secret'`, name))
	f.Cleanup(func() {
		ctx := context.Background()
		_, _ = f.pool.Exec(ctx, fmt.Sprintf(`drop owned by %[1]s; drop role %[1]s`, name))
	})
	f.exec(fmt.Sprintf(grants, name))
	cfg, err := pgxpool.ParseConfig(f.db.URL)
	if err != nil {
		f.Fatal(err)
	}
	url := fmt.Sprintf("postgres://%s:secret@%s:%d/%s?sslmode=disable", name, cfg.ConnConfig.Host, cfg.ConnConfig.Port, f.db.Name)
	return f.storeWith(url, nil)
}

// TestServerThatIsAnotherNow: once one connection says that the server takes no writes, or goes, all are
// made anew, for they lead to the same place.
func TestServerThatIsAnotherNow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	store, pool := f.storeWith(f.db.URL, nil)
	var pids []uint32
	var conns []*pgxpool.Conn
	for range 5 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns, pids = append(conns, conn), append(pids, conn.Conn().PgConn().PID())
	}
	for _, c := range conns {
		c.Release()
	}
	err := error(&pgconn.PgError{Code: "40P01"})
	store.asStoreError(&err, false)
	if n := pool.Stat().TotalConns(); n != 5 {
		t.Fatalf("a deadlock cost %d connections", 5-n)
	}
	err = &pgconn.PgError{Code: "25006"}
	store.asStoreError(&err, false)
	f.waitFor(`select not exists (select from pg_stat_activity where pid = any ($1::bigint[]))`, pids)

	conn, acquired := pool.Acquire(t.Context())
	if acquired != nil {
		t.Fatal(acquired)
	}
	conn.Release()
	err = &pgconn.PgError{Code: "57P01"} // right after: of a connection made before
	store.asStoreError(&err, false)
	if n := pool.Stat().TotalConns(); n != 1 {
		t.Errorf("the new connection is given up for an old one, %d are left", n)
	}
	if err := f.leadError(store); err != nil {
		t.Error(err)
	}
	canceled := context.Canceled
	store.asStoreError(&canceled, true)
	if canceled != context.Canceled {
		t.Errorf("the end of the relay is called %v", canceled)
	}
}
