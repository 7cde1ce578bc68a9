package relay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/relay/outbox"
)

// TestPlanInvariants draws batches, holds and outcomes at random, the outcomes as a publisher may give
// them, and checks what must be true of every plan.
func TestPlanInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := drawBatch(t)
		p := newPlan(b, retrying(outbox.RetryPolicy{MaxAttempts: 3, Base: 1, Max: 4}))
		parkedBefore := map[subject]bool{}
		for i := range p.out.Parked {
			parkedBefore[subjectOf(b, p.out.Parked[i].ID)] = true
		}
		sent := map[int64]bool{}
		for _, id := range sentIDs(p) {
			sent[id] = true
		}
		for i := range b.Events {
			checkSorted(t, b, p, i, sent)
		}

		class := map[int64]Class{}
		stopped := map[subject]bool{} // keys with a retryable failure: the publisher withholds the rest
		for i, n := range p.events {
			e := &b.Events[n]
			choices := []Class{Delivered, Delivered, Infrastructure, Route, Record, Permanent, Withheld}
			s := keySubject(e.Topic, e.Key)
			if e.HasKey() && stopped[s] {
				choices = []Class{Withheld}
			}
			o := Outcome{Class: rapid.SampledFrom(choices).Draw(t, fmt.Sprintf("outcome of %d", e.ID)), Code: "X"}
			if n := rapid.Int32Range(0, 3).Draw(t, "partitions"); o.Class == Infrastructure && n > 1 {
				o.Partitions, o.Partition = n, rapid.Int32Range(0, n-1).Draw(t, "partition")
				if e.HasKey() {
					o.Partition = partitionOf(e.Key, n)
				}
			}
			class[e.ID] = o.Class
			stopped[s] = stopped[s] || e.HasKey() && o.Class != Delivered
			p.settle(i, &o)
		}
		checkSettlement(t, b, p, class)
	})
}

// drawBatch draws a batch with holds as a claim can find them: events in id order, a key in one shard,
// what was let through of a hold being the front of its shard.
func drawBatch(t *rapid.T) *Batch {
	b := &Batch{}
	n := rapid.IntRange(1, 12).Draw(t, "events")
	topics, keys := []string{"t", "u"}, []string{"", "a", "b", "-"} // - is no key
	for id := int64(1); id <= int64(n); id++ {
		e := unkeyed(id * 10)
		e.Topic = rapid.SampledFrom(topics).Draw(t, "topic")
		e.Shard = int16(id % 3)
		if k := rapid.SampledFrom(keys).Draw(t, "key"); k != "-" {
			e.Key, e.Shard = []byte(k), int16(len(k))
		}
		e.Attempts = rapid.IntRange(0, 2).Draw(t, "attempts")
		e.Delayed = rapid.IntRange(0, 9).Draw(t, "delayed") == 0
		if rapid.IntRange(0, 9).Draw(t, "unencodable") == 0 {
			unencodable(&e)
		}
		b.Events = append(b.Events, e)
	}
	through := func() map[int16]int64 {
		m := map[int16]int64{}
		for shard := range int16(3) {
			if rapid.Bool().Draw(t, "parked in the shard") {
				m[shard] = int64(rapid.IntRange(0, n+1).Draw(t, "through") * 10)
			}
		}
		return m
	}
	id := int64(100)
	for _, topic := range topics {
		if rapid.IntRange(0, 2).Draw(t, "topic held") == 0 {
			id++
			b.Holds.Add(&Hold{ID: id, Scope: ScopeTopic, Topic: topic, Through: through(),
				Draining: rapid.Bool().Draw(t, "draining"), Probes: rapid.IntRange(0, 5).Draw(t, "probes")})
		}
		for n := int32(2); n <= 3; n++ { // by two numbers of partitions at once
			for partition := range n {
				if rapid.IntRange(0, 3).Draw(t, "partition held") == 0 {
					id++
					b.Holds.Add(&Hold{ID: id, Scope: ScopePartition, Topic: topic, Partition: partition, Partitions: n, Through: through(),
						Cause: CauseInfrastructure, Draining: rapid.Bool().Draw(t, "draining"), Probes: rapid.IntRange(0, 5).Draw(t, "probes")})
				}
			}
		}
		for _, key := range keys[:3] {
			if rapid.IntRange(0, 3).Draw(t, "key held") == 0 {
				id++
				b.Holds.Add(&Hold{ID: id, Scope: ScopeKey, Topic: topic, Key: []byte(key), Through: through(),
					Draining: rapid.Bool().Draw(t, "draining")})
			}
		}
	}
	return b
}

func eventOf(b *Batch, id int64) *outbox.Event {
	i := slices.IndexFunc(b.Events, func(e outbox.Event) bool { return e.ID == id })
	return &b.Events[i]
}

func subjectOf(b *Batch, id int64) subject {
	e := eventOf(b, id)
	return keySubject(e.Topic, e.Key)
}

