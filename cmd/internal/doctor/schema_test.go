package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgbouncer"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestBrokenDatabases breaks a database in one way after the other, and undoes it.
func TestBrokenDatabases(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	for _, c := range []struct {
		do, undo, group, check string
		verdict                Verdict
		says                   string
	}{
		{`alter table postrider.outbox_event enable row level security`, `alter table postrider.outbox_event disable row level security`,
			"schema", "row-level security", Warning, "does not apply to the user"},
		{`alter table postrider.outbox_event alter column id set cache 32`, `alter table postrider.outbox_event alter column id set cache 1`,
			"schema", "sequence of events", Failed, "set cache 1"},
		{`insert into postrider.outbox_receipt (number, term, position, gaps) values (1, 1, 5, '{}')`, `delete from postrider.outbox_receipt where number = 1`,
			"schema", "sequence of events", Failed, "stands at 0, below the position 5"},
		{`create subscription ` + s.db.Name + ` connection 'dbname=nowhere' publication p with (connect = false, slot_name = none);
			insert into pg_catalog.pg_subscription_rel (srsubid, srrelid, srsubstate) select oid, 'postrider.outbox_event'::regclass, 'r' from pg_catalog.pg_subscription where subname = '` + s.db.Name + `'`,
			`drop subscription ` + s.db.Name, "schema", "subscriptions", Failed, "below the position are never read"},
		{`create function public.noop() returns trigger language plpgsql as 'begin return new; end'; create trigger theirs before insert on postrider.outbox_event for each row execute function public.noop()`,
			`drop function public.noop cascade`, "schema", "additions to the log", Warning, "trigger theirs"},
		{`alter table postrider.outbox_event add constraint no_tests check (topic <> 'test')`, `alter table postrider.outbox_event drop constraint no_tests`,
			"schema", "additions to the log", Warning, "constraint no_tests"},
		{`create table public.sent (event bigint constraint of_event references postrider.outbox_event)`, `drop table public.sent`,
			"schema", "additions to the log", Warning, "foreign key of_event of sent"},
		{`alter database ` + s.db.Name + ` set synchronous_commit = off`, `alter database ` + s.db.Name + ` reset synchronous_commit`,
			"database", "durability", Warning, "synchronous_commit is off for this database"},
		{`create role ` + s.db.Name + `; alter role ` + s.db.Name + ` in database ` + s.db.Name + ` set synchronous_commit = off`, `drop role ` + s.db.Name,
			"database", "durability", Warning, "synchronous_commit is off for the role " + s.db.Name},
		{`update postrider.outbox_retention set stopped_at = now(), reason = 'the log has 7 rows' where kind = 'published'`, `update postrider.outbox_retention set stopped_at = null, reason = null`,
			"state", "retention", Failed, "the log has 7 rows"},
		{`alter table postrider.outbox_event set (autovacuum_enabled = false)`, `alter table postrider.outbox_event reset (autovacuum_enabled)`,
			"schema", "autovacuum", Failed, "outbox_event"},
		{`alter table postrider.dlq_letter set (autovacuum_enabled = off)`, `alter table postrider.dlq_letter reset (autovacuum_enabled)`,
			"schema", "autovacuum", Warning, "dlq_letter"},
		{`alter database ` + s.db.Name + ` set default_transaction_read_only = on`, `set transaction read write; alter database ` + s.db.Name + ` reset default_transaction_read_only`,
			"database", "writes", Failed, "default_transaction_read_only"},
		{`update postrider.schema_migration set checksum = 'x' where version = 1`, ``, "schema", "version", Failed, "other migrations"},
	} {
		s.exec(t, c.do)
		s.examine(t, nil).want(t, c.group, c.check, c.verdict, c.says)
		if c.undo != "" {
			s.exec(t, c.undo)
		}
	}
}

// TestHiddenRows: to a user to whom row-level security applies it is a failure.
func TestHiddenRows(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	if err := migrations.ApplyRoles(t.Context(), s.conn); err != nil {
		t.Fatal(err)
	}
	s.exec(t, `alter table postrider.outbox_event enable row level security`)
	s.asRole(t, "postrider_relay")
	s.examine(t, nil).want(t, "schema", "row-level security", Failed, "outbox_event")
}

