package relaytest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestBrokersAway: while no broker answers nothing is held, given up or lost, and when they are back
// everything goes, once.
func TestBrokersAway(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"from the start", "in the middle"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
			var away atomic.Bool
			r.broker.Cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
				r.broker.Cluster.KeepControl()
				return nil, errors.New("away"), away.Load()
			})
			insert := func(round int) {
				for n := range 10 {
					r.exec(`insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3)`, topic, fmt.Appendf(nil, "k%d", n%3), fmt.Appendf(nil, "%d/%d", round, n))
				}
			}
			insert(0)
			if when == "in the middle" {
				r.start(dlq)
				r.until(drained)
			}
			away.Store(true)
			if when == "from the start" {
				r.start(dlq)
			}
			insert(1)
			for !strings.Contains(r.log.String(), "no broker answers") {
				r.until(`not ` + drained)
			}
			insert(2)
			var holds int
			if err := r.pool.QueryRow(t.Context(), `select count(*) from postrider.outbox_hold`).Scan(&holds); err != nil || holds != 0 {
				t.Errorf("%d holds are in place, %v", holds, err)
			}
			away.Store(false)
			r.until(drained)
			if n := len(r.broker.ReadAll(t, topic, 30)); n != 30 {
				t.Errorf("the topic has %d records, want 30", n)
			}
			if n := len(r.broker.ReadAll(t, dlq, 0)); n != 0 {
				t.Errorf("%d events were given up", n)
			}
		})
	}
}
