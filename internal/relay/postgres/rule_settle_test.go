package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestRule8WhatWaitsForTheDisk: a small receipt that only moves the position need not; whatever writes an exception or a
// hold, and any large one, does.
func TestRule8WhatWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`create table waits (number bigint, how text)`)
	f.exec(`create function note() returns trigger language plpgsql as $$ begin insert into waits values (new.number, current_setting('synchronous_commit')); return null; end $$;
		create trigger note after insert on postrider.outbox_receipt for each row execute function note()`)
	f.many(300)
	h := f.keyHold("a", time.Hour)
	h2 := f.topicHold("u", time.Hour)
	d := f.leader()
	events := func(n int64) relay.Ranges { return relay.Ranges{{First: d.position + 1, Last: d.position + n}} }
	for name, c := range map[string]struct {
		receipt relay.Receipt
		want    string
	}{
		"a move":        {relay.Receipt{Position: d.position + 1, Events: events(1)}, "off"},
		"nothing":       {relay.Receipt{}, "off"},
		"a large move":  {relay.Receipt{Events: relay.Ranges{{First: 100, Last: 100 + atLeisure}}}, "on"},
		"an exception":  {relay.Receipt{Holds: []relay.HoldChange{h}, Exceptions: withEvents(f, parked(h.ID, 1))}, "on"},
		"a hold":        {relay.Receipt{Holds: []relay.HoldChange{h2}}, "on"},
		"the end of it": {relay.Receipt{Ended: []int64{99}}, "on"},
		"a return":      {relay.Receipt{Gone: []int64{99}}, "on"},
		"a try":         {relay.Receipt{Trying: 7}, "on"},
		"put back":      {relay.Receipt{Putback: []int64{99}}, "on"},
		"a skip":        {relay.Receipt{Skipped: []int64{99}}, "on"},
	} {
		f.settle(d, &c.receipt)
		if got := value[string](f, `select how from waits where number = $1`, d.number); got != c.want {
			t.Errorf("%s is written with synchronous_commit %s, want %s", name, got, c.want)
		}
	}
	// Of several that are written at once one decides for all.
	f.settle(d, &relay.Receipt{}, &relay.Receipt{Ended: []int64{99}})
	if got := value[string](f, `select how from waits where number = $1`, d.number); got != "on" {
		t.Errorf("together they are written with synchronous_commit %s", got)
	}
}

// TestRule8SeveralAtOnce: receipts that are written in one transaction are one row, and say what they said one by one.
func TestRule8SeveralAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "b", "c")
	d := f.leader()
	h := f.keyHold("a", time.Hour)
	again := h
	again.New, again.Probes, again.Draining = false, 5, true
	first := withEvents(f, parked(h.ID, 1))
	second := withEvents(f, parked(h.ID, 2))
	second = append(second, withEvents(f, []relay.Exception{{ID: 1, State: relay.Scheduled, In: time.Hour}})...)
	f.settle(d,
		&relay.Receipt{Position: 1, Events: relay.Ranges{{First: 1, Last: 1}}, Gaps: relay.Ranges{}, Holds: []relay.HoldChange{h}, Exceptions: first},
		&relay.Receipt{Position: 4, Events: relay.Ranges{{First: 2, Last: 2}, {First: 4, Last: 4}}, Gaps: relay.Ranges{{First: 3, Last: 3}}, Holds: []relay.HoldChange{again}, Exceptions: second})
	if got := f.progress(); got != "2 1 4 {[3,4)}" {
		t.Errorf("progress is %s", got)
	}
	if got := value[string](f, `select concat_ws(' ', count(*), max(probes), bool_and(draining)) from postrider.outbox_hold`); got != "1 5 t" {
		t.Errorf("the hold is %s", got)
	}
	f.wantStates("1:scheduled 2:parked 3:pending 4:published")
	if got := value[string](f, `select string_agg(concat_ws(' ', id, status, locked_by), ', ' order by id) from postrider.v_outbox_event`); got != "1 pending, 2 pending, 3 pending host:1:aaaa, 4 succeeded" {
		t.Errorf("people see %s", got)
	}
	f.exec(`update postrider.outbox_exception set sending_since = now() where id = 1`)
	of1 := `select concat_ws(' ', status, locked_by, locked_at is not null) from postrider.v_outbox_event where id = 1`
	if got := value[string](f, of1); got != "processing host:1:aaaa t" {
		t.Errorf("in hand it is %s", got)
	}
	f.letGo(d) // a leader that is gone has nothing in hand
	f.waitFor(`select bool_and(locked_by is null and locked_at is null) from postrider.v_outbox_event`)
}

// TestSkipAheadOfThePosition: if a skip is asked for before the log comes by, the event is given up and not sent; the
// later events of its key go. If it is asked for too late, the event has gone, and nothing is left of the request.
func TestSkipAheadOfThePosition(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &memory{}
	f.writes("t", "k", "one", "two", "three")
	f.done(f.trySkip(2, "not needed"))
	f.done(f.trySkip(2, "not needed at all"))
	f.wantStates("1:pending 2:pending 3:pending")
	f.run(b, relay.ForAll(relay.TopicSettings{DLQTopic: "dlq"}), nil)
	f.drained()
	if got := b.arrived("t") + ", " + b.arrived("dlq"); got != "one three, two" {
		t.Errorf("arrived %s", got)
	}
	if got := value[string](f, `select last_error_code || ' ' || last_error from postrider.outbox_exception where id = 2`); got != "SKIPPED skipped by hand: not needed at all" {
		t.Errorf("the event says %s", got)
	}
	f.exec(`insert into postrider.outbox_skip_request values (3, 'too late')`)
	f.waitFor(`select not exists (select from postrider.outbox_skip_request)`)
	f.wantStates("1:published 2:dead_lettered(1) 3:published")
}

