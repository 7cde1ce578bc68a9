package postgres

import (
	"maps"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/migrations"
	"github.com/postrider/postrider/relay"
)

// onPartitions begins the names of tests whose outbox is partitioned.
const onPartitions = "TestOnPartitions/"

// partition makes the outbox partitioned, with so many ids in each partition; ids go on as they were.
func (f *fixture) partition(rows int64) {
	f.Helper()
	if err := Partition(f.Context(), f.db.Conn(f.T), PartitionOptions{Rows: rows, Gap: -1}); err != nil {
		f.Fatal(err)
	}
}

// TestOnPartitions runs the tests of the store on an outbox with partitions of three ids: most tests use
// two of them and the default one.
func TestOnPartitions(t *testing.T) {
	t.Parallel()
	for _, test := range []func(*testing.T){
		TestClaimReadsEventsAsTheyWereWritten, TestClaimTakesPendingEventsOnly, TestClaimIsInOrderAndShared, TestClaimIsBoundedInBytes,
		TestClaimBeginsAtTheGivenShard, TestAbandonedClaimIsFree, TestConcurrentClaimsShareNoShard, TestClaimSeesWhatTheLastOwnerSettled,
		TestSuspectsStayUntilTheyWereTried, TestMarkIsSeenAtOnce, TestAttemptsAreCountedBesideTheClaim, TestNoDeadlocks,
		TestLettersAreClaimedOldestFirstAndOnce, TestHeldLetters, TestLettersSettleOnlyWhatIsExhausted, TestLettersOfADeadSessionAreFree, TestExhaustedNeverComesBack,
		TestMarksRiseOverSettledEvents, TestMarksStopAtPendingEvents, TestMarksWaitForUncommittedEvents, TestMarksDoNotWaitForReaders,
		TestReturnedEventsLowerTheMark, TestSunkenEventsAreFound,
		TestHoldFromParkingToItsEnd, TestFailedProbe, TestFailureWhileDraining, TestTopicHoldOverManyShards, TestHoldThatEndedMeanwhile, TestHoldWaitsForWhoeverParks,
		TestScheduledEventsComeBackWhenTheyAreDue, TestRetriedEventIsNotDelayedAgain, TestDelayedEventsOfOneTimeComeBackInOrder,
		TestSettleDelivered, TestSettleDeliveredByDeleting, TestSettleExhausted, TestSettleScheduled, TestSettleParked, TestSettleLeavesAloneWhatIsNotItsOwn,
		TestSettleTakesAnyText, TestSettleTakesAnyKey, TestStatusOfAnEmptyOutbox, TestStatusCounts,
		TestBacklog, TestOldestDue, TestDeadLetteredEventsStayForTheirInvestigation, TestOldIdempotencyKeysGo, TestEveryQueryIsValid,
	} {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		t.Run(name[strings.LastIndexByte(name, '.')+1:], test)
	}
}

// TestPlansOnPartitions: see TestPlansWithStaleStatistics. Every partition is walked along the index that
// the plain table would be walked along, and none is read as a whole.
func TestPlansOnPartitions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.partition(20_000)
	load(f)
	plans := eventPlans()
	maps.Copy(plans, purgePlans())
	maps.Copy(plans, map[string]plan{
		"raise_water": {"7" + someMarks, "outbox_event_claim"}, "find_sunken": {someMarks[2:], "outbox_event_claim"},
		"know_water": {"7" + someMarks, "outbox_event_claim"},
	})
	for name, q := range plans {
		wantPlan(f, name, q.args, q.uses)
	}
}

