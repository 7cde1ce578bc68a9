package postgres

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestEachCommandActsOnce: people redrive and close, at the desk and at the source's own command line; events are delivered and die
// again; calls are lost, cut before and after the source commits, sent twice, and arrive long after. What the source does is
// counted by triggers, which know of no command. In the end each redrive that the source says it did was done once, and nothing
// else was done.
func TestEachCommandActsOnce(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	mustExec(t, c.source, `
		create table public.act (outbox_id bigint, episode integer, event_id uuid);
		create function public.act_new() returns trigger language plpgsql as $$ begin insert into public.act (event_id) values (new.event_id); return new; end $$;
		create function public.act_in_place() returns trigger language plpgsql as $$ begin insert into public.act values (new.id, new.episode); return new; end $$;
		create trigger act_new after insert on postrider.outbox_event for each row when (new.kind = 'redrive') execute function public.act_new();
		create trigger act_in_place after update on postrider.outbox_exception for each row when (old.state = 'dead_lettered' and new.state = 'parked')
			execute function public.act_in_place()`)
	number := 0
	rapid.Check(t, func(rt *rapid.T) {
		m := &commandModel{commanding: c, entries: map[int]uuid.UUID{}, episodes: map[int]int{}}
		for range rapid.IntRange(1, 3).Draw(rt, "events") {
			number++
			m.events = append(m.events, number)
			m.entries[number], m.episodes[number] = c.dieThere(number, rapid.Bool().Draw(rt, "halts")), 1
		}
		rt.Repeat(map[string]func(*rapid.T){
			"redrive": func(rt *rapid.T) { m.redriveAgain(m.event(rt)) },
			"close":   func(rt *rapid.T) { _ = c.Resolve(c.t.Context(), m.entries[m.event(rt)]) },
			"send":    func(*rapid.T) { c.send() },
			"cut": func(rt *rapid.T) {
				how := rapid.SampledFrom([]func(*pgproxy.Proxy, int, func([]string) bool){(*pgproxy.Proxy).CutAtQuery, (*pgproxy.Proxy).CutBeforeCommit, (*pgproxy.Proxy).CutAfterCommit}).Draw(rt, "moment")
				how(c.proxy, 1, pgproxy.Containing("outbox_obey"))
				_, _ = c.SendCommands(c.t.Context(), deskName, "orders", c.link)
			},
			"freeze a sender": func(*rapid.T) { m.frozen = append(m.frozen, c.late()) },
			"wake a sender": func(*rapid.T) {
				if len(m.frozen) > 0 {
					m.frozen[0]()
					m.frozen = m.frozen[1:]
				}
			},
			"deliver":   func(rt *rapid.T) { m.settle(m.event(rt), outboxtest.Published) },
			"die again": func(rt *rapid.T) { m.settle(m.event(rt), outboxtest.DeadLettered) },
			"by hand": func(rt *rapid.T) {
				n := m.event(rt)
				if _, err := c.source.Exec(c.t.Context(), `select postrider.outbox_redrive($1)`, outboxID(n)); err == nil {
					m.byHand = append(m.byHand, fmt.Sprint(outboxID(n), " ", m.episodes[n]))
				}
			},
			"follow": func(*rapid.T) { c.followThere() },
			"":       func(rt *rapid.T) { m.check(rt) },
		})
		for _, wake := range m.frozen {
			wake()
		}
		for range 3 {
			c.sendAll()
			c.followThere()
		}
		m.check(rt)
		if n := c.count(`select count(*) from postrider.dlq_command where answered_at is null`); n != 0 {
			rt.Fatalf("%d commands have no answer", n)
		}
		wantNew := c.count(`select count(*) from postrider.dlq_command where answer = 'new'`)
		// Of the death that the command names, and of no other.
		wantInPlace := append(m.byHand, pgtest.Column[string](t, c.subject.pool, `select concat_ws(' ', outbox_id, episode) from postrider.dlq_command where answer = 'in_place'`)...)
		slices.Sort(wantInPlace)
		if did := m.did("event_id is not null"); did != wantNew {
			rt.Fatalf("%d new events were sent, and %d commands say so", did, wantNew)
		}
		did := pgtest.Column[string](t, m.source, `select concat_ws(' ', outbox_id, episode) from public.act where event_id is null`)
		if slices.Sort(did); !slices.Equal(did, wantInPlace) {
			rt.Fatalf("events (and how often they had been given up) went back to their place: %q, and commands and people say so of %q", did, wantInPlace)
		}
		mustExec(t, c.source, `delete from public.act`)
		mustExec(t, c.subject.pool, `delete from postrider.dlq_command`)
	})
}

// commandModel is one history of commands.
type commandModel struct {
	*commanding
	events   []int
	entries  map[int]uuid.UUID
	episodes map[int]int
	frozen   []func()
	byHand   []string // events and episodes
}

func (m *commandModel) event(rt *rapid.T) int { return rapid.SampledFrom(m.events).Draw(rt, "event") }

// did counts acts of the source.
func (m *commandModel) did(which string) int {
	m.t.Helper()
	return pgtest.Value[int](m.t, m.source, `select count(*) from public.act where `+which)
}

func (m *commandModel) redriveAgain(n int) {
	m.t.Helper()
	if _, err := m.Redrive(m.t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{m.entries[n]}, MaxHops: 1000, Actor: "ada"}); err != nil {
		m.t.Fatal(err)
	}
}

// settle lets the relay of the source end what it has of an event: the event itself, if it waits in its place, and what was sent
// of it anew.
func (m *commandModel) settle(n int, state string) {
	m.t.Helper()
	ids := pgtest.Column[int64](m.t, m.source, `select e.id from postrider.v_outbox_event e join postrider.outbox_event l using (id)
		where (e.id = $1 and e.state = 'parked') or (e.id > 1000 and e.state = 'pending' and l.headers @> jsonb_build_array(jsonb_build_array('replay_of', 'event:' || $2::text)))`, outboxID(n), dlqtest.EventID(n))
	if len(ids) == 0 {
		return
	}
	outboxtest.Settle(m.t, m.source, state, ids...)
	if ids[0] != outboxID(n) {
		return
	}
	if state == outboxtest.Published {
		mustExec(m.t, m.source, `delete from postrider.outbox_hold where event_id = $1`, dlqtest.EventID(n))
		return
	}
	mustExec(m.t, m.source, `update postrider.outbox_hold set cause = 'halted' where event_id = $1`, dlqtest.EventID(n))
	m.episodes[n]++
	m.entries[n] = m.record(from("orders", dlqtest.Event(n, m.episodes[n])))
}

// check finds what was done twice.
func (m *commandModel) check(rt *rapid.T) {
	twice := pgtest.Column[string](m.t, m.source, `select concat_ws(' ', outbox_id, episode, event_id) from public.act group by outbox_id, episode, event_id having count(*) > 1`)
	if len(twice) > 0 {
		rt.Fatalf("done twice: %q", twice)
	}
	if n := pgtest.Value[int](m.t, m.source, `select count(*) from (select 1 from postrider.outbox_event e where e.kind = 'redrive'
		group by (select h.pair->>1 from jsonb_array_elements(e.headers) h(pair) where h.pair->>0 = 'replay_id'), e.event_id having count(*) > 1) x`); n > 0 {
		rt.Fatalf("%d redrives have two events", n)
	}
	if unknown := m.count(`select count(*) from postrider.dlq_command where answer not in ('in_place', 'new', 'closed', 'stale', 'gone', 'delivered', 'key_halted')`); unknown > 0 {
		rt.Fatal(fmt.Sprint(unknown, " commands have another answer"))
	}
}
