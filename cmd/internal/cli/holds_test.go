package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// held is a database with a hold of each scope; the first one is a key that event 1 halts, with its dead
// letter arrived and event 2 waiting behind it. Its key and error are hostile.
func held(t *testing.T) (*pgtest.DB, *pgx.Conn) {
	t.Helper()
	db := pgtest.New(t)
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), `
		insert into postrider.outbox_event (topic, key) values ('orders', convert_to(E'k\x1b[2J', 'UTF8')), ('orders', convert_to(E'k\x1b[2J', 'UTF8')), ('orders', 'other');
		insert into postrider.outbox_hold (scope, topic, key, cause, error_code, error, event_id, held_at, next_probe_at)
			select 'key', 'orders', key, 'halted', 'MESSAGE_TOO_LARGE', E'too\x07 large', event_id, now() - interval '1 hour', 'infinity' from postrider.outbox_event where id = 1;
		insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps) values (1, 1, 2, 1, '{[1,3)}', '{}');
		insert into postrider.outbox_exception (id, event_id, topic, state, episode, attempts, copied, kind, key, headers, created_at)
			select id, event_id, topic, 'dead_lettered', 1, 3, true, kind, key, headers, created_at from postrider.outbox_event where id = 1;
		insert into postrider.outbox_exception (id, event_id, topic, state, hold_id) select id, event_id, topic, 'parked', 1 from postrider.outbox_event where id = 2;
		insert into postrider.outbox_hold (scope, topic, partition, partitions, cause, error_code, next_probe_at) values ('partition', 'bills', 3, 4, 'infrastructure', 'LEADER_NOT_AVAILABLE', now() + interval '1 day');
		insert into postrider.outbox_hold (scope, topic, code, cause, error_code, next_probe_at, draining) values ('failure', 'stock', 'X', 'circuit_breaker', 'X', now(), true);
		insert into postrider.outbox_hold (scope, topic, cause, error_code, next_probe_at) values ('dead_letter', 'postrider.dlq', 'route', 'UNKNOWN_TOPIC_OR_PARTITION', now() + interval '1 day')`); err != nil {
		t.Fatal(err)
	}
	return db, conn
}

func ask(t *testing.T, conn *pgx.Conn, sql string) (answer string) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestOutboxHolds(t *testing.T) {
	t.Parallel()
	db, _ := held(t)
	table := succeed(t, db, "outbox", "holds")
	contains(t, table, "HOLD", "NEXT", `orders, key k\x1b[2J`, "halted", "MESSAGE_TOO_LARGE", "an operator", `too\a large`, "bills, partition 3 of 4",
		"probe ", "stock, events that fail with X", "comes back", "dead_letter", "postrider.dlq")
	if strings.ContainsAny(table, "\x1b\x07") {
		t.Errorf("control characters in %q", table)
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[1], "1 ") || strings.Fields(lines[1])[5] != "halted" {
		t.Errorf("the oldest hold is not the first of four:\n%s", table)
	}
	for args, want := range map[string]string{
		"--topic orders": "1", "--cause circuit_breaker": "3", "--limit 1": "1", "--topic bills --cause infrastructure": "2",
	} {
		table, _, more := strings.Cut(succeed(t, db, append([]string{"outbox", "holds"}, strings.Fields(args)...)...), "There are more: ")
		shown := strings.Split(strings.TrimSpace(table), "\n")
		if more != (args == "--limit 1") {
			t.Errorf("%s says that there are more: %v", args, more)
		}
		if len(shown) != 2 || !strings.HasPrefix(shown[1], want+" ") {
			t.Errorf("%s lists\n%s", args, strings.Join(shown, "\n"))
		}
	}
	contains(t, succeed(t, db, "outbox", "holds", "--topic", "nothing"), "Nothing is held.")

	encoded := succeed(t, db, "outbox", "holds", "-o", "json")
	holds := decode[api.List[api.Hold]](t, encoded).Items
	if len(holds) != 4 {
		t.Fatalf("%d holds in %s", len(holds), encoded)
	}
	h := holds[0]
	if h.ID != "1" || h.Scope != relay.ScopeKey || h.Topic != "orders" || value(h.Key) != "k\x1b[2J" || h.Cause != relay.CauseHalted || h.Parked != 1 ||
		value(h.OutboxID) != "1" || h.NextProbeAt != nil || value(h.ErrorCategory) != "fatal" || h.HeldAt.IsZero() || h.Draining || h.Asked != nil || h.Partition != nil {
		t.Errorf("the halted key is %+v", h)
	}
	if h := holds[1]; h.Partition == nil || *h.Partition != 3 || *h.Partitions != 4 || h.NextProbeAt == nil || value(h.ErrorCategory) != "transient" || h.Key != nil {
		t.Errorf("the partition is %+v", h)
	}
	if got := decode[api.List[api.Hold]](t, succeed(t, db, "outbox", "holds", "-o", "json", "--topic", "nothing")); got.Items == nil || len(got.Items) != 0 || got.Next != nil {
		t.Errorf("no holds are %+v", got)
	}
}

