package postgres

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testenv/pgbouncer"
)

// TestWritersAreToldByName: what the schema refuses names the rule, by every way of writing.
func TestWritersAreToldByName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	writer := f.as("postrider_writer").pool
	insert := func(columns, values string, args ...any) error {
		_, err := writer.Exec(t.Context(), `insert into postrider.outbox_event (`+columns+`) values (`+values+`)`, args...)
		return err
	}
	for _, topic := range []string{"", ".", "..", "a b", "a/b", "ä", "a\n", strings.Repeat("a", 250)} {
		f.violates(insert("topic", "$1", topic), "23514", "outbox_event_topic_valid")
		f.violates(second(writer.Exec(t.Context(), `select postrider.outbox_publish($1, 'k', '{}'::jsonb)`, topic)), "23514", "outbox_event_topic_valid")
	}
	for _, topic := range []string{"__consumer_offsets", "__x"} {
		f.violates(insert("topic", "$1", topic), "23514", "outbox_event_topic_not_internal")
	}
	for _, topic := range []string{"a", "A.b-c_9", "_a", strings.Repeat("a", 249)} {
		f.done(insert("topic", "$1", topic))
	}
	for _, headers := range []string{`"a"`, `1`, `null`, `true`} {
		f.violates(insert("topic, headers", "'t', $1::text::jsonb", headers), "23514", "outbox_event_headers_shape")
	}
	for _, name := range []string{`a\u000ab`, `\u0001`, `x\u007f`, `\u001f`, `a\r\nb`} {
		for _, headers := range []string{`{"` + name + `": "v"}`, `[["` + name + `", "v"]]`, `[["ok", "v"], ["` + name + `", null]]`} {
			f.violates(insert("topic, headers", "'t', $1::text::jsonb", headers), "23514", "outbox_event_headers_names")
			_, err := writer.Exec(t.Context(), `select postrider.outbox_publish('t', 'k', '{}'::jsonb, $1::text::jsonb)`, headers)
			if err == nil || !strings.Contains(err.Error(), "with a control character") {
				t.Errorf("%s by a function: %v", headers, err)
			}
		}
	}
	for _, headers := range []string{`{}`, `[]`, `{"a": "b", "c": null}`, `[["a", "b"], ["a", {"base64": "AA=="}]]`, `{"ä ö": "line\nbreak"}`} {
		f.done(insert("topic, headers", "'t', $1::text::jsonb", headers))
		_, err := writer.Exec(t.Context(), `select postrider.outbox_publish('t', 'k', '{}'::jsonb, $1::text::jsonb)`, headers)
		f.done(err)
	}
	for _, headers := range []string{`[["a"]]`, `[["a", "b", "c"]]`, `{"": "v"}`, `{"a": 1}`, `{"a": {"base64": "?"}}`, `{"Postrider-Event-Id": "v"}`, `[1]`} {
		_, err := writer.Exec(t.Context(), `select postrider.outbox_publish('t', 'k', '{}'::jsonb, $1::text::jsonb)`, headers)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || !strings.HasPrefix(pg.Message, "postrider: headers ") {
			t.Errorf("%s by a function: %v", headers, err)
		}
	}
	for _, at := range []string{"infinity", "-infinity", "9999-12-31 00:00:00+00", "0001-12-31 00:00:00+00 BC"} {
		f.violates(insert("topic, available_at", "'t', $1::text::timestamptz", at), "23514", "outbox_event_available_at_range")
	}
	const most = 16 << 20
	f.violates(insert("topic, payload", "'t', convert_to(repeat('x', $1::int), 'UTF8')", most+1), "23514", "outbox_event_payload_size")
	f.violates(second(writer.Exec(t.Context(), `select postrider.outbox_publish_bytes('t', null::bytea, convert_to(repeat('x', $1::int), 'UTF8'))`, most+1)), "23514", "outbox_event_payload_size")
	f.done(insert("topic, payload", "'t', convert_to(repeat('x', $1::int), 'UTF8')", most))
	f.violates(f.try(`insert into postrider.outbox_event (topic, max_attempts) values ('t', 0)`), "23514", "outbox_event_max_attempts_positive")
	f.violates(f.try(`insert into postrider.outbox_event (topic, kind) values ('t', 'x')`), "23514", "outbox_event_kind_valid")
	var pg *pgconn.PgError
	for _, column := range []string{"topic", "headers"} {
		if err := f.try(`insert into postrider.outbox_event (topic, headers) values (` + map[string]string{"topic": "null, '{}'", "headers": "'t', null"}[column] + `)`); !errors.As(err, &pg) || pg.Code != "23502" || pg.ColumnName != column {
			t.Errorf("without %s: %v", column, err)
		}
	}
	for _, topic := range []string{"postrider.dlq", "postrider.lifecycle"} {
		_, err := writer.Exec(t.Context(), `select postrider.outbox_publish($1, 'k', '{}'::jsonb)`, topic)
		if !errors.As(err, &pg) || pg.Code != "22023" || !strings.Contains(pg.Message, "that Postrider itself writes") {
			t.Errorf("%s: %v", topic, err)
		}
	}
}