// checkSorted checks what was decided about event i before sending.
func checkSorted(t *rapid.T, b *Batch, p *plan, i int, sent map[int64]bool) {
	e := &b.Events[i]
	if !sent[e.ID] {
		return
	}
	for _, h := range holdsAbout(b, e) {
		if !h.passes(e.Shard, e.ID) {
			t.Fatalf("event %d is sent in spite of hold %d", e.ID, h.ID)
		}
	}
	for _, q := range p.out.Parked {
		if e.HasKey() && q.ID < e.ID && subjectOf(b, q.ID) == (keySubject(e.Topic, e.Key)) && eventOf(b, q.ID).HasKey() {
			t.Fatalf("event %d is sent although %d of its key is parked", e.ID, q.ID)
		}
	}
}

// checkSettlement checks the whole, given the classes of the outcomes of the events that were sent.
func checkSettlement(t *rapid.T, b *Batch, p *plan, class map[int64]Class) {
	s := p.settlement()
	fate := map[int64]string{}
	decide := func(id int64, what string, f *Failure) {
		if fate[id] != "" {
			t.Fatalf("event %d is %s and %s", id, fate[id], what)
		}
		fate[id] = what
		if f == nil {
			return
		}
		if f.ID != id || f.Attempts != eventOf(b, id).Attempts+1 {
			t.Fatalf("event %d is %s with failure %+v after %d attempts", id, what, *f, eventOf(b, id).Attempts)
		}
		if c, sent := class[id]; sent && c != Record && c != Permanent {
			t.Fatalf("event %d spent an attempt on %s", id, c)
		}
	}
	for _, id := range s.Delivered {
		decide(id, "delivered", nil)
	}
	for i := range s.Exhausted {
		decide(s.Exhausted[i].ID, "exhausted", &s.Exhausted[i])
	}
	for i := range s.Scheduled {
		decide(s.Scheduled[i].ID, "scheduled", s.Scheduled[i].Failure)
	}
	for i := range s.Parked {
		decide(s.Parked[i].ID, "parked", s.Parked[i].Failure)
		checkParked(t, b, s, &s.Parked[i])
	}
	stopped := map[subject]bool{}
	for i := range b.Events {
		e := &b.Events[i]
		c, sent := class[e.ID]
		if (c == Delivered) != (fate[e.ID] == "delivered") {
			t.Fatalf("event %d was %s and is settled as %q", e.ID, c, fate[e.ID])
		}
		if !sent || !e.HasKey() {
			continue
		}
		k := keySubject(e.Topic, e.Key)
		if stopped[k] && fate[e.ID] != "parked" && fate[e.ID] != "" {
			t.Fatalf("event %d is %s, behind an earlier one of its key that did not go", e.ID, fate[e.ID])
		}
		stopped[k] = stopped[k] || c != Delivered
	}
	checkHolds(t, b, s)
}

// checkParked checks that an event waits for a hold that is about it.
func checkParked(t *rapid.T, b *Batch, s *Settlement, q *Park) {
	e := eventOf(b, q.ID)
	if q.Shard != e.Shard {
		t.Fatalf("event %d of shard %d is parked in shard %d", e.ID, e.Shard, q.Shard)
	}
	if q.HoldID == 0 {
		h := s.Holds[q.Hold]
		if h.Topic != e.Topic || h.Scope == ScopeKey && (!e.HasKey() || string(h.Key) != string(e.Key)) ||
			h.Scope == ScopePartition && (!e.HasKey() || partitionOf(e.Key, h.Partitions) != h.Partition) {
			t.Fatalf("event %d of %s/%q is parked under %+v", e.ID, e.Topic, e.Key, h)
		}
		return
	}
	for _, h := range holdsAbout(b, e) {
		if h.ID == q.HoldID {
			return
		}
	}
	t.Fatalf("event %d is parked under hold %d, which is not about it", e.ID, q.HoldID)
}

// holdsAbout are the holds that an event must respect, told one by one.
func holdsAbout(b *Batch, e *outbox.Event) (hs []*Hold) {
	for s, h := range b.Holds.bySubject {
		switch {
		case s.topic != e.Topic:
		case s.scope == ScopeTopic,
			s.scope == ScopeKey && e.HasKey() && s.key == string(e.Key),
			s.scope == ScopePartition && e.HasKey() && partitionOf(e.Key, s.partitions) == s.partition:
			hs = append(hs, h)
		}
	}
	return hs
}

// checkHolds checks that no hold is changed twice or both proven and renewed.
func checkHolds(t *rapid.T, b *Batch, s *Settlement) {
	renewed := map[int64]bool{}
	seen := map[string]bool{}
	for _, h := range s.Holds {
		name := fmt.Sprintf("%s %s/%q %d of %d", h.Scope, h.Topic, h.Key, h.Partition, h.Partitions)
		if seen[name] {
			t.Fatalf("two changes of the hold on %s", name)
		}
		seen[name] = true
		if old := b.Holds.bySubject[subject{h.Scope, h.Topic, string(h.Key), h.Partition, h.Partitions}]; old != nil {
			renewed[old.ID] = true
		}
	}
	for i, id := range s.Proven {
		if renewed[id] || slices.Contains(s.Proven[:i], id) {
			t.Fatalf("hold %d is proven twice, or proven and renewed", id)
		}
	}
}
