package adopt_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestWhatIsRefused: each refusal says what is wrong, and leaves nothing behind.
func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	_, conn := fresh(t)
	pgtest.Exec(t, conn, outbox)
	pgtest.Exec(t, conn, `create view seen as select * from outbox; create temp table short (like outbox); create table "OutboxEvent" (like outbox);
		create table parent (like outbox); create table child () inherits (parent);
		create table theirs (like outbox); create function theirs() returns trigger language plpgsql as $$begin return null; end$$;
		create trigger postrider_forward after insert on theirs for each statement execute function theirs();
		create table typed (id uuid, aggregatetype text, aggregateid text, type text, payload jsonb, part text, at date, heads integer, price numeric)`)
	good := debezium(t)
	with := func(change func(*adopt.Definition)) adopt.Definition {
		d := debezium(t)
		change(&d)
		return d
	}
	for name, c := range map[string]struct {
		table string
		d     adopt.Definition
		want  []string
	}{
		"no table":           {"outboxes", good, []string{"there is no table outboxes"}},
		"other capitals":     {"OutboxEvent", good, []string{`there is public."OutboxEvent"`}},
		"view":               {"seen", good, []string{"public.seen is a view"}},
		"temporary":          {"short", good, []string{"is a temporary table"}},
		"ours":               {"postrider.outbox_event", good, []string{"is Postrider's own table"}},
		"inherited":          {"parent", good, []string{"inherit from it"}},
		"their trigger":      {"theirs", good, []string{"has a trigger postrider_forward that is not Postrider's"}},
		"no column":          {"outbox", with(func(d *adopt.Definition) { d.Key = "key" }), []string{`public.outbox has no column "key" for the key`, "aggregateid"}},
		"partition of text":  {"typed", with(func(d *adopt.Definition) { d.Partition = "part" }), []string{`"part"`, "is of the type text", "integer"}},
		"timestamp of dates": {"typed", with(func(d *adopt.Definition) { d.Timestamp = "at" }), []string{`"at"`, "is of the type date"}},
		"headers of numbers": {"typed", with(func(d *adopt.Definition) { d.HeadersJSON = "heads" }), []string{`"heads"`, "jsonb"}},
		"header of money":    {"typed", with(func(d *adopt.Definition) { d.Headers[0].Column = "price" }), []string{`"price"`, "numeric", "depends on the connector's settings"}},
		"no topic":           {"outbox", with(func(d *adopt.Definition) { d.Route = nil }), []string{"nothing says the topic"}},
		"two topics":         {"outbox", with(func(d *adopt.Definition) { d.Topic = "t" }), []string{"more than once"}},
		"no payload":         {"outbox", with(func(d *adopt.Definition) { d.Payload = "" }), []string{"no column has the payload"}},
		"our header":         {"outbox", with(func(d *adopt.Definition) { d.IDHeader, d.Headers[0].Name = "", "Postrider-Event-Id" }), []string{"relay's own"}},
		"header twice":       {"outbox", with(func(d *adopt.Definition) { d.Headers[0].Name = "id" }), []string{`"id" is there twice`}},
		"no such function":   {"outbox", with(func(d *adopt.Definition) { d.Route, d.TopicSQL = nil, "topic_of(r.type)" }), []string{"PostgreSQL refuses", "topic_of", "need their schema"}},
		"no condition":       {"outbox", with(func(d *adopt.Definition) { d.Where = "r.type" }), []string{"PostgreSQL refuses"}},
		"no SQL":             {"outbox", with(func(d *adopt.Definition) { d.Where = "true; drop table outbox" }), []string{"PostgreSQL refuses"}},
		"java only":          {"outbox", with(func(d *adopt.Definition) { d.Route.Regex = "a|b" }), []string{"alternatives", "--topic-sql"}},
	} {
		a, _ := adopter(conn)
		w := adopt.Wish{Definition: c.d, Mode: adopt.ModeForward}
		err := a.Adopt(t.Context(), c.table, w)
		_, showErr := a.Show(t.Context(), c.table, w, false)
		for _, err := range []error{err, showErr} {
			for _, part := range c.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %v; it should say %q", name, err, part)
				}
			}
		}
	}
	if left := pgtest.Value[int](t, conn, `select (select count(*) from postrider.outbox_forward) + (select count(*) from pg_proc where proname like 'outbox\_forward\_%')
		+ (select count(*) from pg_trigger where tgname = 'postrider_forward')`); left != 1 { // theirs
		t.Errorf("%d objects are there", left)
	}
}

// TestLoginsWithoutTheRights are told which right is missing.
func TestLoginsWithoutTheRights(t *testing.T) {
	t.Parallel()
	db, conn := fresh(t)
	pgtest.Exec(t, conn, outbox)
	role := role(t, db)
	pgtest.Exec(t, conn, `grant usage on schema postrider to `+role+`; grant select on postrider.outbox_forward to `+role)
	try := func() error {
		as, err := pgx.Connect(t.Context(), db.As(role))
		if err != nil {
			t.Fatal(err)
		}
		defer as.Close(t.Context())
		a, _ := adopter(as)
		return a.Adopt(t.Context(), "public.outbox", adopt.Wish{Definition: debezium(t), Mode: adopt.ModeForward})
	}
	for _, step := range []struct{ want, grant string }{
		{"is not the owner of public.outbox", `alter table outbox owner to ` + role},
		{"may not make functions in the schema postrider", `grant create on schema postrider to ` + role},
		{"owns postrider.outbox_event", ""},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), step.want) {
			t.Errorf("%v; it should say %q", err, step.want)
		}
		if step.grant != "" {
			pgtest.Exec(t, conn, step.grant)
		}
	}
}