// TestPayloadLimitIsForTheOwner: the limit can be changed, events that are there stay, and the limit can be read.
func TestPayloadLimitIsForTheOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_event (topic, payload) values ('t', convert_to(repeat('x', 100), 'UTF8'))`)
	f.exec(`select postrider.outbox_set_max_payload_bytes(10)`)
	f.violates(f.try(`insert into postrider.outbox_event (topic, payload) values ('t', 'eleven byte')`), "23514", "outbox_event_payload_size")
	f.exec(`insert into postrider.outbox_event (topic, payload) values ('t', 'ten  bytes')`)
	if n := value[int](f, `select postrider.outbox_max_payload_bytes()`); n != 10 {
		t.Errorf("the limit is %d", n)
	}
	if page := f.read(f.leader(), nil, 0); len(page.Events) != 2 {
		t.Errorf("read %d events", len(page.Events))
	}
}

// TestWritersOfEveryKind: by functions, by a plain insert, by COPY, and behind a pooler; exact bytes arrive in the order
// of the inserts.
func TestWritersOfEveryKind(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.as("postrider_writer") // applies the roles
	f.exec(`grant insert (topic, key, payload, headers, available_at, task_uuid) on postrider.outbox_event to postrider_writer`)
	through, err := pgxpool.New(t.Context(), pgbouncer.Start(t, f.db.URL, 2)+"&default_query_exec_mode=exec")
	f.done(err)
	t.Cleanup(through.Close)
	event := uuid.New()
	for _, sql := range []string{
		`insert into postrider.outbox_event (topic, key, payload) values ('t', '\x00ff', '\x00')`,
		`insert into postrider.outbox_event (topic) values ('t')`,
		`insert into postrider.outbox_event (topic, key, payload) values ('t', '', '')`,
		`select postrider.outbox_publish('t', 'k', '{"a": 1}'::jsonb, '{"h": "v"}')`,
		`select postrider.outbox_publish('t', null, null)`,
		`select postrider.outbox_publish('t', 'k', 'null'::jsonb)`,
		`select postrider.outbox_publish_bytes('t', '\xff'::bytea, '\x01'::bytea)`,
		`select postrider.outbox_publish_bytes('t', 'text', '\x01'::bytea, available_at => now() + interval '1 hour')`,
	} {
		if _, err := through.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	conn := f.db.Conn(t)
	n, err := conn.CopyFrom(t.Context(), pgx.Identifier{"postrider", "outbox_event"}, []string{"event_id", "topic", "key", "payload"},
		pgx.CopyFromRows([][]any{{event, "t", []byte("k"), []byte("copied")}, {uuid.New(), "t", nil, nil}}))
	if err != nil || n != 2 {
		t.Fatalf("copied %d, %v", n, err)
	}
	var got []string
	for _, e := range f.read(f.leader(), nil, 0).Events {
		got = append(got, fmt.Sprintf("%d %q %v %q %v %s %v", e.ID, e.Key, e.Key == nil, e.Payload, e.Payload == nil, e.Headers, e.Delayed))
		// The table makes ids of version 7, which tell the time; the ids of the copied rows are random.
		if e.EventID == uuid.Nil || e.EventID.Version() == 7 && e.CreatedAt.Before(time.Now().Add(-time.Hour)) {
			t.Errorf("read %+v", e)
		}
	}
	want := []string{
		`1 "\x00\xff" false "\x00" false  false`, `2 "" true "" true  false`, `3 "" false "" false  false`,
		`4 "k" false "{\"a\": 1}" false {"h": "v"} false`, `5 "" true "" true  false`, `6 "k" false "null" false  false`,
		`7 "\xff" false "\x01" false  false`, `8 "text" false "\x01" false  true`, `9 "k" false "copied" false  false`, `10 "" true "" true  false`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("read\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestIdempotencyKeysUnderRaces: of many that write under a key at once one writes, and all are told its event; a key whose
// transaction was rolled back is free again.
func TestIdempotencyKeysUnderRaces(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var mu sync.Mutex
	told := map[uuid.UUID]int{}
	var wg sync.WaitGroup
	for range 8 {
		conn := f.db.Conn(t)
		wg.Go(func() {
			for i := range 20 {
				sql := "begin"
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					t.Error(err)
					return
				}
				var id uuid.UUID
				if err := conn.QueryRow(t.Context(), `select postrider.outbox_publish('t', 'k', '1'::jsonb, idempotency_key => $1)`, fmt.Sprint(i)).Scan(&id); err != nil {
					t.Error(err)
					return
				}
				if _, err := conn.Exec(t.Context(), "commit"); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				told[id]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if n := f.left(); n != 20 || len(told) != 20 {
		t.Errorf("%d events, %d told", n, len(told))
	}
	for id, n := range told {
		if n != 8 || !value[bool](f, `select exists (select from postrider.outbox_event where event_id = $1)`, id) {
			t.Errorf("%v was told %d times", id, n)
		}
	}
	f.locking(`select postrider.outbox_publish('t', 'k', '1'::jsonb, idempotency_key => 'undone')`)("rollback")
	f.exec(`select postrider.outbox_publish('t', 'k', '1'::jsonb, idempotency_key => 'undone')`)
	if n := f.left(); n != 21 {
		t.Errorf("%d events", n)
	}
	for _, key := range []string{"", strings.Repeat("k", 513)} {
		if err := f.try(`select postrider.outbox_publish('t', 'k', '1'::jsonb, idempotency_key => $1)`, key); err == nil || !strings.Contains(err.Error(), "must be 1 to 512") {
			t.Errorf("a key of %d bytes: %v", len(key), err)
		}
	}
}

// TestEventIDsGrowWithTime: they are UUIDs of version 7, which the index finds by their time, and no two are the same.
func TestEventIDsGrowWithTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.many(2000)
	f.exec(`select postrider.outbox_publish('t', 'k', '1'::jsonb, idempotency_key => 'x')`)
	if n := value[int](f, `select count(distinct event_id) from postrider.outbox_event where substr(event_id::text, 15, 1) = '7' and substr(event_id::text, 20, 1) in ('8', '9', 'a', 'b')`); n != 2001 {
		t.Errorf("%d of 2001 are different UUIDs of version 7", n)
	}
	if n := value[int](f, `select count(*) from postrider.outbox_event where abs(('x' || substr(replace(event_id::text, '-', ''), 1, 12))::bit(48)::bigint - extract(epoch from created_at) * 1000) > 1000`); n != 0 {
		t.Errorf("%d are of another time", n)
	}
}
