package doctor

import (
	"testing"

	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestLeader: the leader is named. Relays without a leader are a failure.
func TestLeader(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	pool, err := postgres.NewPool(t.Context(), s.db.URL, postgres.Options{ApplicationName: "postrider relay"})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	leads, err := postgres.NewStore(pool, postgres.StoreOptions{}).Lead(t.Context(), "here:1")
	if err != nil || leads == nil {
		t.Fatalf("%v, %v", leads, err)
	}
	s.examine(t, nil).want(t, "state", "leader", OK, "here:1 leads")
	leads.End(t.Context())
	// The session is still there.
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.examine(t, nil).want(t, "state", "leader", Failed, "none leads the outbox", "NobodyLeads")
}

// TestReceiptsThatAreNotMerged: old ones in great number are worth a word, and no others.
func TestReceiptsThatAreNotMerged(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	few := func(c *Config) { c.limits.receipts = 10 }
	s.exec(t, `insert into postrider.outbox_receipt (number, term, position, gaps) select i, 1, 0, '{}' from generate_series(1, 20) i`)
	s.examine(t, few).want(t, "state", "receipts", OK)
	s.exec(t, `update postrider.outbox_receipt set at = now() - interval '2 hours' where number < 15`)
	s.examine(t, few).want(t, "state", "receipts", Warning, "more than 10 receipts", "postrider outbox cleanup")
	s.exec(t, `update postrider.outbox_retention set position = 12 where kind = 'receipt'`)
	s.examine(t, few).want(t, "state", "receipts", OK)
}
