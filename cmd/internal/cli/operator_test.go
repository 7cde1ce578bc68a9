package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// asRole is the database's address for a login that has a role, as people have it.
func asRole(t *testing.T, db *pgtest.DB, role string) string {
	t.Helper()
	if err := migrations.ApplyRoles(t.Context(), db.Conn(t)); err != nil {
		t.Fatal(err)
	}
	address, _ := db.Login(t, role)
	return address
}

// TestOperatorsCommands: every command of operators runs with the rights of postrider_operator; what the
// commands do cannot be done without them.
func TestOperatorsCommands(t *testing.T) {
	t.Parallel()
	db, conn := held(t)
	store, err := app.NewServices(db.Pool(t), config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	entry := record(t, store, 1, []byte("k"), []byte("payload"))
	operator := asRole(t, db, "postrider_operator")
	for _, c := range []struct{ args, want string }{
		{"outbox status", "parked"},
		{"outbox holds", "halted"},
		{"outbox redrive 1", "back in its place"},
		{"outbox skip 1 --reason ticket", "is given up"},
		{"outbox skip 2 --reason ticket", "is given up"},
		{"outbox skip 3 --reason ticket", "is given up"},
		{"outbox release 1", "is released"},
		{"outbox release 2", "is probed"},
		{"outbox give-up 3", "become dead letters"},
		{"dlq list", entry},
		{"dlq show " + entry, "payload"},
	} {
		r := postrider(t, []string{"DATABASE_URL=" + operator}, strings.Fields(c.args)...)
		if r.code != ExitOK || !strings.Contains(r.stdout, c.want) {
			t.Errorf("%s: exit code %d, %s%s", c.args, r.code, r.stdout, r.stderr)
		}
	}
	if got := ask(t, conn, `select string_agg(concat_ws(' ', id, state, episode), ', ' order by id) from postrider.outbox_exception`) + ask(t, conn, `select '; ' || id from postrider.outbox_skip_request`); got != "1 exhausted 2, 2 exhausted 1; 3" {
		t.Errorf("the events are %s", got)
	}

	plain, err := pgx.Connect(t.Context(), operator)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close(t.Context())
	for _, sql := range []string{
		`update postrider.outbox_event set topic = 'other'`,
		`delete from postrider.outbox_event`,
		`update postrider.outbox_exception set state = 'parked' where id = 1`,
		`insert into postrider.outbox_receipt (number, term, position) values (100, 1, 100)`,
		`update postrider.outbox_hold set draining = true`,
		`delete from postrider.outbox_own_topic`,
		`delete from postrider.dlq_entry`,
		`update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now()`,
		`select postrider.dlq_purge_entries(array(select dlq_entry_uuid from postrider.dlq_entry))`,
	} {
		var refused *pgconn.PgError
		if _, err := plain.Exec(t.Context(), sql); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v, want it to be refused for want of rights", sql, err)
		}
	}
}

// TestOperatorsLetKeysGo: closing an investigation, or removing it, lets the key go that its event halts, with the rights of
// postrider_operator.
func TestOperatorsLetKeysGo(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"dlq resolve", "dlq purge --release-keys --yes"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			db, conn := held(t)
			store, err := app.NewServices(db.Pool(t), config.Config{})
			if err != nil {
				t.Fatal(err)
			}
			entry := record(t, store, 1, []byte("k"), []byte("payload"))
			pgtest.Exec(t, conn, `update postrider.dlq_letter set outbox_id = 1, event_id = (select event_id from postrider.outbox_event where id = 1)`)
			r := postrider(t, []string{"DATABASE_URL=" + asRole(t, db, "postrider_operator")}, append(strings.Fields(command), entry)...)
			if r.code != ExitOK {
				t.Fatalf("exit code %d, %s%s", r.code, r.stdout, r.stderr)
			}
			if got := ask(t, conn, `select string_agg(concat_ws(' ', hold_id, asked), ', ' order by hold_id) from postrider.outbox_hold where scope = 'key'`); got != "1 release" {
				t.Errorf("the holds on keys: %s", got)
			}
		})
	}
}

// TestRightsThatAreMissing: each command names the role that it needs, and no other.
func TestRightsThatAreMissing(t *testing.T) {
	t.Parallel()
	db, _ := held(t)
	brokers := " --kafka-brokers " + kafkatest.Kfake(t).Addrs[0]
	writer, operator := asRole(t, db, "postrider_writer"), asRole(t, db, "postrider_operator")
	for _, c := range []struct{ url, args, want, not string }{
		{writer, "outbox status", "grant postrider_operator", "postrider_relay"},
		{writer, "outbox holds", "grant postrider_operator", "postrider_relay"},
		{writer, "outbox give-up 3", "grant postrider_operator", "postrider_relay"},
		{writer, "outbox release 1", "grant postrider_operator", "postrider_relay"},
		{writer, "outbox skip 2 --reason x", "grant postrider_operator", "postrider_relay"},
		{writer, "outbox redrive 1", "grant postrider_operator", "postrider_relay"},
		{writer, "dlq list", "grant postrider_operator", "postrider_relay"},
		{writer, "archive run", "; run postrider migrate roles --apply, and grant postrider_operator", "postrider_relay"},
		{writer, "task detect-stale", "or postrider_operator for commands", "migrate up"},
		{writer, "task detector pause --by me", "or postrider_operator for commands", "migrate up"},
		{operator, "task create nowhere/task", "postrider template list shows the existing ones", "task list"},
		{operator, "outbox cleanup", "grant postrider_relay", "postrider_operator"},
		{operator, "outbox process" + brokers, "grant postrider_relay", "postrider_operator"},
		{operator, "outbox retry" + brokers, "grant postrider_relay", "postrider_operator"},
	} {
		r := postrider(t, []string{"DATABASE_URL=" + c.url}, strings.Fields(c.args)...)
		if r.code != ExitFailure || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, c.not) {
			t.Errorf("%s: exit code %d, %s", c.args, r.code, r.stderr)
		}
	}
}

// TestServersThatTakeNoWrites: commands and the server say so at once, and what to do; an operator who wants to read from
// a standby names it.
func TestServersThatTakeNoWrites(t *testing.T) {
	t.Parallel()
	db, conn := held(t)
	if _, err := conn.Exec(t.Context(), `alter database `+pgx.Identifier{db.Name}.Sanitize()+` set default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"outbox status", "outbox holds", "outbox release 1", "outbox skip 2 --reason x", "outbox redrive 1", "outbox cleanup", "outbox give-up 3",
		"outbox process --kafka-brokers 127.0.0.1:1", "dlq list", "migrate up", "migrate status",
		"serve --roles collector --kafka-brokers 127.0.0.1:1", "serve --roles relay --kafka-brokers 127.0.0.1:1",
	} {
		r := postrider(t, []string{"DATABASE_URL=" + db.URL}, strings.Fields(args)...)
		if r.code != ExitFailure || r.stdout != "" {
			t.Errorf("%s: exit code %d, %s", args, r.code, r.stdout)
		}
		contains(t, r.stderr, "cannot be used", "the server takes no writes", "let database.url name the primary")
	}
	r := postrider(t, []string{"DATABASE_URL=" + db.With("target_session_attrs", "read-only")}, "outbox", "holds")
	if r.code != ExitOK {
		t.Errorf("reading from a standby that was asked for: exit code %d, %s", r.code, r.stderr)
	}
	contains(t, r.stdout, "halted")
}
