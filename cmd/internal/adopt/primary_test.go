package adopt_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestAServerThatSaysNoPosition: where the functions of the write-ahead log are refused (55000), the cutover and its plan say which
// endpoint to give, before a writer waits for a lock, and the table is as before.
func TestAServerThatSaysNoPosition(t *testing.T) {
	t.Parallel()
	m := newMove(t, `create publication dbz for table "Out box"`)
	m.shadow()
	pgtest.Exec(t, m.conn, `create schema refusing; create function refusing.pg_current_wal_insert_lsn() returns pg_lsn language plpgsql as
		$$ begin raise exception 'WAL control functions cannot be executed' using errcode = 'object_not_in_prerequisite_state'; end $$`)
	address, err := url.Parse(m.url)
	if err != nil {
		t.Fatal(err)
	}
	q := address.Query()
	q.Set("search_path", "refusing,pg_catalog,public")
	address.RawQuery = q.Encode()
	refused, said := adopter(connect(t, address.String()))
	refused.Attempts = 1
	writer := connect(t, m.url)
	pgtest.Exec(t, writer, `begin; insert into public."Out box" (aggregatetype, aggregateid, payload) values ('Order', 'k', 'p')`)
	_, planErr := refused.ShowCutover(t.Context(), theTable, adopt.Cutover{})
	for _, err := range []error{planErr, refused.Cutover(t.Context(), theTable, adopt.Cutover{})} {
		if err == nil || !strings.Contains(err.Error(), "SQLSTATE 55000: WAL control functions cannot be executed") || !strings.Contains(err.Error(), "cluster endpoint") || !strings.Contains(err.Error(), "database.hostname") {
			t.Errorf("%v, %q", err, *said)
		}
	}
	pgtest.Exec(t, writer, `commit`)
	if in := pgtest.Value[int](t, m.conn, `select count(*) from pg_publication_tables where tablename = 'Out box'`); in != 1 || m.mode() != adopt.ModeShadow {
		t.Errorf("the table is in %d publications, its mode is %s", in, m.mode())
	}
	m.send(m.conn)
	if err := m.a.Cutover(t.Context(), theTable, adopt.Cutover{}); err != nil || m.mode() != adopt.ModeForward {
		t.Errorf("at an endpoint that says it: %v, %s", err, m.mode())
	}
}

// TestAStandbyIsRefused: every change, and its plan, names the server and says to give the primary.
func TestAStandbyIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // PostgreSQL may run as another user
		t.Fatal(err)
	}
	options := pgserver.Options{Dir: dir, Settings: map[string]string{"fsync": "off", "wal_level": "logical"}}
	server, err := pgserver.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	primary := connect(t, server.URL())
	all, err := migrations.All()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.New(primary, all).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, primary, outbox+`; create publication dbz for table outbox`)
	a, _ := adopter(primary)
	if err := a.Adopt(t.Context(), plain, adopt.Wish{Definition: debezium(t), Mode: adopt.ModeShadow, Prefix: "s.", Connector: adopt.Connector{Slot: "s", Publication: "dbz"}}); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	signal := filepath.Join(dir, "data", "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	owner, err := os.Stat(filepath.Join(dir, "data", "PG_VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	if st := owner.Sys().(*syscall.Stat_t); os.Geteuid() == 0 {
		if err := os.Chown(signal, int(st.Uid), int(st.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	standby, err := pgserver.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop(context.Background()) })
	conn := connect(t, standby.URL())
	a, said := adopter(conn)
	ctx := t.Context()
	wish := adopt.Wish{Definition: debezium(t), Mode: adopt.ModeShadow, Prefix: "t."}
	for what, do := range map[string]func() error{
		"shadow":           func() error { return a.Adopt(ctx, plain, wish) },
		"plan of a shadow": func() error { _, err := a.Show(ctx, plain, wish, false); return err },
		"remove":           func() error { return a.Remove(ctx, plain) },
		"cutover":          func() error { return a.Cutover(ctx, plain, adopt.Cutover{}) },
		"confirmed":        func() error { return a.Cutover(ctx, plain, adopt.Cutover{Confirmed: true}) },
		"plan":             func() error { _, err := a.ShowCutover(ctx, plain, adopt.Cutover{}); return err },
		"rollback":         func() error { return a.Rollback(ctx, plain, adopt.Rollback{}) },
		"view":             func() error { return a.AsView(ctx, plain) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "127.0.0.1:") || !strings.Contains(err.Error(), "is a standby") || !strings.Contains(err.Error(), "cluster endpoint") {
			t.Errorf("%s: %v, %q", what, err, *said)
		}
	}
	pool, err := pgxpool.New(ctx, standby.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := adopt.CanFence(ctx, pool); err == nil || !strings.Contains(err.Error(), "is a standby") {
		t.Errorf("a fence on a standby: %v", err)
	}
	if now, err := adopt.ReadShadow(ctx, pool, plain); err != nil || now.Prefix != "s." { // what changes nothing works there
		t.Errorf("%+v, %v", now, err)
	}
}
