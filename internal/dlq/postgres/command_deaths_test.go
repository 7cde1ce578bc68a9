package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// late is a call of outbox_obey that its sender has made ready, and sends when the test says so.
func (c *commanding) late() func() {
	c.t.Helper()
	made := c.call()
	return func() {
		c.t.Helper()
		answers, err := obey(c.t.Context(), c.source, made)
		if err == nil {
			err = c.note(made, answers)
		}
		if err != nil {
			c.t.Error(err)
		}
	}
}

// call is what is sent next.
func (c *commanding) call() call {
	c.t.Helper()
	made := call{desk: deskName, source: "orders"}
	if _, err := c.Confirm(c.t.Context(), deskName, "orders", c.source); err != nil {
		c.t.Fatal(err)
	}
	if err := c.draw(c.t.Context(), &made); err != nil {
		c.t.Fatal(err)
	}
	return made
}

func (c *commanding) note(made call, answers []answered) error {
	tx, err := c.subject.pool.Begin(c.t.Context())
	if err != nil {
		return err
	}
	defer tx.Rollback(c.t.Context()) //nolint:errcheck // after a commit nothing is left
	if err := noteAnswers(c.t.Context(), tx, made, answers); err != nil {
		return err
	}
	return tx.Commit(c.t.Context())
}

// TestEveryDeathActsOnce: the sender dies or is cut off at each step, or wakes up late; the source acts once, and the desk hears of
// it.
func TestEveryDeathActsOnce(t *testing.T) {
	t.Parallel()
	for name, death := range map[string]func(c *commanding){
		"the desk's transaction is lost before its commit": func(c *commanding) {
			c.audit.refuse = fmt.Errorf("the desk is gone")
			if _, err := c.Redrive(c.t.Context(), dlq.RedriveRequest{Entries: c.pendingEntries(), Actor: "ada"}); err == nil {
				c.t.Error("it was not lost")
			}
			c.audit.refuse = nil
			c.send()
			c.redrive(c.pendingEntries()...)
		},
		"after it": func(c *commanding) { c.redrive(c.pendingEntries()...) },
		"the call does not reach the source": func(c *commanding) {
			c.redrive(c.pendingEntries()...)
			c.cut((*pgproxy.Proxy).CutAtQuery)
		},
		"the source rolls back": func(c *commanding) {
			c.redrive(c.pendingEntries()...)
			c.cut((*pgproxy.Proxy).CutBeforeCommit)
		},
		"the answer is lost": func(c *commanding) {
			c.redrive(c.pendingEntries()...)
			c.cut((*pgproxy.Proxy).CutAfterCommit)
		},
		"the answer is lost, and the events are delivered": func(c *commanding) {
			c.redrive(c.pendingEntries()...)
			c.cut((*pgproxy.Proxy).CutAfterCommit)
			outboxtest.Settle(c.t, c.source, outboxtest.Published, outboxID(1))
		},
		"the answer is lost, and retention removes all of it": func(c *commanding) {
			c.redrive(c.pendingEntries()...)
			c.cut((*pgproxy.Proxy).CutAfterCommit)
			outboxtest.Settle(c.t, c.source, outboxtest.Published, outboxID(1))
			mustExec(c.t, c.source, `delete from postrider.outbox_event where id < 1000`)
			mustExec(c.t, c.source, `delete from postrider.outbox_exception`)
		},
		"the answer is lost, and the event dies again": func(c *commanding) {
			c.redrive(c.pendingEntries()...)
			c.cut((*pgproxy.Proxy).CutAfterCommit)
			outboxtest.Settle(c.t, c.source, outboxtest.DeadLettered, outboxID(1))
			c.record(from("orders", dlqtest.Event(1, 2)))
		},
		"the answer is not noted": func(c *commanding) {
			c.redrive(c.pendingEntries()...)
			if _, err := obey(c.t.Context(), c.source, c.call()); err != nil {
				c.t.Fatal(err)
			}
		},
		"an old sender wakes up after another has done it": func(c *commanding) {
			c.redrive(c.pendingEntries()...)
			late := c.late()
			c.send()
			late()
		},
		"an old sender wakes up after all is over": func(c *commanding) {
			c.redrive(c.pendingEntries()...)
			late := c.late()
			c.send()
			outboxtest.Settle(c.t, c.source, outboxtest.Published, append(pgtest.Column[int64](c.t, c.source, `select id from postrider.outbox_event where id > 1000`), outboxID(1))...)
			c.followThere()
			c.send()
			late()
		},
		"two senders at once": func(c *commanding) {
			c.redrive(c.pendingEntries()...)
			ended := make(chan error, 2)
			for range 2 {
				go func() { _, err := c.SendCommands(c.t.Context(), deskName, "orders", c.source); ended <- err }()
			}
			for range 2 {
				if err := <-ended; err != nil {
					c.t.Error(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCommanding(t)
			c.dieThere(1, true)  // goes back to its place
			c.dieThere(2, false) // is sent as a new event
			death(c)
			c.sendAll()
			for _, n := range []int{1, 2} {
				if acts := strings.Count(c.acts(n), "dlq.requeue"); acts != 1 {
					t.Errorf("the source redrove event %d %d times: %s", n, acts, c.acts(n))
				}
			}
			if n := pgtest.Value[int](t, c.source, `select count(*) from postrider.outbox_event where id > 1000`); n != 1 {
				t.Errorf("%d new events were sent", n)
			}
			if n := c.count(`select count(*) from postrider.dlq_command where answered_at is null`); n != 0 {
				t.Errorf("%d commands are not answered: %q", n, c.answers())
			}
			if got := pgtest.Column[string](t, c.subject.pool, `select concat_ws(' ', in_place, outbox_id > 0) from postrider.dlq_redrive order by in_place`); !slices.Equal(got, []string{"f t", "t t"}) {
				t.Errorf("the redrives are %q", got)
			}
		})
	}
}

// pendingEntries are the pending investigations.
func (c *commanding) pendingEntries() []uuid.UUID {
	c.t.Helper()
	return pgtest.Column[uuid.UUID](c.t, c.subject.pool, `select dlq_entry_uuid from postrider.dlq_entry where resolution_status = 'pending' order by 1`)
}

// cut sends the commands over a connection that is cut.
func (c *commanding) cut(how func(*pgproxy.Proxy, int, func([]string) bool)) {
	c.t.Helper()
	before := c.proxy.Cuts()
	how(c.proxy, 1, pgproxy.Containing("outbox_obey"))
	if _, err := c.SendCommands(c.t.Context(), deskName, "orders", c.link); err == nil || c.proxy.Cuts() != before+1 {
		c.t.Errorf("it was not cut: %v", err)
	}
}
