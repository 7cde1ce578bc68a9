package relaytest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

// diskBytes is how large the disk of TestFault21FullDisk is: room for its events, and little else.
const diskBytes = 8 << 20

// smallDisk mounts a file system of its own that belongs to the owner of the server's data. Where that cannot be done
// the test ends; TestFault21DiskFull has the same error from a trigger.
func smallDisk(s *server) (dir string) {
	s.Helper()
	if os.Geteuid() != 0 {
		logtest.NotTested(s.TB, "a disk that is really full: mounting one needs root")
	}
	dir = serverDir(s.TB)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d,mode=0700", diskBytes), "tmpfs", dir).CombinedOutput(); err != nil {
		logtest.NotTested(s.TB, fmt.Sprintf("a disk that is really full: mounting one is not allowed here (%v, %s)", err, strings.TrimSpace(string(out))))
	}
	s.Cleanup(func() {
		_ = s.Stop(context.Background()) // it has files there
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			s.Errorf("unmount %s: %v, %s", dir, err, out)
		}
	})
	owner, err := os.Stat(filepath.Join(s.options.Dir, "data", "PG_VERSION"))
	if err != nil {
		s.Fatal(err)
	}
	st := owner.Sys().(*syscall.Stat_t)
	if err := os.Chown(dir, int(st.Uid), int(st.Gid)); err != nil {
		s.Fatal(err)
	}
	return dir
}

// TestFault21FullDisk: the disk of the outbox is really full. Writers hear it, the relay says it and what to do;
// what it published and could not write down goes out once all the same, and when there is room again all is settled.
func TestFault21FullDisk(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	dir := smallDisk(s)
	r := onServer(t, s)
	r.exec(`create tablespace small location '` + dir + `'`)
	r.exec(`alter table postrider.outbox_event set tablespace small`)
	r.exec(`alter table postrider.outbox_receipt set tablespace small`)
	r.exec(`create table filler (bytes bytea) with (autovacuum_enabled = off) tablespace small`)
	r.exec(`alter table filler alter column bytes set storage external`)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	l.write(topic, 20, 100)
	for _, size := range []int{500_000, 50_000, 1500, 1} {
		for {
			if _, err := r.pool.Exec(t.Context(), `insert into filler values (decode(repeat('ab', $1), 'hex'))`, size); err != nil {
				wantDiskFull(t, err)
				break
			}
		}
	}
	_, err := r.pool.Exec(t.Context(), `insert into postrider.outbox_event (topic, payload) select 'any', repeat('x', 1000)::bytea from generate_series(1, 20)`)
	wantDiskFull(t, err)

	// More receipts than there is room for in the last page of their table.
	e := r.startWith(dlq, options{engine: func(c *relay.Config) { c.BatchSize = 1 }})
	r.untilSome(e, "postrider_outbox_database_errors_total", "class", "transient", "code", "53100")
	r.exec(`drop table filler`)
	r.exec(`checkpoint`) // gives the room back
	r.until(drained)
	l.write(topic, 20, 10)
	r.until(drained)
	e.halt()
	l.wantOnce(dlq)
}

func wantDiskFull(t *testing.T, err error) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "53100" {
		t.Fatalf("%v, want that the disk is full (53100)", err)
	}
}
