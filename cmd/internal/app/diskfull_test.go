package app

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// smallDisk moves a database to a file system of its own, of 64 MB, and returns its folder.
func smallDisk(t *testing.T, db *pgtest.DB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "postrider-small-disk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", dir).CombinedOutput(); err != nil {
		logtest.NotTested(t, "readiness with a full disk: a small file system cannot be mounted here: "+strings.TrimSpace(string(out)))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	var data string
	conn := db.Conn(t)
	if err := conn.QueryRow(t.Context(), `select setting from pg_settings where name = 'data_directory'`).Scan(&data); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(data)
	if err != nil {
		logtest.NotTested(t, "readiness with a full disk: the server has its data elsewhere: "+err.Error())
	}
	owner := info.Sys().(*syscall.Stat_t)
	space := filepath.Join(dir, "space")
	if err := errors.Join(os.Mkdir(space, 0o700), os.Chown(space, int(owner.Uid), int(owner.Gid)), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/postgres"
	admin, err := pgx.Connect(t.Context(), address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	name := pgx.Identifier{db.Name + "_disk"}.Sanitize()
	move := func(ctx context.Context, to string) {
		t.Helper()
		_, _ = admin.Exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`, db.Name)
		if _, err := admin.Exec(ctx, "alter database "+pgx.Identifier{db.Name}.Sanitize()+" set tablespace "+to); err != nil {
			t.Errorf("move to %s: %v", to, err)
		}
	}
	if _, err := admin.Exec(t.Context(), "create tablespace "+name+" location '"+space+"'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		move(context.Background(), "pg_default")
		if _, err := admin.Exec(context.Background(), "drop tablespace "+name); err != nil {
			t.Errorf("drop the tablespace: %v", err)
		}
	})
	move(t.Context(), name)
	return dir
}

// TestReadySeesAFullDisk: PostgreSQL answers every question while its disk is full, and takes no event. Readiness says so
// within seconds, the log says why, and it comes back when there is room.
func TestReadySeesAFullDisk(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	disk := smallDisk(t, db)
	var log logtest.Buffer
	logger, err := obs.NewLogger(&log, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	a := run(t, Options{Config: settings(t, db.URL, broker.Addrs...), Logger: logger, Roles: []Role{HTTP}})
	waitReady(t, a)
	filler := filepath.Join(disk, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	// The database gives pages back by itself, when a vacuum cuts a table: the disk is filled again at each look.
	fill := func() {
		t.Helper()
		for block := make([]byte, 4096); ; {
			if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	within(t, 3*writePause, "not ready while the disk is full", func() (bool, string) {
		fill()
		status, body := readyz(t, a)
		return status == http.StatusServiceUnavailable && strings.Contains(body, "room on its disk"), body
	})
	eventually(t, "the log says why", func() (bool, string) {
		return strings.Contains(log.String(), "the disk of the database is full"), log.String()
	})
	if err := errors.Join(f.Close(), os.Remove(filler)); err != nil {
		t.Fatal(err)
	}
	within(t, 3*writePause, "ready again", func() (bool, string) {
		status, body := readyz(t, a)
		return status == http.StatusOK, body
	})
	// What was tried is no row, and takes no page for good.
	if n := pgtest.Value[int](t, db.Conn(t), `select count(*) from postrider.outbox_write_probe`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// TestWritesAreTriedSeldom: however often readiness is asked, the database is written to once in writePause.
func TestWritesAreTriedSeldom(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	w := &writeProbe{pool: db.Pool(t)}
	began := time.Now()
	for range 200 {
		if err := w.check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pages := pgtest.Value[int](t, db.Conn(t), `select pg_relation_size('postrider.outbox_write_probe') / current_setting('block_size')::int`)
	if most := 1 + int(time.Since(began)/writePause); pages < 1 || pages > most {
		t.Errorf("200 questions wrote %d pages, want 1 to %d", pages, most)
	}
	w.last = time.Time{}
	if err := w.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := pgtest.Value[int](t, db.Conn(t), `select pg_relation_size('postrider.outbox_write_probe') / current_setting('block_size')::int`); now != pages+1 {
		t.Errorf("another try wrote %d pages: a row that finds room needs none of the disk", now-pages)
	}
}
