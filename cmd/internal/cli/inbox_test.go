package cli

import (
	"testing"

	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// The script needs no database of ours; run twice in a service's, it makes the table that the library uses.
func TestInboxSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	conn := db.Conn(t)
	if _, err := conn.Exec(t.Context(), `create schema "Orders"`); err != nil {
		t.Fatal(err)
	}
	named, err := inbox.In("Orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		box  inbox.Inbox
	}{{nil, inbox.Inbox{}}, {[]string{"--schema", "Orders"}, named}} {
		script := postrider(t, nil, append([]string{"inbox", "schema"}, c.args...)...)
		if script.code != ExitOK {
			t.Fatalf("%+v", script)
		}
		contains(t, script.stdout, "inbox_message", "comment on table")
		for range 2 {
			if _, err := conn.Exec(t.Context(), script.stdout); err != nil {
				t.Fatal(err)
			}
		}
		if first, err := c.box.Once(t.Context(), conn, "g", "m"); err != nil || !first {
			t.Errorf("%v: %v, %v", c.args, first, err)
		}
	}
	for _, args := range [][]string{{"--schema", ""}, {"extra"}} {
		if r := postrider(t, nil, append([]string{"inbox", "schema"}, args...)...); r.code != ExitUsage {
			t.Errorf("%q: %+v", args, r)
		}
	}
}