// TestAPrefixIsOfOneShadow: with a prefix for two tables, the topics of one would be compared as the topics of the other.
func TestAPrefixIsOfOneShadow(t *testing.T) {
	t.Parallel()
	_, conn := fresh(t)
	pgtest.Exec(t, conn, outbox+`; create table other (like outbox including all)`)
	a, _ := adopter(conn)
	shadow := func(table, prefix string) error {
		return a.Adopt(t.Context(), table, adopt.Wish{Definition: debezium(t), Mode: adopt.ModeShadow, Prefix: prefix})
	}
	if err := shadow("outbox", "s."); err != nil {
		t.Fatal(err)
	}
	if err := shadow("other", "s."); err == nil || !strings.Contains(err.Error(), "the shadow of public.outbox begin with s. already") || !strings.Contains(err.Error(), "--prefix") {
		t.Errorf("a prefix twice: %v", err)
	}
	for _, c := range [][2]string{{"other", "t."}, {"outbox", "u."}, {"other", "s."}} {
		if err := shadow(c[0], c[1]); err != nil {
			t.Errorf("%q: %v", c, err)
		}
	}
}

// TestAnotherDefinition is put in the place of the first only where that is asked for.
func TestAnotherDefinition(t *testing.T) {
	t.Parallel()
	_, conn, a := take(t, outbox, "outbox", debezium(t))
	other := debezium(t)
	other.Headers = nil
	w := adopt.Wish{Definition: other, Mode: adopt.ModeForward}
	if err := a.Adopt(t.Context(), "outbox", w); err == nil || !strings.Contains(err.Error(), "--replace") || !strings.Contains(err.Error(), "eventType") {
		t.Errorf("another definition: %v", err)
	}
	pgtest.Exec(t, conn, `insert into outbox values `+row(1, "Order", "o"))
	wantEvents(t, conn, event(1, "Order", "o"))
	w.Replace = true
	if err := a.Adopt(t.Context(), "outbox", w); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, conn, `insert into outbox values `+row(2, "Order", "o"))
	wantEvents(t, conn, `outbox.event.Order o {"n": 2} [["id", "`+id(2)+`"]]`)
	// What was changed by hand is made as it was.
	for _, broken := range []string{`alter table outbox disable trigger postrider_forward`, `drop trigger postrider_forward on outbox`} {
		pgtest.Exec(t, conn, broken)
		if err := a.Adopt(t.Context(), "outbox", w); err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, conn, `insert into outbox values (gen_random_uuid(), 'Order', 'o', 'Made', '{}')`)
		if n := len(events(t, conn)); n != 1 {
			t.Errorf("after %s there are %d events", broken, n)
		}
		pgtest.Exec(t, conn, `delete from postrider.outbox_event`)
	}
}

// TestTheScriptIsWhatIsDone: the printed SQL, run by psql or a migration tool, does the same.
func TestTheScriptIsWhatIsDone(t *testing.T) {
	t.Parallel()
	for _, tool := range []bool{false, true} {
		_, conn := fresh(t)
		pgtest.Exec(t, conn, outbox)
		a, said := adopter(conn)
		w := adopt.Wish{Definition: debezium(t), Mode: adopt.ModeForward}
		script, err := a.Show(t.Context(), "outbox", w, tool)
		if err != nil {
			t.Fatal(err)
		}
		if n := pgtest.Value[int](t, conn, `select count(*) from postrider.outbox_forward`); n != 0 {
			t.Fatal("printing it changed the database")
		}
		if tool == strings.Contains(script, "\nbegin;") {
			t.Errorf("tool %t:\n%s", tool, script)
		}
		pgtest.Exec(t, conn, script)
		pgtest.Exec(t, conn, `insert into outbox values `+row(1, "Order", "o"))
		wantEvents(t, conn, event(1, "Order", "o"))
		if err := a.Adopt(t.Context(), "outbox", w); err != nil || !strings.Contains((*said)[0], "nothing was done") {
			t.Errorf("after the script: %v, %q", err, *said)
		}
		removal, err := a.ShowRemoval(t.Context(), "outbox")
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, conn, removal)
		for range 2 {
			if err := a.Remove(t.Context(), "outbox"); err != nil {
				t.Fatal(err)
			}
		}
		if last := (*said)[len(*said)-1]; !strings.Contains(last, "nothing was done") {
			t.Errorf("the second removal said %q", last)
		}
	}
}

// TestAWriterThatStaysOpen is waited for, and named when it stays too long.
func TestAWriterThatStaysOpen(t *testing.T) {
	t.Parallel()
	db, conn := fresh(t)
	pgtest.Exec(t, conn, outbox)
	writer := db.Conn(t)
	pgtest.Exec(t, writer, `begin; insert into public.outbox values `+row(1, "Order", "o"))
	a, said := adopter(conn)
	a.LockTimeout, a.Attempts = 10*time.Millisecond, 2
	w := adopt.Wish{Definition: debezium(t), Mode: adopt.ModeForward}
	if err := a.Adopt(t.Context(), "outbox", w); err == nil || !strings.Contains(err.Error(), "nothing was changed") || !strings.Contains(err.Error(), "idle in transaction") {
		t.Errorf("%v", err)
	}
	if len(*said) != 1 || !strings.Contains((*said)[0], "trying again") {
		t.Errorf("it said %q", *said)
	}
	pgtest.Exec(t, writer, `commit`)
	if err := a.Adopt(t.Context(), "outbox", w); err != nil {
		t.Error(err)
	}
}
