package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestASourceIsNamedOnce: the first name and the first desk stay, and each other one is refused.
func TestASourceIsNamedOnce(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	identity := pgtest.Value[string](t, conn, `select source_uuid::text from postrider.outbox_source`)
	for _, c := range []struct{ call, want, refused string }{
		{`'orders'`, "orders -", ""},
		{`'orders'`, "orders -", ""},
		{`'orders', 'north'`, "orders north", ""},
		{`'orders'`, "orders north", ""},
		{`'orders', 'north'`, "orders north", ""},
		{`'billing'`, "", "is the source orders and not billing"},
		{`'orders', 'south'`, "", "belongs to the desk north and not to south"},
		{`null`, "", "is null"},
	} {
		var got string
		err := conn.QueryRow(t.Context(), `select name || ' ' || coalesce(desk, '-') from postrider.outbox_name_source(`+c.call+`)`).Scan(&got)
		if c.refused == "" && (err != nil || got != c.want) || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %q, %v", c.call, got, err)
		}
	}
	if got := pgtest.Value[string](t, conn, `select concat(name, ' ', desk, ' ', source_uuid) from postrider.outbox_source`); got != "orders north "+identity {
		t.Errorf("the row is %s", got)
	}
}

func TestNamesOfSources(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	for _, name := range []string{"", "Orders", "1st", "-a", "a b", "a_b", "a.b", "a\n", strings.Repeat("a", 41)} {
		var refused *pgconn.PgError
		_, err := conn.Exec(t.Context(), `select postrider.outbox_name_source($1)`, name)
		if !errors.As(err, &refused) || refused.ConstraintName != "outbox_source_name" {
			t.Errorf("%q: %v", name, err)
		}
	}
	pgtest.Exec(t, conn, `select postrider.outbox_name_source('`+strings.Repeat("a", 38)+`-9')`)
}

// TestManyNameASource: of many processes that start at once with different names, one has its own.
func TestManyNameASource(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const processes = 8
	names := make([]string, processes)
	var all sync.WaitGroup
	for i := range processes {
		conn := db.Conn(t)
		all.Go(func() {
			_ = conn.QueryRow(t.Context(), `select name from postrider.outbox_name_source($1)`, fmt.Sprintf("source-%d", i)).Scan(&names[i])
		})
	}
	all.Wait()
	if got := strings.Join(names, ""); got != pgtest.Value[string](t, db.Conn(t), `select name from postrider.outbox_source`) {
		t.Errorf("they believe to be %q", names)
	}
}

// TestACopyBecomesASource of its own: with another uuid, another name and the desk that was said.
func TestACopyBecomesASource(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	was := pgtest.Value[string](t, conn, `select source_uuid::text from postrider.outbox_name_source('orders', 'north')`)
	if _, err := conn.Exec(t.Context(), `select postrider.outbox_new_identity('orders')`); err == nil {
		t.Error("a copy keeps the name")
	}
	is := pgtest.Value[string](t, conn, `select source_uuid::text from postrider.outbox_new_identity('orders-copy')`)
	if is == was {
		t.Error("a copy keeps the uuid")
	}
	if got := pgtest.Value[string](t, conn, `select concat(name, ' ', desk, ' ', source_uuid) from postrider.outbox_source`); got != "orders-copy  "+is {
		t.Errorf("the row is %s", got)
	}
}

// TestADatabaseWithoutANameIsMain, so no copy of it becomes main.
func TestADatabaseWithoutANameIsMain(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	if _, err := conn.Exec(t.Context(), `select postrider.outbox_new_identity('main')`); err == nil || !strings.Contains(err.Error(), "is the source main already") {
		t.Errorf("a copy became main: %v", err)
	}
}
