package outbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

// TestFunctions is what services in other languages call.
func TestFunctions(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	for call, want := range map[string][3]string{ // key, payload, headers
		`outbox_publish('t', 'k', '{"b": 1, "a": [null]}')`:                {`"k"`, `"{\"a\": [null], \"b\": 1}"`, "{}"},
		`outbox_publish('t', 'grüße', 'null')`:                             {`"grüße"`, `"null"`, "{}"},
		`outbox_publish('t', '', null)`:                                    {`""`, "null", "{}"},
		`outbox_publish('t', null, '""')`:                                  {"null", `"\"\""`, "{}"},
		`outbox_publish('t', null, null, null, null, null, null)`:          {"null", "null", "{}"},
		`outbox_publish('t', 'k', '1', '[["a","1"],["a",null]]')`:          {`"k"`, `"1"`, `[["a", "1"], ["a", null]]`},
		`outbox_publish(topic => 't', key => 'k', payload => '7')`:         {`"k"`, `"7"`, "{}"},
		`outbox_publish_bytes('t', 'k'::text, '\x00ff')`:                   {`"k"`, `"\x00\xff"`, "{}"},
		`outbox_publish_bytes('t', '\x00'::bytea, ''::bytea)`:              {`"\x00"`, `""`, "{}"},
		`outbox_publish_bytes('t', null::bytea, null)`:                     {"null", "null", "{}"},
		`outbox_publish_bytes('t', ''::bytea, 'p', '{"a":{"base64":""}}')`: {`""`, `"p"`, `{"a": {"base64": ""}}`},
		`outbox_publish('t', 'k', '1', '{"a":{"base64":" A\tP\n8="}}')`:    {`"k"`, `"1"`, `{"a": {"base64": " A\tP\n8="}}`}, // PostgreSQL's decode passes over space
	} {
		var id string
		if err := pool.QueryRow(t.Context(), "select postrider."+call+"::text").Scan(&id); err != nil {
			t.Errorf("%s: %v", call, err)
			continue
		}
		var got row
		for _, r := range rows(t, pool) {
			if r.EventID.String() == id {
				got = r
			}
		}
		if have := [3]string{literal(got.Key), literal(got.Payload), string(got.Headers)}; have != want {
			t.Errorf("%s wrote %v, want %v", call, have, want)
		}
		if _, err := message.ParseHeaders(got.Headers); err != nil {
			t.Errorf("%s wrote headers that the relay refuses: %v", call, err)
		}
	}
}