// TestOutboxHoldsPageByPage: a list that ends before the holds do says so, and how to go on.
func TestOutboxHoldsPageByPage(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	pgtest.Exec(t, conn, `insert into postrider.outbox_hold (scope, topic, cause, held_at, next_probe_at)
		select 'topic', 't' || i, 'route', now() - (i / 3) * interval '1 minute', now() from generate_series(1, 130) i`)
	want := pgtest.Column[int64](t, conn, `select hold_id from postrider.outbox_hold order by held_at, hold_id`)
	var got []int64
	args, pages := []string{"outbox", "holds", "--limit", "40"}, 0
	for {
		pages++
		table := succeed(t, db, args...)
		for line := range strings.Lines(table) {
			number, _, _ := strings.Cut(line, " ")
			if id, err := strconv.ParseInt(number, 10, 64); err == nil {
				got = append(got, id)
			}
		}
		_, place, more := strings.Cut(table, "There are more: --after ")
		if !more {
			break
		}
		args = append(args[:4:4], "--after", strings.TrimSpace(place))
	}
	if pages != 4 || !slices.Equal(got, want) {
		t.Errorf("%d pages have %d holds, want 4 with the %d there are, in order: %v", pages, len(got), len(want), got)
	}
	if page := decode[api.List[api.Hold]](t, succeed(t, db, append(args, "-o", "json")...)).Items; len(page) != 10 || page[9].ID != strconv.FormatInt(want[129], 10) {
		t.Errorf("the last page as JSON has %d holds", len(page))
	}
	contains(t, succeed(t, db, "outbox", "holds", "--limit", "130"), "HOLD")
	if table := succeed(t, db, "outbox", "holds", "--limit", "130"); strings.Contains(table, "There are more") {
		t.Errorf("a full list says that there are more:\n%s", table)
	}
	status := succeed(t, db, "outbox", "status")
	contains(t, status, "130 holds; the 100 oldest are:", "The others: postrider outbox holds --after ")
	_, place, _ := strings.Cut(status, "--after ")
	if rest := decode[api.List[api.Hold]](t, succeed(t, db, "outbox", "holds", "-o", "json", "--after", strings.TrimSpace(place))).Items; len(rest) != 30 || rest[0].ID != strconv.FormatInt(want[100], 10) {
		t.Errorf("behind the holds of status are %d holds", len(rest))
	}
}

// TestWhatHoldsWaitFor: each hold says what ends it, also a command of an operator that the leader has not done yet.
func TestWhatHoldsWaitFor(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	pgtest.Exec(t, conn, `insert into postrider.outbox_hold (scope, topic, key, code, cause, next_probe_at, draining) values
		('topic', 'stock', null, null, 'route', now(), true), ('failure', 'orders', null, 'MESSAGE_TOO_LARGE', 'circuit_breaker', now() + interval '1 minute', false),
		('failure', 'orders', null, 'INVALID_RECORD', 'circuit_breaker', now() + interval '1 minute', false), ('key', 'bills', 'k', null, 'redrive', 'infinity', false)`)
	waits := func(hold string) string {
		for line := range strings.Lines(succeed(t, db, "outbox", "holds")) {
			if strings.HasPrefix(line, hold+" ") {
				return line
			}
		}
		return ""
	}
	for hold, want := range map[string]string{"1": "comes back", "2": "probe ", "4": "its event"} {
		contains(t, waits(hold), want)
	}
	contains(t, waits("2"), "failure", "orders, events that fail with MESSAGE_TOO_LARGE", "circuit_breaker")
	contains(t, succeed(t, db, "outbox", "release", "1"), "Hold 1 (topic of stock, route) is released", "come back in order")
	contains(t, succeed(t, db, "outbox", "release", "2"), "Hold 2 (failure of orders, circuit_breaker) is released", "tried once more")
	contains(t, succeed(t, db, "outbox", "give-up", "3"), "Hold 3 (failure of orders, circuit_breaker): the 0 events behind it become dead letters")
	contains(t, waits("2"), "comes back")
	contains(t, waits("3"), "is given up")
	if got := ask(t, conn, `select string_agg(concat_ws(' ', hold_id, asked), ', ' order by hold_id) from postrider.outbox_hold`); got != "1, 2 release, 3 give_up, 4" {
		t.Errorf("the leader is asked %s", got)
	}
}

