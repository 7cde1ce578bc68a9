package cli

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/migrations/pgtest"
	"github.com/postrider/postrider/relay"
)

func TestOutboxPartition(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), `insert into postrider.outbox_event (topic) values ('t')`); err != nil {
		t.Fatal(err)
	}
	contains(t, succeed(t, db, "outbox", "partition", "--rows", "20000"), "outbox_event is partitioned, with 20000 ids")
	if _, err := conn.Exec(t.Context(), `insert into postrider.outbox_event (topic) values ('t')`); err != nil {
		t.Fatal(err)
	}
	var ids string
	if err := conn.QueryRow(t.Context(), `select string_agg(id::text, ' ' order by id) from postrider.outbox_event`).Scan(&ids); err != nil || ids != "1 1000000002" {
		t.Errorf("the ids are %s, %v", ids, err)
	}
	if s := decode[relay.Status](t, succeed(t, db, "outbox", "status", "-o", "json")); s.Pending != 2 {
		t.Errorf("status %+v", s)
	}
	contains(t, succeed(t, db, "outbox", "cleanup", "--dry-run"), "published events")
	if r := postrider(t, []string{"DATABASE_URL=" + db.URL}, "outbox", "partition"); r.code != ExitFailure || !strings.Contains(r.stderr, "partitioned already") {
		t.Errorf("again: exit code %d, %s", r.code, r.stderr)
	}
	encoded := succeed(t, pgtest.New(t), "outbox", "partition", "-o", "json")
	if v := decode[partitionView](t, encoded); v != (partitionView{true, 10_000_000}) {
		t.Errorf("json: %s", encoded)
	}
	// Functions, views and triggers come anew to a table with partitions as well.
	contains(t, succeed(t, db, "migrate", "up", "--code"), "outbox/code")
	if _, err := conn.Exec(t.Context(), `insert into postrider.outbox_event (topic) values ('t')`); err != nil {
		t.Error(err)
	}
	contains(t, succeed(t, db, "outbox", "status", "-o", "json"), `"pending": 3`)
}

func TestOutboxPartitionIsRefused(t *testing.T) {
	t.Parallel()
	empty := pgtest.NewEmpty(t)
	for want, args := range map[string][]string{
		"--rows is 5":              {"--rows", "5"},
		"--wait is 0s":             {"--wait", "0s"},
		"postrider migrate up":     {},
		"takes no arguments, but ": {"now"},
	} {
		code := ExitUsage
		if len(args) == 0 {
			code = ExitFailure
		}
		r := postrider(t, []string{"DATABASE_URL=" + empty.URL}, append([]string{"outbox", "partition"}, args...)...)
		if r.code != code || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: exit code %d, %s", args, r.code, r.stderr)
		}
	}
}
