package postgres

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/outboxtest"
)

// TestDeliveredIsDelivered: an event that failed is in a receipt and was not delivered; it counts once, when it went after all.
func TestDeliveredIsDelivered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var last int64
	delivered := func(after int64) (n int64) {
		t.Helper()
		number, counts, err := f.store.Delivered(t.Context(), after, time.Now().Add(-time.Hour))
		f.done(err)
		last = number
		for _, c := range counts {
			n += c.Count
		}
		return n
	}
	f.many(10)
	outboxtest.Settle(t, f.pool, outboxtest.Published, 1, 2, 3)
	outboxtest.Settle(t, f.pool, outboxtest.DeadLettered, 4, 5)
	outboxtest.Settle(t, f.pool, outboxtest.Scheduled, 6, 7)
	if n := delivered(0); n != 3 {
		t.Errorf("%d are delivered, want 3", n)
	}
	before := last
	outboxtest.Settle(t, f.pool, outboxtest.Published, 6)
	if n := delivered(before); n != 1 {
		t.Errorf("%d are delivered since, want the one that was tried again", n)
	}
	if n := delivered(0); n != 4 {
		t.Errorf("%d are delivered in all, want 4", n)
	}
	if n := delivered(last); n != 0 {
		t.Errorf("%d are counted again", n)
	}
}
