package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// commanding is a desk, and the database of its source orders, whose connections go through a proxy. The desk's goes through
// another.
type commanding struct {
	*redriving
	db     *pgtest.DB    // of the source
	source *pgxpool.Pool // of the owner, and around the proxy
	link   *pgxpool.Pool // through the proxy
	proxy  *pgproxy.Proxy
}

// deskName is the identity of the desk in these tests.
const deskName = "the-desk"

func newCommanding(t *testing.T) *commanding {
	t.Helper()
	r := newRedriving(t)
	db := pgtest.New(t)
	pool := db.Pool(t)
	mustExec(t, pool, `update postrider.outbox_source set source_uuid = gen_random_uuid(), name = 'orders'`)
	mustExec(t, pool, `select setval('postrider.outbox_event_id_seq', 1000)`)
	proxy := pgproxy.Start(t, db.URL)
	return &commanding{r, db, pool, (&pgtest.DB{Name: db.Name, URL: proxy.URL()}).Pool(t), proxy}
}

// dieThere writes event n to the outbox of the source as dead-lettered, records its letter at the desk, and returns its
// investigation. With halts its key waits for it.
func (c *commanding) dieThere(n int, halts bool) uuid.UUID {
	c.t.Helper()
	l := dlqtest.Letters(dlqtest.From("orders", dlqtest.Event(n, 1)))[0]
	mustExec(c.t, c.source, `insert into postrider.outbox_event (id, event_id, topic, key, payload, headers)
		overriding system value values ($1, $2, $3, $4, $5, '[["trace", "x"]]')`, *l.SourceOutboxID, l.EventID, l.OriginTopic, l.Key, []byte("kept"))
	outboxtest.Settle(c.t, c.source, outboxtest.DeadLettered, *l.SourceOutboxID)
	if halts {
		c.haltThere(n)
	}
	return c.record(l)
}

func (c *commanding) haltThere(n int) {
	c.t.Helper()
	mustExec(c.t, c.source, `insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at)
		select 'key', topic, key, 'halted', event_id, 'infinity' from postrider.outbox_exception where id = $1 on conflict do nothing`, outboxID(n))
}

// send sends the commands that wait, and fails the test when that fails.
func (c *commanding) send() SentCommands {
	c.t.Helper()
	sent, err := c.SendCommands(c.t.Context(), deskName, "orders", c.source)
	if err != nil {
		c.t.Fatal(err)
	}
	return sent
}

