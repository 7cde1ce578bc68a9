package postgres

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// TestTheLargestBatchFails: no event of the largest batches that may be set goes. They are settled within the time that a relay gives
// that, so that one term is enough.
func TestTheLargestBatchFails(t *testing.T) {
	t.Parallel()
	const batch = 20_000 // the largest outbox.batch_size
	for name, class := range map[string]relay.Class{"their topic is missing": relay.Route, "each is given up": relay.Permanent} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.exec(`insert into postrider.outbox_event (topic, payload) select 't', convert_to(repeat(md5(i::text), 16), 'UTF8') from generate_series(1, $1::int) i`, 2*batch)
			b := &memory{}
			b.refuse(class, func(m *relay.Message) bool { return m.Topic == "t" })
			began := time.Now()
			f.run(b, relay.ForAll(relay.TopicSettings{BreakerEvents: -1}), func(c *relay.Config) { c.BatchSize = batch })
			f.waitFor(`select position >= $1 from postrider.outbox_progress`, 2*batch)
			t.Logf("settled after %v", time.Since(began))
			if n := value[int](f, `select count(*) from postrider.outbox_exception`); n != 2*batch {
				t.Errorf("%d of %d events are exceptions", n, 2*batch)
			}
			if n := value[int](f, `select max(term) from postrider.outbox_receipt`); n != 1 {
				t.Errorf("it took %d terms", n)
			}
		})
	}
}