// TestOutboxGiveUp: what a circuit breaker keeps, or what waits for a topic, may be given up at once, and nothing else;
// who asked is in the audit log.
func TestOutboxGiveUp(t *testing.T) {
	t.Parallel()
	d := newRig(t, 0)
	pgtest.Exec(t, d.db.Conn(t), `
		insert into postrider.outbox_event (topic, key) select 'orders', 'k' from generate_series(1, 3);
		insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps) values (1, 1, 3, 1, '{[1,4)}', '{}');
		insert into postrider.outbox_hold (hold_id, scope, topic, key, code, cause, next_probe_at) values
			(1, 'failure', 'orders', null, 'INVALID_RECORD', 'circuit_breaker', now() + interval '1 minute'), (2, 'key', 'orders', 'k', null, 'halted', 'infinity'),
			(3, 'topic', 'away', null, null, 'route', now());
		insert into postrider.outbox_exception (id, event_id, topic, state, hold_id) select id, event_id, topic, 'parked', 1 from postrider.outbox_event`)
	d.run(ExitFailure, "outbox give-up 2 --actor ada", "refused", "holds a key", "only circuit breakers and whole topics")
	d.run(ExitFailure, "outbox give-up 99", "hold 99", "not found", "postrider outbox holds")
	d.run(ExitUsage, "outbox give-up", "takes HOLD")
	d.run(ExitOK, "outbox give-up 1 --actor ada", "Hold 1 (failure of orders, circuit_breaker): the 3 events behind it become dead letters")
	d.run(ExitOK, "outbox give-up 3 --actor ada", "topic of away")
	d.run(ExitOK, "audit list --action outbox.give_up", "(ada)", "circuit_breaker", "orders")
	if got := d.ask(`select string_agg(concat_ws(' ', hold_id, asked), ', ' order by hold_id) from postrider.outbox_hold`); got != "1 give_up, 2, 3 give_up" {
		t.Errorf("the leader is asked %s", got)
	}
}

