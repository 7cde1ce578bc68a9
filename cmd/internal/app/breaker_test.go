package app

import (
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestCircuitBreaker: past outbox.storm_events, events that fail with one code wait and every other event goes. An
// operator gives up the waiting events at the desk. With storm_events at 0 the events that a breaker keeps come back, and
// failing events become dead letters.
func TestCircuitBreaker(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	for _, topic := range []string{"orders", "postrider.dlq"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	conn := db.Conn(t)
	c := settings(t, db.URL, broker.Addrs...)
	c.Outbox.StormEvents = 2
	a := run(t, Options{Config: c})
	write := func() {
		t.Helper()
		pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic, key, payload, headers)
			select 'orders', ('k' || i)::bytea, 'v', case when i % 2 = 0 then '{"priority": 5}' else '{}' end::jsonb from generate_series(1, 12) i`)
	}
	counts := func(what, published, dead, parked string) {
		t.Helper()
		waitRow(t, conn, what, `select (select count(*) from postrider.v_outbox_event where state = 'published') = `+published+`
			and (select count(*) from postrider.outbox_exception where state = 'dead_lettered') = `+dead+`
			and (select count(*) from postrider.outbox_exception where state = 'parked') = `+parked)
	}
	write()
	counts("the good ones go, the others wait", "6", "2", "4")
	hold := pgtest.Value[int64](t, conn, `select hold_id from postrider.outbox_hold where scope = 'failure' and topic = 'orders' and code = 'INVALID_HEADERS' and cause = 'circuit_breaker'`)
	g, err := a.Services().Outbox.GiveUp(t.Context(), "ada", hold)
	if err != nil || g.Events != 4 {
		t.Fatalf("%+v, %v", g, err)
	}
	counts("all that waited is given up", "6", "6", "0")
	waitRow(t, conn, "the breaker is closed", `select count(*) = 0 from postrider.outbox_hold`)
	waitRow(t, conn, "who did it is known", `select count(*) = 1 from postrider.access_audit where action = 'outbox.give_up' and actor = 'ada'`)

	write()
	waitRow(t, conn, "another one is open", `select count(*) > 0 from postrider.outbox_exception where state = 'parked'`)
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Outbox.StormEvents = 0
	run(t, Options{Config: c})
	counts("without circuit breakers all of them are given up", "12", "12", "0")
	waitRow(t, conn, "none is open", `select count(*) = 0 from postrider.outbox_hold`)
}
