package postgres

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pooler"
	"github.com/postrider/postrider/internal/relay"
)

// glance is what a glance sees, as letters: events, tend, letters, waits.
func (f *fixture) glance(d *leadership, position int64) string {
	f.Helper()
	g, err := d.Glance(f.Context(), position, true)
	f.done(err)
	s := ""
	for _, c := range []struct {
		is   bool
		name string
	}{{g.Events, "events"}, {g.Tend, "tend"}, {g.Letters, "letters"}, {g.Waits, "waits"}} {
		if c.is {
			s += " " + c.name
		}
	}
	return strings.TrimSpace(s)
}

// TestGlance: each reason to work is seen, and nothing else is, by the session that leads and through a pooler.
func TestGlance(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pooler.Mode{"direct": pooler.None, "through a pooler": pooler.Transaction} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.store, f.relay = f.open(Options{Pooler: mode}, StoreOptions{})
			d := f.leader()
			want := func(what, want string) {
				t.Helper()
				if got := f.glance(d, d.position); got != want {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
			log := func(what string, want bool) {
				t.Helper()
				g, err := d.Glance(t.Context(), d.position, false)
				f.done(err)
				if g != (relay.Glance{Events: want}) {
					t.Errorf("%s: at the log alone %+v", what, g)
				}
			}
			want("an empty outbox", "")
			log("an empty outbox", false)
			f.insert("a")
			want("an event", "events")
			log("an event", true)
			f.pass(relay.Receipt{})
			want("an event that went", "")
			f.insert("a")
			hold := f.keyHold("a", time.Hour)
			f.pass(relay.Receipt{Holds: []relay.HoldChange{hold}, Exceptions: parked(hold.ID, 2)})
			want("a hold that is not due", "waits")
			f.due()
			want("a hold that is due", "tend waits")
			log("a hold that is due", false)
			f.exec(`update postrider.outbox_hold set next_probe_at = now() + interval '100 days'`)
			want("a hold after the clock was put back", "tend waits")
			f.exec(`update postrider.outbox_hold set next_probe_at = 'infinity'`)
			want("a hold that waits for a person", "waits")
			f.exec(`update postrider.outbox_hold set asked = 'release'`)
			want("a hold that people asked to release", "tend waits")
			f.exec(`update postrider.outbox_hold set asked = null, draining = true`)
			want("a hold that drains", "tend waits")
			f.change(relay.Receipt{Gone: []int64{2}, Ended: []int64{hold.ID}})
			want("no hold any more", "")
			f.insert("b")
			f.pass(relay.Receipt{Exceptions: []relay.Exception{{ID: 3, State: relay.Scheduled, In: time.Hour}}})
			want("a scheduled event", "waits")
			f.exec(`update postrider.outbox_exception set next_attempt_at = now()`)
			want("a scheduled event that is due", "tend waits")
			f.exec(`update postrider.outbox_exception set next_attempt_at = now() + interval '100 days'`)
			want("one that waits for its own time", "waits")
			f.exec(`update postrider.outbox_exception set attempts = 1`)
			want("one that failed, after the clock was put back", "tend waits")
			f.exec(`delete from postrider.outbox_exception`)
			f.insert("c")
			f.pass(relay.Receipt{Exceptions: exhausted(4)})
			want("an event that was given up", "letters")
			f.buried(4)
			want("a dead letter", "")
			f.exec(`insert into postrider.outbox_skip_request values (4, 'why')`)
			want("a request to skip", "tend")
			f.exec(`delete from postrider.outbox_skip_request`)
			f.exec(`select setval(pg_get_serial_sequence('postrider.outbox_event', 'id'), 1)`)
			want("ids that stand below the position", "events")
		})
	}
}

// TestGlanceIsNotHeldUp: while a table is locked a glance fails, and the session leads all the same.
func TestGlanceIsNotHeldUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store.silence = 6 * time.Second
	d := f.lead()
	end := f.locking(`lock table postrider.outbox_hold in access exclusive mode`)
	for range 3 {
		if _, err := d.Glance(t.Context(), 0, true); err == nil || !strings.Contains(err.Error(), "55P03") {
			t.Errorf("a glance at a locked table: %v", err)
		}
	}
	if !d.Sure() {
		t.Error("it is not sure any more that it leads")
	}
	end("rollback")
	if got := f.glance(d, 0); got != "" {
		t.Errorf("a glance: %s", got)
	}
	f.settle(d, &relay.Receipt{})
}

// TestGlancesOfALostSession end the term, and none waits for an answer.
func TestGlancesOfALostSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.lead()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				if _, err := d.Glance(t.Context(), 0, true); err != nil {
					return
				}
			}
		})
	}
	f.exec(`select pg_terminate_backend($1)`, f.session(d, 0))
	all.Wait()
	<-d.Lost()
	if d.Sure() {
		t.Error("it is sure that it leads")
	}
}

// counting notes each statement of a pool.
type counting struct {
	mu  sync.Mutex
	all []string
}

func (c *counting) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, q.SQL)
	return ctx
}

func (c *counting) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// glances returns how many statements in a row were glances by now.
func (c *counting) glances() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.all) - 1; i >= 0 && (c.all[i] == logGlance || c.all[i] == logGlanceEvents); i-- {
		n++
	}
	return n
}

// TestAQuietOutboxHasOneSession: a relay that rests asks with one statement a look, and after a while has one session.
func TestAQuietOutboxHasOneSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "a", "b")
	asked := &counting{}
	store, _ := f.open(Options{ApplicationName: "quiet", IdleTime: 500 * time.Millisecond, Tracer: asked}, StoreOptions{AskEach: 3 * time.Second})
	broker := &memory{}
	f.run(broker, nil, func(c *relay.Config) { c.Store, c.Rests, c.IdlePollMax = store, true, 200*time.Millisecond })
	f.waitFor(`select count(*) = 0 from postrider.v_outbox_event where status <> 'succeeded'`)
	for asked.glances() < 20 {
		f.exec(`select pg_sleep(0.05)`)
	}
	f.waitFor(`select count(*) = 1 from pg_stat_activity where datname = current_database() and application_name = 'quiet'`)
	f.insert("a")
	f.waitFor(`select count(*) = 0 from postrider.v_outbox_event where status <> 'succeeded'`)
}