// sendAll sends until the source has answered all: what a connection that was cut had locked is busy for a moment.
func (c *commanding) sendAll() {
	c.t.Helper()
	for range 500 {
		if sent := c.send(); sent.Answered+sent.Busy == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.t.Errorf("the source does not answer: %q", c.answers())
}

// followThere looks how the redrives of the source stand.
func (c *commanding) followThere() dlq.Followed {
	c.t.Helper()
	f, err := c.FollowSource(c.t.Context(), deskName, "orders", c.source, 100, true)
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

// acts is what the source did about event n, by its audit log.
func (c *commanding) acts(n int) string {
	c.t.Helper()
	return strings.Join(pgtest.Column[string](c.t, c.source, `select concat(action, ' by ', actor) from postrider.access_audit where target_type = 'event' and target_id = $1::text order by access_audit_id`, fmt.Sprint(outboxID(n))), ", ")
}

// answers are the commands of the desk and what came of them, in order.
func (c *commanding) answers() []string {
	c.t.Helper()
	return pgtest.Column[string](c.t, c.subject.pool, `select concat_ws(' ', kind, outbox_id, coalesce(answer, 'waits')) from postrider.dlq_command order by number`)
}

func (c *commanding) wantAnswers(want ...string) {
	c.t.Helper()
	if got := c.answers(); !slices.Equal(got, want) {
		c.t.Errorf("the commands are %q, want %q", got, want)
	}
}

// TestASourceRedrivesInPlace: the desk asks, the source does it with what it kept, and when it was delivered the investigation is
// closed, here and there.
func TestASourceRedrivesInPlace(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	entry := c.dieThere(1, true)
	done := c.redrive(entry)
	if !slices.Equal(done.Entries, []uuid.UUID{entry}) || !slices.Equal(done.Asked, done.Entries) {
		t.Fatalf("without an answer: %+v", done)
	}
	if why := c.skipped(entry); why != dlq.AlreadyQueued {
		t.Errorf("asked again: %s", why)
	}
	if f := c.followThere(); f != (dlq.Followed{}) {
		t.Errorf("before the source answered: %+v", f)
	}
	if sent := c.send(); sent.Answered != 1 {
		t.Fatalf("%+v", sent)
	}
	c.wantAnswers("redrive 2 in_place")
	if got := pgtest.Value[string](t, c.source, `select concat_ws(' ', x.state, h.cause, convert_from(x.payload, 'UTF8')) from postrider.outbox_exception x join postrider.outbox_hold h using (hold_id)`); got != "parked redrive kept" {
		t.Errorf("there the event is %s", got)
	}
	if f := c.followThere(); f != (dlq.Followed{}) {
		t.Errorf("on its way: %+v", f)
	}
	outboxtest.Settle(t, c.source, outboxtest.Published, outboxID(1))
	if f := c.followThere(); f.Delivered != 1 {
		t.Errorf("delivered: %+v", f)
	}
	if status, _ := c.status(entry); status != dlq.ManuallyResolved {
		t.Errorf("the investigation is %s", status)
	}
	if c.send(); c.acts(1) != "dlq.requeue by ada" {
		t.Errorf("there was %s", c.acts(1))
	}
	c.wantAnswers("redrive 2 in_place", "close 2 gone")
	if n := c.count(`select count(*) from postrider.outbox_event`); n != 0 {
		t.Errorf("the desk's own outbox has %d events", n)
	}
}

// TestASourceRedrivesANewEvent: its content is what the source kept, and its letter, if it dies again, leads back to the
// investigation, also if the letter is here before the answer.
func TestASourceRedrivesANewEvent(t *testing.T) {
	t.Parallel()
	for _, overtakes := range []bool{false, true} {
		c := newCommanding(t)
		entry := c.dieThere(1, false)
		c.redrive(entry)
		if overtakes { // the answer is lost
			c.proxy.CutAfterCommit(1, pgproxy.Containing("outbox_obey"))
			if _, err := c.SendCommands(t.Context(), deskName, "orders", c.link); err == nil {
				t.Fatal("the answer was not lost")
			}
		} else {
			c.send()
		}
		var id int64
		var event uuid.UUID
		var text string
		if err := c.source.QueryRow(t.Context(), `select id, event_id, concat_ws(' ', kind, topic, convert_from(payload, 'UTF8'), headers) from postrider.outbox_event where id > 1000`).Scan(&id, &event, &text); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`redrive orders kept [["trace", "x"], ["replay_of", "event:%[1]s"], ["replay_id", "%[2]s:1"], ["postrider-hops", "1"], ["postrider-redrive-of", "event:%[1]s"]]`, dlqtest.EventID(1), entry); text != want {
			t.Errorf("it sent\n%s, want\n%s", text, want)
		}
		outboxtest.Settle(t, c.source, outboxtest.DeadLettered, id)
		again := dlqtest.Event(50, 1)
		l := from("orders", again, message.HeaderEventID, event.String(), message.HeaderOutboxID, fmt.Sprint(id))
		next := c.record(l)
		if e, err := c.investigations.Show(t.Context(), next); err != nil || e.PredecessorUUID != entry {
			t.Errorf("overtaken %v: it comes from %s, %v", overtakes, e.PredecessorUUID, err)
		}
		if status, _ := c.status(entry); status != dlq.Cancelled {
			t.Errorf("overtaken %v: the first investigation is %s", overtakes, status)
		}
		c.send()
		if f := c.followThere(); f.CameBack != 1 {
			t.Errorf("overtaken %v: %+v", overtakes, f)
		}
		c.wantAnswers("redrive 2 new", "close 2 closed")
		if n := pgtest.Value[int](t, c.source, `select count(*) from postrider.outbox_event`); n != 2 {
			t.Errorf("overtaken %v: the source has %d events", overtakes, n)
		}
	}
}

// TestClosingReachesTheSource, by each way to close or remove an investigation: the source may remove the event, and its key
// goes on.
func TestClosingReachesTheSource(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	n := 0
	for name, way := range c.ways() {
		if strings.HasPrefix(name, "redrive") || name == "operation of redrives" || name == "operation of purging" {
			continue
		}
		n += 7 // the key is another one
		entry := c.dieThere(n, true)
		if err := way(entry); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c.send()
		if got := pgtest.Value[string](t, c.source, `select concat_ws(' ', x.closed_at is not null, h.asked) from postrider.outbox_exception x left join postrider.outbox_hold h on h.event_id = x.event_id where x.id = $1`, outboxID(n)); got != "t release" {
			t.Errorf("%s: there the event is closed, its key asked to go: %q", name, got)
		}
		mustExec(t, c.source, `delete from postrider.outbox_hold`)
	}
	// A purge that is to let go of no key leaves what may hold one.
	entry := c.dieThere(1, true)
	if _, err := c.people().Purge(t.Context(), dlq.Purge{Entries: []uuid.UUID{entry}, Limit: 1, Actor: "ada"}); err == nil {
		t.Error("an event that may halt its key was purged")
	}
	// Of an event that died twice the newest death is closed, and of two investigations of one event the last that is closed counts.
	outboxtest.Settle(t, c.source, outboxtest.Scheduled, outboxID(1))
	outboxtest.Settle(t, c.source, outboxtest.DeadLettered, outboxID(1))
	if again := c.record(from("orders", dlqtest.Event(1, 2))); again != entry {
		t.Fatal("the second death opened another investigation")
	}
	if err := c.Resolve(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	c.send()
	if got := c.answers(); got[len(got)-1] != "close 2 closed" {
		t.Errorf("%q", got)
	}
}

// TestWhatASourceRefuses is as it was before: no redrive is on its way, and the reason is said.
func TestWhatASourceRefuses(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	c.patience, c.pause = time.Minute, time.Hour // the one that notes an answer says so
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c.OnCommands(func([]string) { go func() { _, _ = c.SendCommands(ctx, deskName, "orders", c.source) }() })
	halting, behind := c.dieThere(1, true), c.dieThere(8, false)
	moved := c.dieThere(2, false)
	mustExec(t, c.source, `update postrider.outbox_exception set episode = 2 where id = $1`, outboxID(2))
	gone := c.record(from("orders", dlqtest.Event(3, 1)))
	unnamed := dlqtest.Event(4, 1)
	unnamed.Headers = slices.DeleteFunc(unnamed.Headers, func(h message.Header) bool { return h.Name == message.HeaderOutboxID })
	for name, w := range map[string]struct {
		entry uuid.UUID
		why   dlq.SkipReason
	}{"its key is halted": {behind, dlq.KeyHalted}, "it moved on": {moved, dlq.Stale}, "it is gone": {gone, dlq.EventGone}, "not named": {c.record(dlq.Decode(dlqtest.From("orders", unnamed))), dlq.EventGone}} {
		for range 2 { // nothing is left of the first time
			if done := c.redrive(w.entry); len(done.Entries) > 0 || len(done.Asked) > 0 || len(done.Skipped) != 1 || done.Skipped[0].Reason != w.why {
				t.Errorf("%s: %+v", name, done)
			}
		}
	}
	if n := c.count(`select count(*) from postrider.dlq_redrive`); n != 0 {
		t.Errorf("%d redrives are noted", n)
	}
	edit := &dlq.Edit{Payload: []byte(`{"better":1}`)}
	done, err := c.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{halting}, Edit: edit, Actor: "ada"})
	if err != nil || len(done.Entries) != 1 || len(done.Asked) != 0 {
		t.Errorf("edited in its place: %+v, %v", done, err)
	}
	if got := pgtest.Value[string](t, c.source, `select concat_ws(' ', state, convert_from(payload, 'UTF8'), headers) from postrider.outbox_exception where id = $1`, outboxID(1)); got != `parked {"better":1} [["trace", "x"]]` {
		t.Errorf("edited in its place it is %s", got)
	}
	if request := pgtest.Value[string](t, c.subject.pool, `select string_agg(request::text, ' ') from postrider.dlq_command`); strings.Contains(request, "payload\"") {
		t.Errorf("the desk keeps the changed payload: %s", request)
	}
}