// asOnOneTable renames the partitions' indexes in a plan to those of the table.
func asOnOneTable(f *fixture, plan string) string {
	f.Helper()
	rows, err := f.pool.Query(f.Context(), `select inhrelid::regclass::text, inhparent::regclass::text from pg_inherits i join pg_class c on c.oid = i.inhparent and c.relkind = 'I'`)
	if err != nil {
		f.Fatal(err)
	}
	parents := map[string]string{}
	var part, parent string
	if _, err := pgx.ForEachRow(rows, []any{&part, &parent}, func() error {
		parents[strings.TrimPrefix(part, "postrider.")] = strings.TrimPrefix(parent, "postrider.")
		return nil
	}); err != nil {
		f.Fatal(err)
	}
	return regexp.MustCompile(`using (\w+)`).ReplaceAllStringFunc(plan, func(s string) string {
		if name := parents[strings.TrimPrefix(s, "using ")]; name != "" {
			return "using " + name
		}
		return s
	})
}

// contents describes the table as everybody but its owner sees it.
func contents(f *fixture) string {
	f.Helper()
	return value[string](f, `select concat_ws(E'\n',
		(select string_agg(v::text, E'\n' order by v.id) from postrider.v_outbox_event v),
		(select string_agg(concat_ws(' ', attname, atttypid::regtype, attnotnull, attidentity, attgenerated, attacl, col_description(attrelid, attnum),
			pg_get_expr(d.adbin, d.adrelid)), E'\n' order by attname) from pg_attribute left join pg_attrdef d on d.adrelid = attrelid and d.adnum = attnum
		 where attrelid = 'postrider.outbox_event'::regclass and attnum > 0 and not attisdropped),
		(select string_agg(concat_ws(' ', conname, pg_get_constraintdef(oid), convalidated, obj_description(oid, 'pg_constraint')), E'\n' order by conname)
		 from pg_constraint where conrelid = 'postrider.outbox_event'::regclass),
		(select string_agg(concat_ws(' ', relname, relowner::regrole, relacl, obj_description(oid, 'pg_class')), E'\n' order by relname) from pg_class
		 where relnamespace = 'postrider'::regnamespace and not relispartition),
		(select string_agg(replace(pg_get_indexdef(indexrelid), 'ON ONLY', 'ON'), E'\n' order by indexrelid::regclass::text) from pg_index where indrelid = 'postrider.outbox_event'::regclass),
		(select pg_get_viewdef('postrider.v_outbox_event'::regclass)),
		pg_get_serial_sequence('postrider.outbox_event', 'id'))`)
}