// TestOutboxHoldsOfDeadLetterTopics: each shows the events that go to it by the settings, and no others.
func TestOutboxHoldsOfDeadLetterTopics(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := db.Conn(t)
	pgtest.Exec(t, conn, `insert into postrider.outbox_hold (scope, topic, cause, next_probe_at, held_at) values
		('dead_letter', 'postrider.dlq', 'route', now(), now() - interval '3 minutes'), ('dead_letter', 'dead.bills', 'route', now(), now() - interval '2 minutes'),
		('dead_letter', 'dead.nothing', 'route', now(), now())`)
	pgtest.Exec(t, conn, `insert into postrider.outbox_exception (id, event_id, topic, state, episode, copied)
		select i, gen_random_uuid(), t, 'exhausted', 1, true from unnest(array['orders', 'stock', 'bills', 'bills', 'orders', 'orders', 'bills.eu']) with ordinality e(t, i)`)
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(file, []byte("topics:\n  - match: bills*\n    dlq_topic: dead.bills\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	behind := func(holds []api.Hold) string {
		var all []string
		for _, h := range holds {
			all = append(all, fmt.Sprint(h.Topic, " ", h.Parked))
		}
		return strings.Join(all, ", ")
	}
	const want = "postrider.dlq 4, dead.bills 3, dead.nothing 0"
	if got := behind(decode[api.List[api.Hold]](t, succeed(t, db, "outbox", "holds", "-o", "json", "--config", file)).Items); got != want {
		t.Errorf("behind the holds are %s, want %s", got, want)
	}
	if got := behind(decode[api.OutboxStatus](t, succeed(t, db, "outbox", "status", "-o", "json", "--config", file)).Holds); got != want {
		t.Errorf("status has behind the holds %s, want %s", got, want)
	}
	if got := behind(decode[api.List[api.Hold]](t, succeed(t, db, "outbox", "holds", "-o", "json")).Items); got != "postrider.dlq 7, dead.bills 0, dead.nothing 0" {
		t.Errorf("without a file behind the holds are %s", got)
	}
}

// TestOutboxRelease: what waited behind a halted key or an open breaker comes back; any other hold is probed.
func TestOutboxRelease(t *testing.T) {
	t.Parallel()
	db, conn := held(t)
	contains(t, succeed(t, db, "outbox", "release", "1"), "Hold 1 (key of orders, halted) is released", "come back in order")
	contains(t, succeed(t, db, "outbox", "release", "2"), "Hold 2 (partition of bills, infrastructure) is probed now")
	contains(t, succeed(t, db, "outbox", "release", "3"), "Hold 3 (failure of stock, circuit_breaker) is released")
	contains(t, succeed(t, db, "outbox", "release", "4"), "Hold 4 (dead_letter of postrider.dlq, route) is probed now")
	if got := ask(t, conn, `select string_agg(concat_ws(' ', hold_id, asked, next_probe_at <= now()), ', ' order by hold_id) from postrider.outbox_hold`); got != "1 release t, 2 t, 3 release t, 4 t" {
		t.Errorf("the holds are now %s", got)
	}
}

func TestOutboxSkip(t *testing.T) {
	t.Parallel()
	db, conn := held(t)
	contains(t, succeed(t, db, "outbox", "skip", "3", "--reason", "ticket 7"), "Event 3 is given up", "dead letter is on its way")
	if got := ask(t, conn, `select reason from postrider.outbox_skip_request where id = 3`); got != "ticket 7" {
		t.Errorf("the leader is asked to skip it for %s", got)
	}
	contains(t, succeed(t, db, "outbox", "skip", "2", "--reason", "ticket 8"), "Event 2 is given up", "dead letter is on its way")
	if got := ask(t, conn, `select concat_ws(' ', state, last_error_code, last_error) from postrider.outbox_exception where id = 2`); got != "exhausted SKIPPED skipped by hand: ticket 8" {
		t.Errorf("the event is %s", got)
	}
}

// TestOutboxRedrive: once; then the event is on its way, and its hold waits for it.
func TestOutboxRedrive(t *testing.T) {
	t.Parallel()
	db, conn := held(t)
	contains(t, succeed(t, db, "outbox", "redrive", "1"), "Event 1 is back in its place", "its key goes on when it is acknowledged")
	if got := ask(t, conn, `select concat_ws(' ', x.state, x.attempts, h.cause, h.hold_id) from postrider.outbox_exception x join postrider.outbox_hold h using (hold_id) where x.id = 1`); got != "parked 0 redrive 1" {
		t.Errorf("event and hold are %s", got)
	}
	contains(t, succeed(t, db, "outbox", "holds", "--topic", "orders"), "its event")
	r := postrider(t, []string{"DATABASE_URL=" + db.URL}, "outbox", "redrive", "1")
	if r.code != ExitFailure || r.stdout != "" {
		t.Errorf("a second time: exit code %d, %q", r.code, r.stdout)
	}
	contains(t, r.stderr, "event 1", "it is parked", "only a dead-lettered one")
}

// TestOutboxByHandFails: commands that are refused, or that name a missing hold or event, with their exit codes.
func TestOutboxByHandFails(t *testing.T) {
	t.Parallel()
	const nowhere = "postgres://u:s3ntinel@127.0.0.1:1/d"
	db, conn := held(t)
	empty := pgtest.NewEmpty(t)
	for args, c := range map[string]struct {
		url  string
		code int
		want []string
	}{
		"release 99":                  {db.URL, ExitFailure, []string{"hold 99", "not found", "may have ended by itself", "postrider outbox holds"}},
		"skip 99 --reason x":          {db.URL, ExitFailure, []string{"event 99", "not found", "postrider.outbox_event"}},
		"redrive 99":                  {db.URL, ExitFailure, []string{"event 99", "not found", "postrider.outbox_event"}},
		"skip 1 --reason x":           {db.URL, ExitFailure, []string{"event 1", "dead_lettered", "only one that waits can be skipped"}},
		"redrive 2":                   {db.URL, ExitFailure, []string{"event 2", "parked", "only a dead-lettered one"}},
		"release 9223372036854775807": {db.URL, ExitFailure, []string{"not found"}},
		"release":                     {nowhere, ExitUsage, []string{"takes HOLD"}},
		"skip":                        {nowhere, ExitUsage, []string{"takes EVENT"}},
		"redrive 1 2":                 {nowhere, ExitUsage, []string{"takes EVENT, but was given 2 arguments"}},
		"release one":                 {nowhere, ExitUsage, []string{`HOLD is "one"; it must be a whole number from 1 to 9223372036854775807`, "postrider outbox holds"}},
		"release 0":                   {nowhere, ExitUsage, []string{`HOLD is "0"`}},
		"redrive -- -1":               {nowhere, ExitUsage, []string{`EVENT is "-1"`}},
		"redrive 9223372036854775808": {nowhere, ExitUsage, []string{`EVENT is "9223372036854775808"`}},
		"skip x\x1b[2J --reason x":    {nowhere, ExitUsage, []string{`EVENT is "x\\x1b[2J"`}},
		"skip 2":                      {nowhere, ExitUsage, []string{"--reason"}},
		"skip 2 --reason=":            {nowhere, ExitUsage, []string{"--reason"}},
		"holds now":                   {nowhere, ExitUsage, []string{`takes no arguments, but was given "now"`}},
		"holds --limit 0":             {nowhere, ExitUsage, []string{"--limit is 0", "from 1 to 10000"}},
		"holds --after 7":             {nowhere, ExitUsage, []string{"--after", `"7" is no place`}},
		"holds --cause halt":          {nowhere, ExitUsage, []string{`--cause is "halt"`, "halted", "redrive"}},
		"holds -o xml":                {nowhere, ExitUsage, []string{`-o is "xml"`}},
		"hold":                        {nowhere, ExitUsage, []string{`no command "hold"`, "give-up, holds, list, process, purge, redrive, release, retry, skip"}},
		"release 1":                   {nowhere, ExitFailure, []string{"cannot be reached"}},
		"redrive 1":                   {empty.URL, ExitFailure, []string{"postrider migrate up"}},
		"holds":                       {empty.URL, ExitFailure, []string{"postrider migrate up"}},
	} {
		r := postrider(t, []string{"DATABASE_URL=" + c.url}, append([]string{"outbox"}, strings.Fields(args)...)...)
		if r.code != c.code || r.stdout != "" || !strings.HasPrefix(r.stderr, "postrider: ") {
			t.Errorf("%s: exit code %d, want %d; stdout %q, stderr %q", args, r.code, c.code, r.stdout, r.stderr)
		}
		contains(t, r.stderr, c.want...)
		if strings.Contains(r.stderr, "s3ntinel") || strings.Contains(r.stderr, "\x1b") {
			t.Errorf("%s: a password or an escape is shown: %q", args, r.stderr)
		}
	}
	if got := ask(t, conn, `select string_agg(id || ' ' || state, ', ' order by id) from postrider.v_outbox_event`); got != "1 dead_lettered, 2 parked, 3 pending" {
		t.Errorf("what failed has changed the events: %s", got)
	}
}

// TestOutboxByHandWithoutRights: a user who may only look is told which role is needed.
func TestOutboxByHandWithoutRights(t *testing.T) {
	t.Parallel()
	db, conn := held(t)
	role := "looker_" + strings.ReplaceAll(db.Name[max(0, len(db.Name)-12):], "-", "_")
	if _, err := conn.Exec(t.Context(), fmt.Sprintf(`create role %[1]s nologin; grant usage on schema postrider to %[1]s; grant select on all tables in schema postrider to %[1]s`, role)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		cleanup, err := pgx.Connect(ctx, db.URL)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := cleanup.Exec(ctx, "drop owned by "+role+"; drop role "+role); err != nil {
			t.Error(err)
		}
		_ = cleanup.Close(ctx)
	})
	asLooker := db.As(role)
	for _, args := range []string{"release 1", "give-up 3", "skip 2 --reason x", "redrive 1"} {
		r := postrider(t, []string{"DATABASE_URL=" + asLooker}, append([]string{"outbox"}, strings.Fields(args)...)...)
		if r.code != ExitFailure {
			t.Errorf("%s: exit code %d", args, r.code)
		}
		contains(t, r.stderr, "permission denied", "grant postrider_operator")
		if strings.Contains(r.stderr, "postrider_relay") {
			t.Errorf("%s: another role is named: %s", args, r.stderr)
		}
	}
	contains(t, postrider(t, []string{"DATABASE_URL=" + asLooker}, "outbox", "holds").stdout, "halted")
}