// TestASourceThatIsAway: a person is told at once, since when; closing never waits, and reaches the source when it is back.
func TestASourceThatIsAway(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	first, second := c.dieThere(1, false), c.dieThere(2, false)
	c.redrive(first)
	if done := c.redrive(second); len(done.Asked) != 1 {
		t.Fatalf("at once: %+v", done)
	}
	mustExec(t, c.subject.pool, `update postrider.dlq_command set created_at = now() - interval '11 seconds'`)
	third := c.dieThere(3, true)
	done := c.redrive(third)
	if len(done.Skipped) != 1 || done.Skipped[0].Reason != dlq.SourceAway || !strings.Contains(done.Skipped[0].Explain(), "the source orders has answered nothing since 20") {
		t.Errorf("%+v", done)
	}
	if would, err := c.Preview(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{third}, Actor: "ada"}); err != nil || len(would.Skipped) != 1 || would.Skipped[0].Reason != dlq.SourceAway {
		t.Errorf("foreseen: %+v, %v", would, err)
	}
	mustExec(t, c.subject.pool, `update postrider.dlq_command set busy_at = now()`)
	if would, err := c.Preview(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{third}, Actor: "ada"}); err != nil || len(would.Skipped) != 0 {
		t.Errorf("a source that is busy counts as away: %+v, %v", would, err)
	}
	if _, err := c.people().Change(t.Context(), third, dlq.Change{Status: ref(dlq.Cancelled), Actor: "ada"}); err != nil {
		t.Error(err)
	}
	if w, err := c.WaitingCommands(t.Context(), []string{"orders", "billing"}); err != nil || len(w) != 1 || w[0].Source != "orders" || w[0].Count != 3 || time.Since(w[0].Oldest) < 10*time.Second {
		t.Errorf("%+v, %v", w, err)
	}
	if due, err := c.SourcesDue(t.Context(), []string{"orders", "billing"}); err != nil || !slices.Equal(due, []string{"orders"}) {
		t.Errorf("%v, %v", due, err)
	}
	c.send()
	c.wantAnswers("redrive 2 new", "redrive 3 new", "close 4 closed")
	if acts := c.acts(3); acts != "dlq.resolve by postrider" && acts != "dlq.resolve by ada" {
		t.Errorf("there: %s", acts)
	}
	all, err := c.Commands(t.Context(), dlq.CommandFilter{Limit: 2})
	if err != nil || len(all) != 2 || all[0].Kind != dlq.CommandClose || all[1].Answer != dlq.AnswerNew || all[1].AnsweredAt.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err = c.Commands(t.Context(), dlq.CommandFilter{Limit: 2, Before: all[1].Number, State: dlq.CommandAnswered, Source: "orders"}); err != nil || len(all) != 1 || all[0].OutboxID != outboxID(1) {
		t.Errorf("%+v, %v", all, err)
	}
	if gone, more, err := c.ForgetCommands(t.Context(), time.Hour, 2); err != nil || gone != 0 || more {
		t.Errorf("%d, %v, %v", gone, more, err)
	}
	if gone, more, err := c.ForgetCommands(t.Context(), 0, 2); err != nil || gone != 2 || !more {
		t.Errorf("%d, %v, %v", gone, more, err)
	}
}

