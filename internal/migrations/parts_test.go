package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

var (
	outboxAlone = []migrations.Part{migrations.PartOutbox}
	withTasks   = []migrations.Part{migrations.PartOutbox, migrations.PartTasks}
)

func TestParseParts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"outbox": "outbox", " outbox ,tasks": "outbox,tasks", "tasks,outbox": "outbox,tasks", "outbox,outbox": "outbox", "desk,tasks,outbox": "outbox,tasks,desk",
		"": `"" is no part`, "dlq": `"dlq" is no part`, "tasks": "name outbox,tasks", "outbox,desk": "desk needs what comes before it: name outbox,tasks,desk",
		"outbox,": `"" is no part`,
	} {
		parts, err := migrations.ParseParts(text)
		got := migrations.JoinParts(parts)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestEveryRoomIsOfAPart, and parts are the first rooms.
func TestEveryRoomIsOfAPart(t *testing.T) {
	t.Parallel()
	var parts []migrations.Part
	for _, room := range embedded(t) {
		if part := room.Part(); len(parts) == 0 || parts[len(parts)-1] != part {
			parts = append(parts, part)
		}
	}
	if !slices.Equal(parts, migrations.Parts()) {
		t.Errorf("the rooms are of %v", parts)
	}
}

// only is a runner that is told the parts.
func only(t *testing.T, conn *pgx.Conn, parts ...migrations.Part) *migrations.Runner {
	return migrations.New(conn, embedded(t), migrations.WithOnly(parts...))
}

func has(t *testing.T, conn *pgx.Conn, want ...migrations.Part) {
	t.Helper()
	got, err := migrations.New(conn, embedded(t)).Parts(t.Context())
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the database has %v, %v; want %v", got, err, want)
	}
	rooms := pgtest.Column[string](t, conn, `select distinct room from postrider.schema_migration union select room from postrider.schema_code`)
	for _, room := range embedded(t) {
		if slices.Contains(rooms, room.Name) != slices.Contains(want, room.Part()) {
			t.Errorf("the database has the rooms %v", rooms)
		}
	}
}

