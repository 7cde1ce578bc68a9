package migrations_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// obeying is an outbox alone: 1 halts its key, and 2 of the same key was given up behind it; 3 was given up and halts nothing; 4 is
// published.
type obeying struct {
	*testing.T
	db   *pgtest.DB
	conn *pgx.Conn
}

func newObeying(t *testing.T) *obeying {
	t.Helper()
	db, conn := installed(t, outboxAlone...)
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic, key, payload, headers)
		values ('orders', 'k', 'one', '[["trace", "x"], ["postrider-hops", "1"], ["replay_id", "old"]]'), ('orders', 'k', 'two', '[]'),
		       ('orders', 'other', 'three', '[["trace", "x"], ["replay_id", "old"], ["postrider-redrive-of", "record:a/1/2"], ["postrider-redrive-for", "g"], ["postrider-hops", "1"]]'),
		       ('orders', 'fine', 'four', '[]');
		select postrider.outbox_name_source('orders');
		insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at)
		select 'key', topic, key, 'halted', event_id, 'infinity' from postrider.outbox_event where id = 1`)
	outboxtest.Settle(t, conn, outboxtest.DeadLettered, 1, 2, 3)
	outboxtest.Settle(t, conn, outboxtest.Published, 4)
	return &obeying{t, db, conn}
}

type command map[string]any

// redrive is a command to redrive event id, which was given up once; more replaces fields.
func (o *obeying) redrive(id int, more ...any) command {
	c := command{"command": uuid.NewString(), "kind": "redrive", "entry": "e", "outbox_id": id, "episode": 1, "actor": "ada",
		"event_id": pgtest.Value[string](o, o.conn, `select event_id::text from (select id, event_id from postrider.outbox_event union all
			select id, event_id from postrider.outbox_exception) e where id = $1 limit 1`, id),
		"redrive": "e:1", "target": "orders", "max_hops": 3, "new_event": uuid.NewString()}
	for i := 0; i < len(more); i += 2 {
		c[more[i].(string)] = more[i+1]
	}
	return c
}

func (o *obeying) close(id int, more ...any) command {
	return o.redrive(id, append([]any{"kind", "close"}, more...)...)
}

// obey sends commands, and returns the answers, each with the event that carries what was sent.
func (o *obeying) obey(commands ...command) []string {
	o.Helper()
	return obeyOn(o.T, o.conn, commands...)
}

func obeyOn(t *testing.T, conn *pgx.Conn, commands ...command) []string {
	t.Helper()
	text, err := json.Marshal(append([]command{}, commands...))
	if err != nil {
		t.Fatal(err)
	}
	return pgtest.Column[string](t, conn, `select concat_ws(' ', answer, event) from postrider.outbox_obey('north', $1::text::jsonb) order by place`, string(text))
}

func (o *obeying) want(what string, got []string, want ...string) {
	o.Helper()
	if !slices.Equal(got, want) {
		o.Errorf("%s: it answers %q, want %q", what, got, want)
	}
}

func (o *obeying) value(sql string, args ...any) string {
	o.Helper()
	return pgtest.Value[string](o, o.conn, `select coalesce((`+sql+`)::text, '')`, args...)
}

// TestObeyInPlace: an event that halts its key goes back to its place once, however often the command is sent: while it waits, when it
// was delivered, and when it has died again.
func TestObeyInPlace(t *testing.T) {
	t.Parallel()
	o := newObeying(t)
	c := o.redrive(1)
	o.want("the first time", o.obey(c), "in_place 1")
	o.want("again", o.obey(c), "in_place 1")
	o.want("another command", o.obey(o.redrive(1)), "stale")
	if got := o.value(`select concat_ws(' ', x.state, x.episode, h.cause) from postrider.outbox_exception x join postrider.outbox_hold h using (hold_id) where x.id = 1`); got != "parked 1 redrive" {
		t.Errorf("the event is %s", got)
	}
	outboxtest.Settle(t, o.conn, outboxtest.DeadLettered, 1)
	o.want("it died again", o.obey(c), "in_place 1")
	if got := o.value(`select concat_ws(' ', state, episode) from postrider.outbox_exception where id = 1`); got != "dead_lettered 2" {
		t.Errorf("a command of the first death acted on the second: %s", got)
	}
	o.want("a late command of the first death", o.obey(o.redrive(1)), "stale")
	d := o.redrive(1, "episode", 2)
	pgtest.Exec(t, o.conn, `update postrider.outbox_hold set cause = 'halted', next_probe_at = 'infinity'`)
	o.want("the second death", o.obey(d), "in_place 1")
	outboxtest.Settle(t, o.conn, outboxtest.Published, 1)
	o.want("it was delivered", o.obey(d, c), "in_place 1", "in_place 1")
	o.want("a command that did not send it", o.obey(o.redrive(1, "episode", 2)), "delivered")
	other := o.redrive(1, "episode", 2)
	pgtest.Exec(t, o.conn, `delete from postrider.outbox_event where id = 1`)
	o.want("the log has forgotten it", o.obey(d, other), "in_place 1", "gone")
	if n := o.value(`select count(*) from postrider.access_audit where action = 'dlq.requeue' and target_id = '1' and actor = 'ada' and details->>'desk' = 'north'`); n != "2" {
		t.Errorf("the audit log has %s acts, want 2", n)
	}
	if n := o.value(`select count(*) from postrider.outbox_event`); n != "3" {
		t.Errorf("there are %s events", n)
	}
}

// TestObeyNew: what halts no key is sent as a new event, once, with the content that the source kept.
func TestObeyNew(t *testing.T) {
	t.Parallel()
	o := newObeying(t)
	c := o.redrive(3, "redrive", "e:7", "traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	o.want("the first time", o.obey(c), "new 5")
	o.want("again", o.obey(c), "new 5")
	want := fmt.Sprintf(`redrive orders other three [["trace", "x"], ["replay_of", "event:%s"], ["replay_id", "e:7"], ["postrider-hops", "2"], ["postrider-redrive-of", "record:a/1/2"], ["postrider-redrive-for", "g"]]`, c["event_id"])
	if got := o.value(`select concat_ws(' ', kind, topic, convert_from(key, 'UTF8'), convert_from(payload, 'UTF8'), headers) from postrider.outbox_event where event_id = $1`, c["new_event"]); got != want {
		t.Errorf("it sent\n%s, want\n%s", got, want)
	}
	d := o.redrive(3)
	o.want("another command", o.obey(d), "new 6")
	o.want("the first one, late", o.obey(c, d), "new 5", "new 6")
	// A payload that is no change of the request is none.
	o.want("a payload that no command gave", o.obey(o.redrive(3, "payload", base64.StdEncoding.EncodeToString([]byte("forged")))), "new 7")
	if got := o.value(`select convert_from(payload, 'UTF8') from postrider.outbox_event where id = 7`); got != "three" {
		t.Errorf("it sent %s", got)
	}
	// A change is the command's; without one a letter can claim what it likes: the message is what was kept.
	e := o.redrive(3, "edited", true, "payload", base64.StdEncoding.EncodeToString([]byte("better")), "headers", [][2]string{{"a", "b"}}, "target", "elsewhere")
	o.want("changed, and elsewhere", o.obey(e), "new 8")
	if got := o.value(`select concat_ws(' ', topic, convert_from(payload, 'UTF8'), headers->0) from postrider.outbox_event where id = 8`); got != `elsewhere better ["a", "b"]` {
		t.Errorf("it sent %s", got)
	}
	if got := o.value(`select concat_ws(' ', state, episode, convert_from(payload, 'UTF8')) from postrider.outbox_exception where id = 3`); got != "dead_lettered 1 three" {
		t.Errorf("what was given up is %s", got)
	}
}

// TestObeyRefuses: each refusal leaves all as it was, and spoils no other command of the call.
func TestObeyRefuses(t *testing.T) {
	t.Parallel()
	o := newObeying(t)
	pgtest.Exec(t, o.conn, `select postrider.outbox_set_max_payload_bytes(100); update postrider.outbox_exception set headers = headers || '[["postrider-hops", "3"]]' where id = 3`)
	before := o.value(`select string_agg(x::text, ' ' order by id) from postrider.outbox_exception x`)
	large := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 101)))
	unknown := o.redrive(3, "kind", "burn")
	o.want("all", o.obey(
		o.redrive(1, "episode", 2), o.redrive(1, "event_id", uuid.NewString()), o.redrive(4), o.redrive(2), o.redrive(1, "target", "elsewhere"),
		o.redrive(3), o.redrive(1, "edited", true, "payload", large), o.redrive(1, "edited", true, "payload_left_out", true),
		o.redrive(1, "headers", [][2]string{}, "headers_left_out", true), o.redrive(1, "headers", [][2]string{}, "unreadable_headers", "other"),
		o.redrive(1, "target", "postrider.dlq"), o.redrive(3, "max_hops", 9, "target", "no topic"), unknown, o.close(1, "episode", 2), o.close(4)),
		"stale", "gone", "delivered", "key_halted", "halts_key",
		"too_many_hops", "payload_too_large", "only_copy", "only_copy", "only_copy",
		"reserved_topic", "refused", "refused", "stale", "gone")
	if after := o.value(`select string_agg(x::text, ' ' order by id) from postrider.outbox_exception x`); after != before {
		t.Errorf("a refusal changed something:\n%s\n%s", before, after)
	}
	o.want("the others", o.obey(o.redrive(3), o.redrive(1), unknown), "too_many_hops", "in_place 1", "refused")
	if n := o.value(`select count(*) from postrider.outbox_event`); n != "4" {
		t.Errorf("there are %s events", n)
	}
}

// TestObeyWaits: what the relay has in hand is busy, and so is what follows of its key; everything else is done.
func TestObeyWaits(t *testing.T) {
	t.Parallel()
	o := newObeying(t)
	tx, err := o.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, `select from postrider.outbox_exception where id = 2 for update`)
	other := o.db.Conn(t)
	commands := []command{o.redrive(2, "target", "elsewhere"), o.redrive(1), o.redrive(3)}
	o.want("while one is locked", obeyOn(t, other, commands...), "busy", "busy", "new 5")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.want("when it is free", o.obey(commands...), "new 6", "in_place 1", "new 5")
	pgtest.Exec(t, o.conn, `update postrider.outbox_exception set state = 'exhausted' where id = 3`)
	o.want("before the relay has noted the dead letter", o.obey(o.redrive(3)), "busy")
	o.want("a close need not wait for that", o.obey(o.close(3)), "closed")
}

// TestObeyCloses: the event may be removed, its key goes on, and a late copy of the command changes nothing.
func TestObeyCloses(t *testing.T) {
	t.Parallel()
	o := newObeying(t)
	c := o.close(1)
	o.want("twice", append(o.obey(c), o.obey(c)...), "closed", "closed")
	if got := o.value(`select concat_ws(' ', x.closed_at is not null, h.asked) from postrider.outbox_exception x, postrider.outbox_hold h where x.id = 1`); got != "t release" {
		t.Errorf("after a close: %s", got)
	}
	if n := o.value(`select count(*) from postrider.access_audit where action = 'dlq.resolve' and target_type = 'event' and target_id = '1'`); n != "1" {
		t.Errorf("the audit log has %s acts", n)
	}
	outboxtest.Settle(t, o.conn, outboxtest.Scheduled, 1)
	outboxtest.Settle(t, o.conn, outboxtest.DeadLettered, 1)
	o.want("it died again", o.obey(c), "stale")
	if got := o.value(`select closed_at from postrider.outbox_exception where id = 1`); got != "" {
		t.Error("a late close closed the next death")
	}
}

// TestObeyReleases: the key goes on, and the event stays given up, with its investigation open. It acts once, whatever became of
// the event since; a late copy of the command leaves the key alone that the next death halts.
func TestObeyReleases(t *testing.T) {
	t.Parallel()
	o := newObeying(t)
	release := func(id int, more ...any) command { return o.redrive(id, append([]any{"kind", "release"}, more...)...) }
	asked := func() string { return o.value(`select concat_ws(' ', cause, asked) from postrider.outbox_hold`) }
	o.want("what halts no key", o.obey(release(2), release(3), release(4), release(1, "episode", 2), release(1, "event_id", uuid.NewString())), "no_key", "no_key", "gone", "stale", "gone")
	if asked() != "halted" {
		t.Errorf("the key is %s", asked())
	}
	c := release(1)
	o.want("twice", append(o.obey(c), o.obey(c)...), "released", "released")
	if got := o.value(`select concat_ws(' ', state, episode, closed_at) from postrider.outbox_exception where id = 1`); got != "dead_lettered 1" || asked() != "halted release" {
		t.Errorf("the event is %s, its key %s", got, asked())
	}
	o.want("another command", o.obey(release(1)), "no_key")
	pgtest.Exec(t, o.conn, `delete from postrider.outbox_hold`)
	o.want("when the key has gone on", o.obey(c), "released")
	if got := o.value(`select string_agg(concat_ws(' ', action, actor, details->>'desk', details->>'answer'), ', ') from postrider.access_audit where target_type = 'event'`); got != "outbox.release ada north released" {
		t.Errorf("the audit log has %q", got)
	}
	o.want("then it is sent as a new event", o.obey(o.redrive(1)), "new 5")
	outboxtest.Settle(t, o.conn, outboxtest.Scheduled, 1)
	outboxtest.Settle(t, o.conn, outboxtest.DeadLettered, 1)
	pgtest.Exec(t, o.conn, `insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at)
		select 'key', topic, key, 'halted', event_id, 'infinity' from postrider.outbox_event where id = 1`)
	o.want("it died again", o.obey(release(1), c), "stale", "released")
	if asked() != "halted" {
		t.Errorf("a command of the first death let the key of the second go: %s", asked())
	}
	pgtest.Exec(t, o.conn, `delete from postrider.outbox_exception where id = 1`)
	o.want("the outbox has forgotten it", o.obey(c), "released")
}

// TestObeyOneDesk: the first desk that commands is obeyed, and no other one.
func TestObeyOneDesk(t *testing.T) {
	t.Parallel()
	o := newObeying(t)
	o.want("the first", o.obey())
	for desk, says := range map[string]string{"south": "the source orders belongs to the desk north and does not obey south", "": "has no name"} {
		if _, err := o.conn.Exec(t.Context(), `select * from postrider.outbox_obey($1, '[]')`, desk); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("desk %q: %v", desk, err)
		}
	}
	if got := o.value(`select desk from postrider.outbox_source`); got != "north" {
		t.Errorf("the desk is %s", got)
	}
}

// TestRightsToCommand: the login of a relay alone may send commands, and nothing that they are made of.
func TestRightsToCommand(t *testing.T) {
	t.Parallel()
	o := newObeying(t)
	if err := migrations.ApplyRoles(t.Context(), o.conn); err != nil {
		t.Fatal(err)
	}
	obey := `select * from postrider.outbox_obey('north', '[]')`
	parts := []string{`select postrider.outbox_obey_one('north', '{}')`, `select postrider.outbox_obey_redrive(x, null, '{}') from postrider.outbox_exception x`,
		`select postrider.outbox_redrive_headers('[]', '[]', gen_random_uuid(), null)`, `select postrider.outbox_close('{1}', array[gen_random_uuid()], '{1}')`,
		`select postrider.outbox_redrive(1)`, `insert into postrider.outbox_event (topic, payload) values ('orders', 'x')`, `update postrider.outbox_source set desk = 'south'`}
	allow(t, o.conn, "postrider_relay", obey)
	refuse(t, o.conn, "postrider_relay", parts...)
	refuse(t, o.conn, "postrider_operator", obey, parts[0])
	refuse(t, o.conn, "postrider_writer", obey, parts[0])
}
