package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// TestStandstillOfBlocks: where ids are drawn in blocks nothing is final. Claims and turns say why and what to do,
// a topic in commit order is held with that reason, out of the way of the others, and comes back by itself when
// it is done.
func TestStandstillOfBlocks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`alter table postrider.outbox_event alter column id set cache 50`)
	b := &memory{}
	f.writes("o", "k", "1", "2")
	f.writes("p", "k", "a")
	f.run(b, inCommitOrder, commitOrderOn)
	f.held(relay.CauseCommitOrder)
	holds, err := f.store.Holds(t.Context(), HoldFilter{Topic: "o"})
	if err != nil || len(holds) != 1 {
		t.Fatalf("holds: %v, %v", holds, err)
	}
	if h := holds[0]; h.ErrorCode != "SEQUENCE_CACHE" || !strings.Contains(h.Error, "alter column id set cache 1") {
		t.Errorf("the hold says %s: %s", h.ErrorCode, h.Error)
	}
	f.writes("p", "k", "b")
	f.waitFor(`select count(*) = 2 from postrider.outbox_event where topic = 'p' and state = 'published'`)
	if got := b.arrived("o"); got != "" {
		t.Errorf("%s arrived although nothing is final", got)
	}
	f.exec(`alter table postrider.outbox_event alter column id set cache 1`)
	f.drained()
	if got := b.arrived("o"); got != "1 2" {
		t.Errorf("arrived %s", got)
	}
}

// TestStandstillsAreKnown: each reason, as a claim and a turn say it, and its end.
func TestStandstillsAreKnown(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct{ begin, end, do string }{
		"SEQUENCE_CACHE": {`alter table postrider.outbox_event alter column id set cache 50`, `alter table postrider.outbox_event alter column id set cache 1`, "set cache 1"},
		"SEQUENCE_RIGHTS": {`revoke all on sequence postrider.outbox_event_id_seq from postrider_relay`, `select`,
			"postrider migrate roles --apply"},
		"NO_SEQUENCE": {`alter table postrider.outbox_event alter column id drop identity`, `alter table postrider.outbox_event alter column id
			add generated always as identity (sequence name postrider.outbox_event_id_seq start with 100)`, "restore"},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.insert("a")
			store := f.as("postrider_relay")
			claims := func() *relay.Batch {
				t.Helper()
				claim := f.claimBy(store, relay.Limits{CommitOrder: true})
				claim.Abandon()
				return claim.Batch()
			}
			turns := func() relay.Standstill {
				t.Helper()
				store.water.mu.Lock()
				store.water.looked = time.Time{}
				store.water.mu.Unlock()
				got, err := store.Return(t.Context(), 1000, time.Minute)
				f.done(err)
				return got.Standstill
			}
			if got := claims(); got.Final != 1 || got.FenceAge != 0 || got.Standstill != turns() || got.Standstill != (relay.Standstill{}) {
				t.Errorf("before: final up to %d, %v, %+v", got.Final, got.FenceAge, got.Standstill)
			}
			f.exec(c.begin)
			first := claims()
			if first.Final != 0 || first.Standstill.Code != code || !strings.Contains(first.Standstill.Error, c.do) || turns() != first.Standstill {
				t.Errorf("final up to %d, %+v", first.Final, first.Standstill)
			}
			if again := claims(); again.FenceAge <= first.FenceAge || again.Standstill != first.Standstill {
				t.Errorf("the age is %v after %v, %+v", again.FenceAge, first.FenceAge, again.Standstill)
			}
			f.exec(c.end)
			f.exec(`grant select on sequence postrider.outbox_event_id_seq to postrider_relay`) // a new one has none
			if got := claims(); got.FenceAge != 0 || got.Standstill != (relay.Standstill{}) || turns() != got.Standstill {
				t.Errorf("after: %v, %+v", got.FenceAge, got.Standstill)
			}
		})
	}
}