func TestFunctionsRefuse(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	long := strings.Repeat("x", 513)
	for call, mention := range map[string]string{
		`outbox_publish('t', 'k', '1', '7')`:                          "must be an object or an array",
		`outbox_publish('t', 'k', '1', 'null')`:                       "must be an object or an array",
		`outbox_publish('t', 'k', '1', '{"postrider-x":"1"}')`:        "'postrider-x'",
		`outbox_publish('t', 'k', '1', '{"POSTRIDER-x":"1"}')`:        "'POSTRIDER-x'",
		`outbox_publish('t', 'k', '1', '{"postrider-hops":"1"}')`:     "'postrider-hops'",
		`outbox_publish('t', 'k', '1', '{"a\r\nb":"1"}')`:             `the name "a\r\nb" with a control character`,
		`outbox_publish('t', 'k', '1', '[["a","1"],["\u007f","1"]]')`: "with a control character",
		`outbox_publish('t', 'k', '1', '{"":"1"}')`:                   "empty name",
		`outbox_publish('t', 'k', '1', '{"a":1}')`:                    "value of 'a' is a number",
		`outbox_publish('t', 'k', '1', '{"a":{"base64":"?"}}')`:       "not valid base64",
		`outbox_publish('t', 'k', '1', '{"a":{"base64":"","b":1}}')`:  "value of 'a' must be",
		`outbox_publish('t', 'k', '1', '[["a","1","2"]]')`:            "pair [name, value]",
		`outbox_publish('t', 'k', '1', '[7]')`:                        "pair [name, value]",
		`outbox_publish('t', 'k', '1', '{}', '')`:                     "idempotency_key is 0 bytes",
		`outbox_publish('t', 'k', '1', '{}', '` + long + `')`:         "idempotency_key is 513 bytes",
	} {
		var id string
		err := pool.QueryRow(t.Context(), "select postrider."+call+"::text").Scan(&id)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || !strings.HasPrefix(pg.Message, "postrider: ") || !strings.Contains(pg.Message, mention) {
			t.Errorf("%.80s: %v, want 22023 and a mention of %s", call, err, mention)
		}
	}
	for call, constraint := range map[string]string{
		`outbox_publish('a b', 'k', '1')`:                                            "outbox_event_topic_valid",
		`outbox_publish('__consumer_offsets', 'k', '1')`:                             "outbox_event_topic_not_internal",
		`outbox_publish('t', 'k', '1', '{}', null, 'infinity')`:                      "outbox_event_available_at_range",
		`outbox_publish_bytes('t', 'k'::text, decode(repeat('00', 16777217),'hex'))`: "outbox_event_payload_size",
	} {
		_, err := pool.Exec(t.Context(), "select postrider."+call)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "23514" || pg.ConstraintName != constraint {
			t.Errorf("%.80s: %v, want %s", call, err, constraint)
		}
	}
	for call, name := range map[string]string{
		`outbox_publish('a b', 'k', '1')`:                           "'a b'",
		`outbox_publish_bytes('', null::bytea, null, '{}', 'once')`: "''",
		`outbox_publish('__x''y', 'k', '1')`:                        "'__x''y'",
		`outbox_publish(repeat('ä', 5000), 'k', '1')`:               strings.Repeat("ä", 100) + "' ",
	} {
		_, err := pool.Exec(t.Context(), "select postrider."+call)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || !strings.HasPrefix(pg.Message, "postrider: topic '") || !strings.Contains(pg.Message, name) || !strings.HasPrefix(pg.Hint, "Pass a name of 1 to 249") {
			t.Errorf("%s: %v", call, err)
		}
	}
	_, err := pool.Exec(t.Context(), `select postrider.outbox_publish(null, 'k', '1')`)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "23502" || pg.ColumnName != "topic" {
		t.Errorf("no topic: %v", err)
	}
	if all := rows(t, pool); len(all) != 0 {
		t.Errorf("%d events were written", len(all))
	}
}

func TestPayloadLimit(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	exec := func(sql string) error {
		_, err := pool.Exec(t.Context(), sql)
		return err
	}
	var limit int
	if err := pool.QueryRow(t.Context(), `select postrider.outbox_max_payload_bytes()`).Scan(&limit); err != nil || limit != outbox.DefaultMaxPayloadBytes {
		t.Errorf("the limit of a fresh schema is %d, %v", limit, err)
	}
	if err := exec(`select postrider.outbox_set_max_payload_bytes(3)`); err != nil {
		t.Fatal(err)
	}
	for sql, ok := range map[string]bool{
		`select postrider.outbox_publish_bytes('t', null::bytea, '\x010203')`:            true,
		`select postrider.outbox_publish_bytes('t', null::bytea, '\x01020304')`:          false,
		`insert into postrider.outbox_event (topic, payload) values ('t', '\x010203')`:   true,
		`insert into postrider.outbox_event (topic, payload) values ('t', '\x01020304')`: false,
		`select postrider.outbox_publish('t', null, '1234')`:                             false,
		`select postrider.outbox_set_max_payload_bytes(0)`:                               false,
		`select postrider.outbox_set_max_payload_bytes(1000000001)`:                      false,
		`select postrider.outbox_set_max_payload_bytes(null)`:                            false,
	} {
		if err := exec(sql); (err == nil) != ok {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if err := exec(`select postrider.outbox_set_max_payload_bytes(4)`); err != nil {
		t.Fatal(err)
	}
	if err := exec(`select postrider.outbox_publish_bytes('t', null::bytea, '\x01020304')`); err != nil {
		t.Errorf("after the limit was raised: %v", err)
	}
}

// TestLoweredPayloadLimitLeavesWaitingEventsAlone: the limit holds for events written from now on. An event that was
// accepted must still be settled, or its whole batch never is.
func TestLoweredPayloadLimitLeavesWaitingEventsAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	for _, sql := range []string{
		`select postrider.outbox_publish_bytes('t', null::bytea, '\x01020304')`,
		`select postrider.outbox_set_max_payload_bytes(3)`,
		`insert into postrider.outbox_exception (id, state, copied, event_id, topic, payload)
			select id, 'exhausted', true, event_id, topic, case when id > 0 then payload end from postrider.outbox_event`,
		`delete from postrider.outbox_event`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
