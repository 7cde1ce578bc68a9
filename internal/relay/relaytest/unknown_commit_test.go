package relaytest

import (
	"fmt"
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgproxy"
)

// TestUnknownCommit loses the connection around the commit that settles a batch. Whether the server has
// committed or not, and the relay cannot know: every event must be in its topic, and from the same
// process only once.
func TestUnknownCommit(t *testing.T) {
	t.Parallel()
	const (
		beginning = "set sending_since = null where sending_since is not null"
		settling  = "insert into postrider.outbox_receipt"
		parking   = "insert into postrider.outbox_exception"
		holding   = "insert into postrider.outbox_hold"
		ending    = "delete from postrider.outbox_hold"
		taking    = "set sending_since = clock_timestamp()"
		letters   = "set state = 'dead_lettered'"
	)
	for name, c := range map[string]struct {
		cut func(*pgproxy.Proxy, int, func([]string) bool)
		at  string
	}{
		"settling, committed":            {(*pgproxy.Proxy).CutAfterCommit, settling},
		"settling, not committed":        {(*pgproxy.Proxy).CutBeforeCommit, settling},
		"parking, committed":             {(*pgproxy.Proxy).CutAfterCommit, parking},
		"parking, not committed":         {(*pgproxy.Proxy).CutBeforeCommit, parking},
		"beginning, committed":           {(*pgproxy.Proxy).CutAfterCommit, beginning},
		"beginning, not committed":       {(*pgproxy.Proxy).CutBeforeCommit, beginning},
		"holding, committed":             {(*pgproxy.Proxy).CutAfterCommit, holding},
		"holding, not committed":         {(*pgproxy.Proxy).CutBeforeCommit, holding},
		"sending letters, committed":     {(*pgproxy.Proxy).CutAfterCommit, letters},
		"sending letters, not committed": {(*pgproxy.Proxy).CutBeforeCommit, letters},
		"taking, committed":              {(*pgproxy.Proxy).CutAfterCommit, taking},
		"taking, not committed":          {(*pgproxy.Proxy).CutBeforeCommit, taking},
		"ending a hold, committed":       {(*pgproxy.Proxy).CutAfterCommit, ending},
		"ending a hold, not committed":   {(*pgproxy.Proxy).CutBeforeCommit, ending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
			c.cut(r.proxy, 2, pgproxy.Containing(c.at)) // the second time may not come
			// Keys to hold and to let go, an event that is too large among them, and a topic that comes late.
			late := topic + "-late"
			for n := range 12 {
				r.exec(`insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3)`, topic, fmt.Appendf(nil, "k%d", n%3), fmt.Appendf(nil, "%d", n))
				r.exec(`insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3)`, late, fmt.Appendf(nil, "k%d", n%3), fmt.Appendf(nil, "%d", n))
			}
			r.exec(`insert into postrider.outbox_event (topic, key, payload) values ($1, 'k0', $2)`, topic, make([]byte, maxMessageBytes))
			r.start(dlq)
			r.until(`exists (select from postrider.outbox_hold where topic = $1)`, late)
			r.broker.CreateTopic(t, late, 2, nil)
			r.until(drained)
			r.until(`not exists (select from postrider.outbox_hold)`)

			if r.proxy.Cuts() == 0 {
				t.Error("no connection was cut")
			}
			for name, want := range map[string]int{topic: 12, late: 12, dlq: 1} {
				if got := len(r.broker.ReadAll(t, name, want)); got != want {
					t.Errorf("topic %s has %d records, want %d", name, got, want)
				}
			}
		})
	}
}
