package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What the scenarios do to tables is what they say.
func TestStates(t *testing.T) {
	t.Parallel()
	o, err := parse(tiny, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRig(t.Context(), o, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	count := func(t *testing.T, d *database, want int, sql string) {
		t.Helper()
		var got int
		if err := d.conn.QueryRow(t.Context(), sql).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
	fresh := func(t *testing.T, name string) *database {
		t.Helper()
		d, err := r.newDatabase(t.Context(), name, true)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.drop)
		return d
	}
	t.Run("fill", func(t *testing.T) {
		d := fresh(t, "fill")
		if err := d.fill(t.Context(), "a.topic", 300); err != nil {
			t.Fatal(err)
		}
		count(t, d, 300, "select count(*) from postrider.outbox_event where state = 'pending' and octet_length(payload) = 300")
		count(t, d, o.keys, "select count(distinct key) from postrider.outbox_event")
		count(t, d, 1, "select count(*) from postrider.outbox_event where convert_from(substr(payload, 1, 16), 'UTF8')::int = 299")
		if err := d.empty(t.Context()); err != nil {
			t.Fatal(err)
		}
		count(t, d, 0, "select count(*) from postrider.outbox_event")
	})
	t.Run("park", func(t *testing.T) {
		d := fresh(t, "park")
		if err := d.park(t.Context()); err != nil {
			t.Fatal(err)
		}
		count(t, d, o.flatParked, "select count(*) from postrider.outbox_event where state = 'parked'")
		count(t, d, o.flatHolds, "select count(distinct (hold_id, key)) from postrider.outbox_event")
		count(t, d, 0, `select count(*) from postrider.outbox_event e where not exists
			(select from postrider.outbox_hold_shard s where s.hold_id = e.hold_id and s.shard = e.shard)`)
		count(t, d, o.flatHolds, "select count(*) from postrider.outbox_hold_shard")
		side := &flatSide{grow: (*database).park, database: d}
		if err := d.fill(t.Context(), "a.topic", 40); err != nil {
			t.Fatal(err)
		}
		if err := side.clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		count(t, d, o.flatParked, "select count(*) from postrider.outbox_event")
	})
	t.Run("publish", func(t *testing.T) {
		d := fresh(t, "publish")
		if err := d.publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		count(t, d, o.flatPublished, "select count(*) from postrider.outbox_event where state = 'published' and updated_at is not null")
	})
	t.Run("strip", func(t *testing.T) {
		d := fresh(t, "strip")
		if err := d.exec(t.Context(), `create function ring() returns trigger language plpgsql as 'begin return null; end'`,
			`create trigger "Ring it" after insert on postrider.outbox_event for each statement execute function ring()`); err != nil {
			t.Fatal(err)
		}
		before, err := d.triggers(t.Context())
		if err != nil || len(before) == 0 {
			t.Fatalf("triggers %q, %v", before, err)
		}
		if err := d.strip(t.Context()); err != nil {
			t.Fatal(err)
		}
		count(t, d, 0, "select count(*) from pg_trigger where tgrelid = 'postrider.outbox_event'::regclass and not tgisinternal")
		count(t, d, 1, "select count(*) from pg_index where indrelid = 'postrider.outbox_event'::regclass")
		if _, err := d.conn.Exec(t.Context(), insertEvent, "a.topic", []byte("k"), body(0, 20)); err != nil {
			t.Errorf("the bare table takes no event: %v", err)
		}
	})
}

func TestChildThatEndsTooSoon(t *testing.T) {
	t.Parallel()
	c, err := startChild(exec.CommandContext(t.Context(), "false"), "a failing one")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ready(); err == nil || !strings.Contains(err.Error(), "a failing one ended before it was asked to") {
		t.Errorf("got %v", err)
	}
}

// Whoever waits for something that only a child can bring about learns that the child is gone, and which.
func TestAlive(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "cat")
	c, err := startChild(cmd, "the cat")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := alive(t.Context(), c)
	defer cancel()
	if ctx.Err() != nil {
		t.Error("the child is taken for dead while it lives")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := because(ctx, ctx.Err()); err == nil || !strings.Contains(err.Error(), "the cat ended before it was asked to") {
		t.Errorf("the reason is %v", err)
	}
	if because(ctx, nil) != nil {
		t.Error("what went well failed")
	}
	if c.wait() == nil {
		t.Error("a killed child ended well")
	}
}

// A child ends with its parent's end of the pipe, whatever becomes of the parent.
func TestGateEndsWithStdin(t *testing.T) {
	t.Parallel()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ctx, g := newGate(t.Context(), in)
	if _, err := out.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	<-g.opened
	if ctx.Err() != nil {
		t.Error("the word itself ends the child")
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
}