// TestADatabaseKeepsItsParts: it gets no other by accident, loses none, and gets the named ones.
func TestADatabaseKeepsItsParts(t *testing.T) {
	t.Parallel()
	conn, whole := pgtest.NewEmpty(t).Conn(t), pgtest.New(t).Conn(t)
	plain := migrations.New(conn, embedded(t))
	has(t, whole, migrations.Parts()...)
	for _, parts := range [][]migrations.Part{outboxAlone, withTasks, migrations.Parts()} {
		if got := do(t, only(t, conn, parts...).Up); len(got) == 0 {
			t.Errorf("%v added nothing", parts)
		}
		has(t, conn, parts...)
		for _, again := range []func(context.Context) ([]migrations.Applied, error){plain.Up, only(t, conn, parts...).Up} {
			if got := do(t, again); len(got) != 0 {
				t.Errorf("with %v there, migrating again ran %v", parts, got)
			}
		}
		if len(parts) == 1 {
			do(t, plain.UpAgain)
			has(t, conn, parts...)
		}
		for _, r := range []*migrations.Runner{plain, only(t, conn, parts...)} {
			if err := r.Validate(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for _, more := range migrations.Parts()[len(parts):] {
			err := only(t, conn, migrations.Parts()[:slices.Index(migrations.Parts(), more)+1]...).Validate(t.Context())
			if !errors.Is(err, migrations.ErrBehind) {
				t.Errorf("with %v there, %s is not missed: %v", parts, more, err)
			}
		}
		for n := range parts {
			if n == 0 {
				continue
			}
			r := only(t, conn, parts[:n]...)
			if _, err := r.Up(t.Context()); !errors.Is(err, migrations.ErrMore) || !strings.Contains(err.Error(), "it was installed with "+migrations.JoinParts(parts)) {
				t.Errorf("fewer parts than are there: %v", err)
			}
			if err := r.Validate(t.Context()); !errors.Is(err, migrations.ErrMore) {
				t.Errorf("fewer parts than are there: %v", err)
			}
			has(t, conn, parts...)
		}
	}
	sameCatalog(t, "part by part differs from all at once", catalog(t, conn), catalog(t, whole))
}

// TestStatusOfAPart shows what was left out, and calls none of it pending.
func TestStatusOfAPart(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	do(t, only(t, conn, outboxAlone...).Up)
	rows, err := migrations.New(conn, embedded(t)).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]migrations.State{}
	for _, row := range rows {
		states[row.Room] = row.State
	}
	for _, room := range embedded(t) {
		want := migrations.StateApplied
		if room.Part() != migrations.PartOutbox {
			want = migrations.StateLeftOut
		}
		if states[room.Name] != want {
			t.Errorf("%s is %s, want %s", room.Name, states[room.Name], want)
		}
	}
}

// TestAnInstallationThatBrokeOff goes on with all that it was to have, without being told again.
func TestAnInstallationThatBrokeOff(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	content := map[string]string{"a/0001_t.sql": "create table t1 (id int);", "b/0001_t.sql": "create table wrong (id nothing);", "c/0001_t.sql": "create table t3 (id int);"}
	if _, err := migrations.New(conn, load(t, content)).Up(t.Context()); err == nil {
		t.Fatal("a wrong migration was applied")
	}
	content["b/0001_t.sql"] = "create table t2 (id int);"
	r := migrations.New(conn, load(t, content))
	if err := r.Validate(t.Context()); !errors.Is(err, migrations.ErrBehind) {
		t.Errorf("half an installation: %v", err)
	}
	if got := do(t, r.Up); len(got) != 2 {
		t.Errorf("Up ran %v", got)
	}
}

// TestAScriptForATool does in one transaction what the runner does in many, and leaves the tool its settings. psql runs it
// as a tool does.
func TestAScriptForATool(t *testing.T) {
	t.Parallel()
	psql, err := exec.LookPath("psql")
	if err != nil {
		logtest.NotTested(t, "psql: install postgresql-client")
	}
	for _, parts := range [][]migrations.Part{outboxAlone, withTasks, migrations.Parts()} {
		t.Run(migrations.JoinParts(parts), func(t *testing.T) {
			t.Parallel()
			byTool, byRunner := pgtest.NewEmpty(t), pgtest.NewEmpty(t).Conn(t)
			conn := byTool.Conn(t)
			do(t, only(t, byRunner, parts...).Up)
			script := migrations.New(nil, embedded(t), migrations.WithOnly(parts...)).SQL(migrations.ForTool)
			const settings = "select concat_ws(' ', current_setting('search_path'), current_setting('lock_timeout'), current_setting('statement_timeout'), current_setting('check_function_bodies'));\n"
			run := func(script string, arguments ...string) (string, error) {
				cmd := exec.CommandContext(t.Context(), psql, append(arguments, "-X", "-q", "-t", "-A", "--set", "ON_ERROR_STOP=1", "--file", "-", byTool.URL)...)
				cmd.Stdin = strings.NewReader("set lock_timeout = '7s'; set search_path = public;\n" + settings + script + settings)
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			// Without a transaction it does nothing.
			if out, err := run(script); err == nil || !strings.Contains(out, "must run in one transaction") || pgtest.Value[bool](t, conn, `select to_regnamespace('postrider') is not null`) {
				t.Errorf("outside of a transaction: %v\n%s", err, out)
			}
			out, err := run(script, "--single-transaction")
			if err != nil || strings.Count(out, "public 7s 0 on\n") != 2 {
				t.Fatalf("%v\n%s", err, out)
			}
			sameCatalog(t, "the script differs from Up", catalog(t, conn), catalog(t, byRunner))
			has(t, conn, parts...)
			r := only(t, conn, parts...)
			if got := do(t, r.Up); len(got) != 0 {
				t.Errorf("Up behind the script ran %v", got)
			}
			if err := r.Validate(t.Context()); err != nil {
				t.Error(err)
			}
			if script, err := r.PendingSQL(t.Context(), migrations.ForTool); err != nil || strings.Contains(script, ";") {
				t.Errorf("a script that has nothing to do (%v):\n%s", err, script)
			}
			// A second run changes nothing: it fails, and so does its transaction.
			before := catalog(t, conn)
			if out, err := run(script, "--single-transaction"); err == nil {
				t.Errorf("a second run says %s", out)
			}
			sameCatalog(t, "a second run", catalog(t, conn), before)
		})
	}
}

// TestPendingScriptAddsAPart for a tool, too.
func TestPendingScriptAddsAPart(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	do(t, only(t, conn, outboxAlone...).Up)
	script, err := only(t, conn, withTasks...).PendingSQL(t.Context(), migrations.ForTool)
	if err != nil || strings.Contains(script, "-- outbox/") || !strings.Contains(script, "-- tasks/0001_baseline.sql") {
		t.Fatalf("%v:\n%.500s", err, script)
	}
	execute(t, conn, fmt.Sprintf("begin;\n%s\ncommit;", script))
	has(t, conn, withTasks...)
	if err := migrations.New(conn, embedded(t)).Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNoToolTakesAPlaceholder: a script has neither question marks outside of quotes, which JDBC takes for parameters, nor
// what Flyway and Liquibase replace.
func TestNoToolTakesAPlaceholder(t *testing.T) {
	t.Parallel()
	script := migrations.New(nil, embedded(t)).SQL(migrations.ForTool)
	if strings.Contains(script, "${") {
		t.Error("the script has a placeholder: ${")
	}
	bare := regexp.MustCompile(`(?s)--[^\n]*|'(?:[^']|'')*'|"[^"]*"|\$(\w*)\$.*?\$\w*\$`).ReplaceAllString(script, "")
	if at := strings.Index(bare, "?"); at >= 0 {
		t.Errorf("the script has a question mark: %s", bare[max(at-200, 0):min(at+100, len(bare))])
	}
	if len(bare) < len(script)/20 || strings.Contains(bare, "declare") {
		t.Errorf("of %d characters %d are outside of quotes", len(script), len(bare))
	}
}