// TestAnotherDeskIsRefused, and its commands wait.
func TestAnotherDeskIsRefused(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	mustExec(t, c.source, `select from postrider.outbox_obey('south', '[]')`)
	c.redrive(c.dieThere(1, true))
	if _, err := c.SendCommands(t.Context(), deskName, "orders", c.source); err == nil || !strings.Contains(err.Error(), "the source orders belongs to the desk south and does not obey the-desk") {
		t.Errorf("%v", err)
	}
	c.wantAnswers("redrive 2 waits")
	if c.acts(1) != "" {
		t.Errorf("the source did %s", c.acts(1))
	}
}

// TestASecondDeskIsToldOfTheFirst: a source has heard more calls of its desk than a second desk drew. The second desk does not take
// itself for one that was set back. It does not lead the source back either: it is refused by the name of the first.
func TestASecondDeskIsToldOfTheFirst(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	mustExec(t, c.source, `select from postrider.outbox_obey('south', '[]', 7)`)
	if other, err := c.Confirm(t.Context(), deskName, "orders", c.source); err != nil || other != "south" {
		t.Errorf("the second desk is told of the desk %q: %v", other, err)
	}
	if known, err := c.KnownSources(t.Context()); err != nil || len(known) != 1 || known[0].Stopped != "" {
		t.Errorf("the second desk knows %+v, %v", known, err)
	}
	req := dlq.RejoinRequest{Desk: deskName, Source: "orders", Actor: "ada"}
	for name, rejoin := range map[string]func() (dlq.Rejoin, error){
		"the plan": func() (dlq.Rejoin, error) { return c.PlanRejoin(t.Context(), req, c.source) },
		"rejoin":   func() (dlq.Rejoin, error) { return c.Rejoin(t.Context(), req, c.source) },
	} {
		if done, err := rejoin(); !errors.Is(err, dlq.ErrSource) || !strings.Contains(err.Error(), "belongs to the desk south and does not obey this one") || done.Done {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
	}
	mustExec(t, c.source, `update postrider.outbox_source set desk = null`) // handed over
	c.wantStopped(dlq.StopDeskRewound)
}

// TestACommandIsWhatWasStored: what is sent to the source is made of the stored letter and the request, and of nothing else.
func TestACommandIsWhatWasStored(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	entry := c.dieThere(1, false)
	c.redrive(entry)
	var got map[string]any
	if err := json.Unmarshal([]byte(pgtest.Value[string](t, c.subject.pool, commandUnanswered, "orders", 500, 1<<20)), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"kind": "redrive", "entry": entry.String(), "outbox_id": "2", "event_id": dlqtest.EventID(1).String(), "episode": "1",
		"actor": "ada", "target": "orders", "max_hops": "3", "redrive": entry.String() + ":1", "payload_left_out": "false", "headers_left_out": "false"} {
		if fmt.Sprint(got[name]) != want {
			t.Errorf("%s is %v, want %s", name, got[name], want)
		}
		delete(got, name)
	}
	for _, name := range []string{"command", "new_event"} {
		if _, err := uuid.Parse(fmt.Sprint(got[name])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("it also has %v", got)
	}
	// By hand nothing else can be asked for than what the stored letters say.
	for name, args := range map[string][]any{
		"another letter":       {entry, "event:x:1"},
		"another's letter":     {c.dieThere(6, false), "orders/event:" + dlqtest.EventID(1).String() + ":1"},
		"a redrive on its way": {entry, "orders/event:" + dlqtest.EventID(1).String() + ":1"},
		"an event of main":     {c.die(5, nil), "event:" + dlqtest.EventID(5).String() + ":1"},
	} {
		if _, err := c.subject.pool.Exec(t.Context(), `select * from postrider.dlq_ask_source(null, 'ada', array[$1::uuid], array[$2], array[gen_random_uuid()], '{orders}', '{false}', '{"{}"}')`, args...); err == nil || !strings.Contains(err.Error(), "no source can be asked") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestASourceThatWasSetBack: its database was restored from before it obeyed. The redrive is none any more, and the investigation can
// be redriven again.
func TestASourceThatWasSetBack(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	entry := c.dieThere(1, true)
	was := pgtest.Value[string](t, c.source, `select row_to_json(x)::text from postrider.outbox_exception x`)
	c.redrive(entry)
	c.send()
	mustExec(t, c.source, `delete from postrider.outbox_exception`)
	mustExec(t, c.source, `insert into postrider.outbox_exception select * from json_populate_record(null::postrider.outbox_exception, $1::text::json)`, was)
	mustExec(t, c.source, `update postrider.outbox_hold set cause = 'halted'`)
	if f := c.followThere(); f != (dlq.Followed{}) {
		t.Errorf("%+v", f)
	}
	if n := c.count(`select count(*) from postrider.dlq_redrive`); n != 0 {
		t.Errorf("%d redrives are noted", n)
	}
	c.redrive(entry)
	c.send()
	c.wantAnswers("redrive 2 in_place", "redrive 2 in_place")
}