// sameContents reports what only one of two descriptions has.
func sameContents(t *testing.T, after, before string) {
	t.Helper()
	is, was := strings.Split(after, "\n"), strings.Split(before, "\n")
	for _, line := range was {
		if !slices.Contains(is, line) {
			t.Errorf("no more: %s", line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			t.Errorf("new: %s", line)
		}
	}
}

func TestPartitioningChangesNothingElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn := f.db.Conn(t)
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	f.insert("a", "b", "-")
	f.aged(time.Hour, "published", "parked", "dead_lettered")
	f.exec(`select postrider.outbox_set_max_payload_bytes(1000)`) // leaves a constraint that does not speak of old rows
	before := contents(f)
	f.partition(5)
	sameContents(t, contents(f), before)
	for sql, want := range map[string]string{
		`select string_agg(name || ' ' || coalesce(from_id::text, '') || '-' || to_id, ', ' order by to_id) from postrider.outbox_partition`: "outbox_event_p0 -7, outbox_event_p7 7-12, outbox_event_p12 12-17",
		// The same autovacuum settings everywhere, and no index beside those of the table.
		`select count(distinct c.reloptions) || ' ' || count(*) from pg_class c join pg_inherits i on i.inhrelid = c.oid where inhparent = 'postrider.outbox_event'::regclass and 'autovacuum_vacuum_threshold=20000' = any (c.reloptions)`: "1 4",
		`select string_agg(distinct n::text, ' ') from (select count(*) n from pg_index x join pg_inherits i on i.inhrelid = x.indrelid where inhparent = 'postrider.outbox_event'::regclass group by x.indrelid) c`:                        "6",
	} {
		if got := value[string](f, sql); got != want {
			t.Errorf("%s\n%s, want %s", sql, got, want)
		}
	}
	// Everybody goes on, in their role.
	for _, sql := range []string{
		"set role postrider_writer",
		"insert into postrider.outbox_event (topic, key, payload) values ('t', 'a', 'v')",
		"select postrider.outbox_publish('t', 'a', '1', idempotency_key => 'k')",
		"reset role",
		"select postrider.outbox_set_max_payload_bytes(2000)",
		"set role postrider_relay",
		"select postrider.outbox_add_partitions(3)",
		"select postrider.outbox_drop_partition('1 day')",
		"reset role",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	c := f.claim()
	if got := claimed(c); !slices.Equal(got, []int64{1, 2, 3, 7, 8}) {
		t.Errorf("claimed %v", got)
	}
	f.settle(c, &relay.Settlement{Delivered: claimed(c)})
	if err := Partition(t.Context(), conn, PartitionOptions{Rows: 5}); err == nil || !strings.Contains(err.Error(), "partitioned already") {
		t.Errorf("partitioned twice: %v", err)
	}
}

func TestWhatKeepsFromPartitioning(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn := f.db.Conn(t)
	f.insert("a")
	f.exec(`create table public.mine (event bigint references postrider.outbox_event);
		create view public.theirs as select id from postrider.outbox_event;
		create function public.f() returns trigger language plpgsql as 'begin return new; end';
		create trigger ours before insert on postrider.outbox_event for each row execute function public.f();
		create publication everything for table postrider.outbox_event`)
	before := contents(f)
	err := Partition(t.Context(), conn, PartitionOptions{Rows: 5})
	for _, want := range []string{"foreign key mine_event_fkey of public.mine", "publication everything", "trigger ours", "view public.theirs"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name the %s", err, want)
		}
	}
	f.exec(`drop publication everything; drop trigger ours on postrider.outbox_event; drop view public.theirs; drop table public.mine`)
	// A row beyond the ids there are.
	if err := Partition(t.Context(), conn, PartitionOptions{Rows: 0}); err == nil || !strings.Contains(err.Error(), "Rows is 0") {
		t.Errorf("partitions of 0 rows: %v", err)
	}
	f.exec(`create unique index one_topic on postrider.outbox_event (topic)`)
	if err := Partition(t.Context(), conn, PartitionOptions{Rows: 5}); err == nil || !strings.Contains(err.Error(), "unique") {
		t.Errorf("with a unique index: %v", err)
	}
	f.exec(`drop index postrider.one_topic`)
	// Somebody is in the table all the time.
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select count(*) from postrider.outbox_event`); err != nil {
		t.Fatal(err)
	}
	err = Partition(t.Context(), conn, PartitionOptions{Rows: 5, Patience: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "too busy") || !strings.Contains(err.Error(), "pg_stat_activity") {
		t.Errorf("in a busy table: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameContents(t, contents(f), before)
	f.partition(5)
}

// TestClaimsPassOldPartitions: what lies below the low-water marks is not even opened.
func TestClaimsPassOldPartitions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.partition(3000)
	f.many(3000 + raiseAfter)
	f.raise()
	f.insert("a")
	conn, err := f.relay.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		for _, sql := range []string{"set local plan_cache_mode = force_generic_plan", "select set_config('postrider.claim', '{1,2,3,4}', true)", "prepare q as " + claimEvents} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		rows, err := tx.Query(t.Context(), "explain (analyze, costs off, timing off, summary off) execute q(1000, 1000000"+someMarks+")")
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		plan := strings.Join(lines, "\n")
		for part, passed := range map[string]bool{"outbox_event_p0": true, "outbox_event_p1": true, "outbox_event_p3001": false} {
			if got := regexp.MustCompile(part + ` \S+ \(never executed\)`).MatchString(plan); got != passed {
				t.Errorf("%s is passed: %v, want %v:\n%s", part, got, passed, plan)
			}
		}
		_, err = tx.Exec(t.Context(), "deallocate q")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
