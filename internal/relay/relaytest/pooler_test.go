//go:build unix

package relaytest

import (
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/twmb/franz-go/pkg/kfake"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgbouncer"
)

// TestBehindAPooler runs two relays through one PgBouncer in transaction mode, whose sessions are ended from
// time to time: everything arrives, in order, and no session of the pooler keeps anything of ours.
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	// A relay that leads uses up to eight sessions, and one that stands by few.
	r := newRigAt(t, pgtest.New(t).URL, kafkatest.Kfake(t, kfake.NumBrokers(3)), func(url string) string { return pgbouncer.Start(t, url, 14) })
	wide, narrow, dlq := r.broker.Topic(t, 4, nil), r.broker.Topic(t, 1, map[string]string{"max.message.bytes": "5000"}), r.broker.Topic(t, 2, nil)
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	w := newWorkload(r, 8, wide, narrow)
	w.narrow = narrow
	relays := []*running{r.start(dlq), r.start(dlq)}
	for range 8 {
		w.burst(rng, 3, 5)
		r.exec(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like 'postrider%' and random() < 0.3`)
	}
	r.until(drained)
	r.until(`not exists (select from postrider.outbox_hold)`)
	for _, e := range relays {
		e.halt()
	}
	if err := w.verdict(dlq).Err(); err != nil {
		t.Error(err)
	}
	for _, complaint := range []string{"prepared statement", "unsupported startup parameter", "42P05", "26000"} {
		if strings.Contains(r.log.String(), complaint) {
			t.Errorf("the relays complain of %q", complaint)
		}
	}
}
