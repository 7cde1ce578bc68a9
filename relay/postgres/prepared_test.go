package postgres

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/migrations"
	"github.com/postrider/postrider/migrations/pgserver"
)

// TestFenceOverARestart: after a restart of the server a prepared transaction, which nothing but its end
// makes final, holds its locks under another name than the fence has noted.
func TestFenceOverARestart(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	// Started by root, PostgreSQL runs as somebody else, who must be let in.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	options := pgserver.Options{Dir: dir, Settings: map[string]string{"fsync": "off", "shared_buffers": "16MB", "max_prepared_transactions": "5"}}
	boot := func() *pgserver.Server {
		t.Helper()
		server, err := pgserver.Start(ctx, options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Stop(context.Background()) }) // the first one is stopped by then
		return server
	}
	connect := func(server *pgserver.Server) *pgx.Conn {
		t.Helper()
		conn, err := pgx.Connect(ctx, server.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	exec := func(conn *pgx.Conn, statements ...string) {
		t.Helper()
		for _, sql := range statements {
			if _, err := conn.Exec(ctx, sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
	order := &commitOrder{}
	final := func(server *pgserver.Server, when string, want int64) {
		t.Helper()
		pool, err := NewPool(ctx, server.URL(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		for range 2 {
			through, _, _, err := order.final(ctx, sessions{pool})
			if err != nil {
				t.Fatal(err)
			}
			if through != want {
				t.Errorf("%s: final up to %d, want %d", when, through, want)
			}
		}
	}

	server := boot()
	conn := connect(server)
	all, err := migrations.All()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.New(conn, all).Up(ctx); err != nil {
		t.Fatal(err)
	}
	const insert = `insert into postrider.outbox_event (topic) values ('t')`
	exec(conn, insert)
	final(server, "nobody is open", 1)
	exec(conn, "begin", insert)
	exec(connect(server), insert)
	final(server, "2 is open", 1)
	exec(conn, "prepare transaction 'left over'")
	final(server, "2 is prepared", 1)
	if err := server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	server = boot()
	final(server, "after a restart", 0) // of which nothing is known until what was prepared has ended
	exec(connect(server), "commit prepared 'left over'")
	// The sequence may have skipped some ids with the restart.
	pool, err := NewPool(ctx, server.URL(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for range 2 {
		if _, _, _, err := order.final(ctx, sessions{pool}); err != nil {
			t.Fatal(err)
		}
	}
	if through, _, _, err := order.final(ctx, sessions{pool}); err != nil || through < 3 {
		t.Errorf("when it is committed: final up to %d, %v", through, err)
	}
}