// TestOldTransactions: an old open transaction is found, with advice. Without the right to read ages the check is skipped.
func TestOldTransactions(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	other := s.db.Conn(t)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `select pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	s.examine(t, nil).want(t, "database", "oldest transaction", OK)
	r := s.examine(t, func(c *Config) { c.limits.oldTransaction = time.Nanosecond })
	r.want(t, "database", "oldest transaction", Warning, "idle in transaction", "pg_terminate_backend")
	r = s.examine(t, func(c *Config) {
		c.limits.oldTransaction, c.limits.ancientTransaction = time.Nanosecond, time.Nanosecond
	})
	r.want(t, "database", "oldest transaction", Failed, "idle in transaction", "pg_terminate_backend")
	if r.OK {
		t.Error("the report is well")
	}
	if err := migrations.ApplyRoles(t.Context(), s.conn); err != nil {
		t.Fatal(err)
	}
	s.asRole(t, "postrider_operator")
	s.examine(t, nil).want(t, "database", "oldest transaction", Skipped, "pg_read_all_stats")
}

func TestDeadRows(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	r := s.examine(t, func(c *Config) { c.limits.deadRows = -1 })
	r.want(t, "schema", "autovacuum", Warning, "outbox_event has about 0 dead rows and never was vacuumed", "vacuum postrider.")
}

// TestThroughAPooler: it is seen, and a setting that does not fit fails.
func TestThroughAPooler(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	s.flags["database.url"] = pgbouncer.Start(t, s.db.URL, 3)
	r := s.examine(t, nil)
	r.want(t, "database", "pooler", OK, "a pooler stands before")
	if rest := r.rest("state collector", "state leader", "database pg_trgm"); !r.OK || len(rest) > 0 {
		t.Errorf("not well: %+v", rest)
	}
	for _, c := range []struct {
		between bool
		mode    string
		verdict Verdict
	}{{true, "none", Failed}, {true, "auto", OK}, {true, "transaction", OK}, {false, "transaction", Warning}, {false, "auto", OK}, {false, "none", OK}} {
		s.flags["database.pooler"] = c.mode
		if got := judgePooler(c.between, poolerMode(c.mode)); got[0].verdict != c.verdict {
			t.Errorf("pooler %v, mode %s: %+v", c.between, c.mode, got)
		}
	}
}

// TestJudgements: a state that a test cannot bring about is judged from the values that the doctor would read.
func TestJudgements(t *testing.T) {
	t.Parallel()
	old := func(minutes float64) *float64 { minutes *= 60; return &minutes }
	for name, c := range map[string]struct {
		got  []result
		want Verdict
	}{
		"version 13":             {judgeVersion(130010, "13.10"), Failed},
		"version 14":             {judgeVersion(140000, "14.0"), OK},
		"version 18.1":           {judgeVersion(180001, "18.1"), Failed},
		"version 18.2":           {judgeVersion(180002, "18.2"), OK},
		"version 17":             {judgeVersion(170003, "17.3"), OK},
		"version 19":             {judgeVersion(190000, "19devel"), OK},
		"prepared, none":         {judgePrepared(0, true), OK},
		"prepared, notifier":     {judgePrepared(10, true), Warning},
		"prepared, no notifier":  {judgePrepared(10, false), OK},
		"prepared transaction":   {judgeTransactions([]transaction{{"prepared", "it's", "", "me", "prepared", old(6)}}, defaultLimits), Warning},
		"for hours":              {judgeTransactions([]transaction{{"prepared", "it's", "", "me", "prepared", old(61)}}, defaultLimits), Failed},
		"fresh ones":             {judgeTransactions([]transaction{{"session", "1", "", "me", "active", old(1)}}, defaultLimits), OK},
		"connections":            {judgeConnections(10, 97, 5, -1, -1), OK},
		"connections, used":      {judgeConnections(10, 97, 90, -1, -1), Warning},
		"connections, few":       {judgeConnections(10, 9, 1, -1, -1), Failed},
		"connections, user":      {judgeConnections(10, 97, 1, -1, 9), Failed},
		"connections, database":  {judgeConnections(10, 97, 1, 5, -1), Failed},
		"durable":                {judgeDurability("on", nil, 0, ""), OK},
		"durable, standbys":      {judgeDurability("on", nil, 2, "ANY 1 (*)"), OK},
		"asynchronous standbys":  {judgeDurability("on", nil, 1, ""), Warning},
		"commits local":          {judgeDurability("local", nil, 1, "b"), Warning},
		"local, no standby":      {judgeDurability("local", nil, 0, ""), OK},
		"commits off":            {judgeDurability("off", nil, 0, ""), Warning},
		"off for a role":         {judgeDurability("on", []string{"the role orders"}, 2, "ANY 1 (*)"), Warning},
		"a leader":               {judgeLeader(true, "a:1", time.Minute, 2), OK},
		"no leader":              {judgeLeader(false, "a:1", time.Minute, 2), Failed},
		"no relay":               {judgeLeader(false, "", 0, 0), Warning},
		"trigrams":               {judgeTrigrams(true, true), OK},
		"trigrams, to be made":   {judgeTrigrams(false, true), Warning},
		"trigrams, not there":    {judgeTrigrams(false, false), Warning},
		"clock":                  {judgeClock("it", time.Second, 0, defaultLimits), OK},
		"clock, behind":          {judgeClock("it", -3*time.Second, 0, defaultLimits), Warning},
		"clock, far ahead":       {judgeClock("it", 2*time.Minute, 0, defaultLimits), Failed},
		"clock, slow answer":     {judgeClock("it", 3*time.Second, 2*time.Second, defaultLimits), OK},
		"rights, none complete":  {judgeRights(map[string][]string{"relay": {"a"}, "operator": {"a", "b"}, "writer": {"a"}}, ""), Failed},
		"rights, one complete":   {judgeRights(map[string][]string{"relay": {"a"}, "operator": {"a", "b"}}, ""), OK},
		"rights, another wanted": {judgeRights(map[string][]string{"relay": {"a"}}, "relay"), Failed},
		"collector":              {judgeCollector("g", 5, 1, false, defaultLimits), OK},
		"collector, late":        {judgeCollector("g", 20_000, 1, false, defaultLimits), Warning},
		"collector, none":        {judgeCollector("g", 5, 0, true, defaultLimits), Failed},
		"a socket":               {judgeEncryption("postgres://u@/d?host=/run/postgresql"), OK},
		"this machine":           {judgeEncryption("postgres://u@127.0.0.1:5432/d"), OK},
		"elsewhere":              {judgeEncryption("postgres://u@db:5432/d"), Warning},
		"elsewhere, disabled":    {judgeEncryption("postgres://u@db:5432/d?sslmode=disable"), Warning},
		"elsewhere, one of two":  {judgeEncryption("postgres://u@localhost,db:5432/d?sslmode=allow"), Warning},
		"elsewhere, required":    {judgeEncryption("postgres://u@db:5432/d?sslmode=require"), OK},
		"elsewhere, verified":    {judgeEncryption("postgres://u@db:5432/d?sslmode=verify-full"), OK},
		"HTTP here":              {judgeListening(config.HTTP{Address: "127.0.0.1:8080", API: true}), OK},
		"HTTP everywhere":        {judgeListening(config.HTTP{Address: ":8080", API: true}), Warning},
		"HTTP on an address":     {judgeListening(config.HTTP{Address: "10.0.0.5:8080", API: true}), Warning},
		"metrics everywhere":     {judgeListening(config.HTTP{Address: "0.0.0.0:8080"}), OK},
		"operation, stuck":       {judgeOperation("id", "n", "running", "", 2*time.Minute), Warning},
		"operation, paused":      {judgeOperation("id", "n", "paused", "", time.Second), Warning},
	} {
		if len(c.got) == 0 || c.got[0].verdict != c.want || c.got[0].says == "" {
			t.Errorf("%s: %+v, want %s", name, c.got, c.want)
			continue
		}
		if bad := c.want == Warning || c.want == Failed; bad && c.got[0].hint == "" {
			t.Errorf("%s: no hint", name)
		}
	}
	if got := judgeTransactions([]transaction{{"prepared", "it's", "", "me", "prepared", old(61)}}, defaultLimits)[0].hint; !contains(got, "rollback prepared 'it''s'") {
		t.Errorf("hint %q", got)
	}
	if got := judgeOperation("id", "n", "running", "", time.Second); got != nil {
		t.Errorf("an operation that runs: %+v", got)
	}
}

// TestEveryCauseIsJudged: the doctor reads holds of every cause, but for the causes that end by themselves.
func TestEveryCauseIsJudged(t *testing.T) {
	t.Parallel()
	passing := []relay.Cause{relay.CauseRetry, relay.CauseRedrive}
	for _, c := range relay.Causes() {
		if read := strings.Contains(holdsQuery, "'"+string(c)+"'"); read == slices.Contains(passing, c) {
			t.Errorf("queries/holds.sql reads holds of the cause %s: %v", c, read)
		}
	}
}

// TestState: the doctor finds the work that waits for a person, and names the command that helps.
func TestState(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	topic := s.broker.Topic(t, 1, nil)
	s.exec(t, `insert into postrider.outbox_event (topic, key) values ($1, 'k')`, topic)
	s.examine(t, nil).want(t, "state", "backlog", Warning, "1 event is due", "no relay leads", "no relay works on them")
	s.exec(t, `update postrider.outbox_event set created_at = now() - interval '5 minutes'`)
	s.examine(t, nil).want(t, "state", "backlog", Warning, "1 event is due", "5m", "no relay works on them")
	s.exec(t, `update postrider.outbox_event set created_at = now() - interval '1 hour'`)
	s.examine(t, nil).want(t, "state", "backlog", Failed, "1h0m")

	s.exec(t, `insert into postrider.outbox_hold (scope, topic, key, code, cause, error_code, next_probe_at, held_at) values
		('key', $1, 'k', null, 'halted', 'X', 'infinity', now()), ('topic', 'nowhere', null, null, 'route', 'UNKNOWN_TOPIC', now(), now() - interval '1 hour'),
		('failure', 'broken', null, 'X', 'circuit_breaker', 'X', now(), now() - interval '3 minutes'), ('topic', 'away', null, null, 'infrastructure', 'TIMEOUT', now(), now() - interval '2 minutes'),
		('topic', 'blip', null, null, 'infrastructure', 'TIMEOUT', now(), now())`, topic)
	r := s.examine(t, nil)
	r.want(t, "state", "holds", Warning, "1 key is halted", topic, "postrider outbox holds --cause halted")
	r.want(t, "state", "holds", Failed, "nowhere", "UNKNOWN_TOPIC", "1h0m")
	r.want(t, "state", "holds", Warning, "1 circuit breaker is open for 3m", "broken, X", "postrider outbox give-up HOLD")
	r.want(t, "state", "holds", Failed, "away", "TIMEOUT")
	r.want(t, "topics", "existence", Failed, "nowhere", "create them")

	r.want(t, "state", "archiver", OK, "not paused")
	s.exec(t, `update postrider.tasker_switch set paused_at = now() - interval '2 hours', paused_by = 'ada', resume_at = now() - interval '1 hour'`)
	r = s.examine(t, nil)
	r.want(t, "state", "detector", OK, "not paused")
	r.want(t, "state", "archiver", OK, "not paused")
	s.exec(t, `update postrider.tasker_switch set pause_reason = 'too slow of the ' || engine, resume_at = null`)
	s.exec(t, `insert into postrider.dlq_operation (kind, name, actor, state, scope, error) values ('redrive', 'inc-1', 'ada', 'halted', '{}', '5 of 9 came back dead')`)
	s.exec(t, `insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, resolution_status, snapshot, created_at, last_occurred_at)
		values ('record', 'r', 'failed', 'undeliverable', now(), 'pending', '{}', now() - interval '30 days', now())`)
	r = s.examine(t, nil)
	r.want(t, "state", "detector", Warning, "detectors of stale tasks are paused", "ada", "too slow of the detector", "postrider task detector resume")
	r.want(t, "state", "archiver", Warning, "archivers of tasks are paused", "ada", "too slow of the archiver", "postrider archive resume")
	r.want(t, "state", "operations", Warning, "inc-1", "5 of 9 came back dead", "postrider op resume")
	r.want(t, "state", "investigations", Warning, "1 investigation is pending", "dlq.max_pending_age_hours")
}