// TestSkipsThatTheLogHasPassed: an event that waits by then is given up, once the leader does not have it in hand. For an
// id in a gap the request stays.
func TestSkipsThatTheLogHasPassed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b", "c", "d", "e")
	h := f.keyHold("a", 0)
	d := f.leader()
	f.settle(d, &relay.Receipt{Position: 4, Events: relay.Ranges{{First: 1, Last: 2}, {First: 4, Last: 4}}, Gaps: relay.Ranges{{First: 3, Last: 3}},
		Holds: []relay.HoldChange{h}, Exceptions: withEvents(f, append(parked(h.ID, 1), relay.Exception{ID: 2, State: relay.Scheduled, In: time.Hour}))})
	f.equal("in hand", f.take(1, h.ID), 1)
	f.exec(`insert into postrider.outbox_skip_request select i, 'why' from generate_series(1, 5) i`)
	f.done(d.ResolveSkips(t.Context()))
	f.wantStates("1:parked 2:exhausted 3:pending 4:published 5:pending")
	asked := func() string {
		return strings.Join(pgtest.Column[string](t, f.pool, `select id::text from postrider.outbox_skip_request order by id`), " ")
	}
	if got := asked(); got != "1 3 5" {
		t.Errorf("still asked for are %s", got)
	}
	f.change(relay.Receipt{Putback: []int64{1}})
	f.done(d.ResolveSkips(t.Context()))
	f.wantStates("1:exhausted 2:exhausted 3:pending 4:published 5:pending")
	if got := asked(); got != "3 5" {
		t.Errorf("still asked for are %s", got)
	}
}

// TestGivenUpHold: events that wait for a topic are given up at once, in order, by the relay that leads.
func TestGivenUpHold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &memory{}
	b.refuse(relay.Route, func(m *relay.Message) bool { return m.Topic == "t" })
	f.writes("t", "k", "one", "two", "three")
	f.run(b, relay.ForAll(relay.TopicSettings{DLQTopic: "dlq"}), nil)
	hold := f.held(relay.CauseRoute)
	f.waitFor(`select count(*) = 3 from postrider.outbox_exception where state = 'parked'`)
	if g, err := f.tryGiveUp(hold); err != nil || g.Events != 3 {
		t.Errorf("gave up %+v, %v", g, err)
	}
	f.drained()
	letters := strings.Fields(b.arrived("dlq")) // in any order
	slices.Sort(letters)
	if got := b.arrived("t") + ", " + strings.Join(letters, " "); got != ", one three two" {
		t.Errorf("arrived %s", got)
	}
}

// TestStallsAreKnown: why no id is known to be final, as a look says it, and its end.
func TestStallsAreKnown(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct{ begin, end, do string }{
		"SEQUENCE_CACHE":  {`alter table postrider.outbox_event alter column id set cache 50`, `alter table postrider.outbox_event alter column id set cache 1`, "set cache 1"},
		"SEQUENCE_RIGHTS": {`revoke all on sequence postrider.outbox_event_id_seq from postrider_relay`, `select`, "postrider migrate roles --apply"},
		"NO_SEQUENCE": {`alter table postrider.outbox_event alter column id drop identity`, `alter table postrider.outbox_event alter column id
			add generated always as identity (sequence name postrider.outbox_event_id_seq start with 100)`, "restore"},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.insert("a")
			f.store = f.as("postrider_relay")
			d := f.leader()
			look := func() relay.Look {
				t.Helper()
				l, err := d.Look(t.Context())
				f.done(err)
				return l
			}
			if l := look(); l.Last != 1 || l.Unknown != (relay.Stall{}) {
				t.Errorf("before: %+v", l)
			}
			f.exec(c.begin)
			if l := look(); l.Unknown.Code != code || !strings.Contains(l.Unknown.Error, c.do) || StallHint(code) != l.Unknown.Error {
				t.Errorf("%+v", l)
			}
			if page := f.read(d, nil, 0); len(page.Events) != 1 { // events that are there go on
				t.Errorf("read %+v", page)
			}
			f.exec(c.end)
			f.exec(`grant select on sequence postrider.outbox_event_id_seq to postrider_relay`) // a new one has none
			if l := look(); l.Unknown != (relay.Stall{}) {
				t.Errorf("after: %+v", l)
			}
		})
	}
}

// TestSettingsOfSilence: the session of a leader is ended when it is silent for as long as the setting says.
func TestSettingsOfSilence(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	store, _ := f.open(Options{}, StoreOptions{LeaderSilence: 3 * time.Second})
	if store.silence != 3*time.Second || f.store.silence != 8*time.Second {
		t.Errorf("a leader may be silent for %v, by default for %v", store.silence, f.store.silence)
	}
}
