package migrations_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// failing is a good first migration and a second with the given SQL.
func failing(t *testing.T, up string) []migrations.Room {
	t.Helper()
	return load(t, map[string]string{"a/0001_base.sql": "create table base (id int primary key);", "a/0002_bad.sql": up})
}

func TestFailureNamesFileAndLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		up   string
		line int
		code string
		want []string // in the message
	}{
		"position of a name": {
			up:   "-- ünïcode before\ncreate table made (id int);\n\nselect id,\n       missing\nfrom base;\n",
			line: 5, code: "42703",
			want: []string{"a/0002_bad.sql failed at line 5", `column "missing" does not exist`, "       missing\n       |        ^", "SQLSTATE 42703"},
		},
		"syntax error": {
			up:   "create table made (id int);\ncreate tabel x ();",
			line: 2, code: "42601",
			want: []string{"line 2", ">    2 | create tabel x ();", "syntax error"},
		},
		"no position from the server": {
			up:   "create table made (id int);\nselect 1;\n\ninsert into base\nvalues (1), (1);\nselect 2;",
			line: 4, code: "23505",
			want: []string{"line 4", "     5 | values (1), (1);", "detail: Key (id)=(1) already exists"},
		},
		"raised in a block": {
			up:   "create table made (id int);\ndo $$\nbegin\n  raise exception 'not with this data' using hint = 'clean it first', detail = 'three rows';\nend $$;",
			line: 2, code: "P0001",
			want: []string{"not with this data", "hint of the server: clean it first", "detail: three rows", "where: PL/pgSQL"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := pgtest.NewEmpty(t).Conn(t)
			r := migrations.New(conn, failing(t, test.up))
			done, err := r.Up(t.Context())
			if len(done) != 1 || done[0].Version != 1 {
				t.Errorf("Up returns %v as done", done)
			}
			var failed *migrations.ApplyError
			var pg *pgconn.PgError
			if !errors.As(err, &failed) || !errors.As(err, &pg) {
				t.Fatalf("not an ApplyError of a PgError: %v", err)
			}
			if failed.Room != "a" || failed.Version != 2 || failed.Name != "bad" || failed.Line != test.line || failed.Unknown || pg.Code != test.code {
				t.Errorf("%+v", failed)
			}
			for _, want := range append(test.want, "rolled back") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the message lacks %q:\n%v", want, err)
				}
			}
			if exists(t, conn, "postrider.made") {
				t.Error("the failed migration left a table")
			}
			if v := version(t, r); v != 1 {
				t.Errorf("the history says %d", v)
			}
		})
	}
}

func TestFailureAtCommit(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	r := migrations.New(conn, failing(t,
		"create table made (id int references base deferrable initially deferred);\ninsert into made values (1);"))
	_, err := r.Up(t.Context())
	var failed *migrations.ApplyError
	if !errors.As(err, &failed) || failed.Unknown || !strings.Contains(err.Error(), "a/0002_bad.sql failed: ") {
		t.Fatalf("%v", err)
	}
	if v := version(t, r); v != 1 || exists(t, conn, "postrider.made") {
		t.Errorf("version %d after a refused commit", v)
	}
}

// TestFailureInCode: a file of the code that fails is named with its line, and takes the migration with it that is in
// its transaction.
func TestFailureInCode(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	r := migrations.New(conn, load(t, map[string]string{
		"a/0001_base.sql": "create table base (id int);", "a/code/fine.sql": "create view fine as select 1 as one;",
		"a/code/wrong.sql": "-- a view\ncreate view wrong as\nselect missing from base;",
	}))
	_, err := r.Up(t.Context())
	var failed *migrations.ApplyError
	if !errors.As(err, &failed) || failed.Room != "a" || failed.Version != 0 || failed.Name != "wrong" || failed.Line != 3 ||
		!strings.Contains(err.Error(), "a/code/wrong.sql failed at line 3") {
		t.Errorf("%v", err)
	}
	if version(t, r) != 0 || exists(t, conn, "postrider.base") {
		t.Error("the migration of a transaction whose code failed is there")
	}
}

func TestLockTimeout(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	busy, conn := db.Conn(t), db.Conn(t)
	r := migrations.New(conn, failing(t, "select 1;\n-- waits;\nalter table base add column more int;"), migrations.WithLockTimeout(time.Millisecond))
	do(t, migrations.New(conn, load(t, map[string]string{"a/0001_base.sql": "create table base (id int primary key);"})).Up)
	execute(t, busy, "begin; lock table postrider.base in access share mode")
	_, err := r.Up(t.Context())
	var failed *migrations.ApplyError
	if !errors.As(err, &failed) || failed.Line != 3 || !strings.Contains(failed.Hint, "lock_timeout") {
		t.Fatalf("%v", err)
	}
	execute(t, busy, "commit")
	if got := do(t, r.Up); len(got) != 1 {
		t.Errorf("Up after the lock was free ran %v", got)
	}
}

// TestRoleSettingsDoNotMatter: a role's own search_path and timeout have no say.
func TestRoleSettingsDoNotMatter(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	execute(t, conn, "create schema elsewhere; set search_path = elsewhere; set default_transaction_read_only = on; set default_transaction_isolation = 'serializable'")
	do(t, migrations.New(conn, failing(t, "create table made (id int);\nselect pg_sleep(0);")).Up)
	if !exists(t, conn, "postrider.made") {
		t.Error("an unqualified table is not in the schema postrider")
	}
	var path string
	if err := conn.QueryRow(t.Context(), "show search_path").Scan(&path); err != nil || path != "elsewhere" {
		t.Errorf("the session's search_path is %q afterwards, %v", path, err)
	}
}

// cutAtCommit is a connection that breaks when a COMMIT is sent.
type cutAtCommit struct{ net.Conn }

func (c cutAtCommit) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("commit\x00")) {
		_ = c.Close()
	}
	return c.Conn.Write(b)
}

func TestConnectionLostAtCommit(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	config, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return cutAtCommit{conn}, nil
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	all := tables(t, 1)
	_, err = migrations.New(conn, all).Up(t.Context())
	var failed *migrations.ApplyError
	if !errors.As(err, &failed) || !failed.Unknown || !strings.Contains(err.Error(), "postrider migrate status") {
		t.Fatalf("%v", err)
	}
	// Whatever became of it, another runner goes on from there.
	r := migrations.New(db.Conn(t), all)
	do(t, r.Up)
	if err := r.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}
