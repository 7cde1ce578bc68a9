package relay

import "testing"

// TestRule11OthersOfAKeyInHand: a topic's hold has let the older events of a key through, and they are at the broker. A
// newer event, which waits behind the hold of the key, must not go beside them: they may fail and be behind a hold again.
func TestRule11OthersOfAKeyInHand(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{})
	older := planCase{rules: r, events: events(keyed(5, "k")), from: []int64{8},
		holds: []Hold{onTopic(8, Hold{Cause: CauseRoute, Draining: true, through: 40}), onKey(7, "k", Hold{Cause: CauseRetry, EventID: eventID(4)})}}
	older.holds[1].through = 5
	p := older.planOf()
	plan := func(id int64, key string) []int64 {
		one, from := events(keyed(id, key)), []*Hold{p.book.byID[7]}
		return sentIDs(newPlan(planInput{events: one, from: from, hands: p.book.take(one, from), now: noon}, p.book, r))
	}
	if got := sentIDs(p); len(got) != 1 {
		t.Fatalf("sent %v", got)
	}
	if got := plan(32, "k"); len(got) != 0 {
		t.Errorf("event %d goes beside an older one of its key", got[0])
	}
	if through := p.book.byID[8].through; through != 31 {
		t.Errorf("the topic's hold goes on behind %d, want to find event 32", through)
	}
	if _, err := p.conclude(outcomes(Delivered)); err != nil {
		t.Fatal(err)
	}
	p.book.inHand[keySubject("t", []byte("k"))]-- // of the plan of 32, about which nothing is decided
	p.book.byID[8].through = 40
	if got := plan(33, "k"); len(got) != 1 {
		t.Error("event 33 waits for one that has gone")
	}
}

// TestRule11LateParkingIsFound: an event that is parked below the cursor of a draining hold is found by its next look.
func TestRule11LateParkingIsFound(t *testing.T) {
	t.Parallel()
	b := bookOf([]Hold{onTopic(8, Hold{Draining: true, through: 7})})
	h := b.byID[8]
	x := &term{book: b}
	was := x.stand([]*Hold{h})
	p := &plan{book: b, events: events(unkeyed(9))}
	p.count(0, h)
	if ends, _ := x.endEmpty([]*Hold{h}, was, map[int64]int64{8: 18}, nil, false); len(ends.Ended) != 0 || h.through != 8 {
		t.Errorf("after 18 were found and 9 was parked it goes on behind %d, want 8; ended %v", h.through, ends.Ended)
	}
	b.settled(p)
	was = x.stand([]*Hold{h})
	if x.endEmpty([]*Hold{h}, was, map[int64]int64{8: 9}, nil, false); h.through != 9 || h.missed != 0 {
		t.Errorf("after 9 was found it goes on behind %d", h.through)
	}
	if ends, _ := x.endEmpty([]*Hold{h}, x.stand([]*Hold{h}), nil, nil, false); len(ends.Ended) != 1 {
		t.Error("it does not end")
	}
}

// TestRule11OlderOneComesBehindAHoldLate: an event was taken from behind a hold. Before anything is decided about it, an
// older event of its key fails elsewhere and is parked behind that hold: the younger event goes back behind it.
func TestRule11OlderOneComesBehindAHoldLate(t *testing.T) {
	t.Parallel()
	r := rulesOf(TopicSettings{})
	b := bookOf([]Hold{onTopic(8, Hold{Draining: true})})
	h := b.byID[8]
	x := &term{book: b}
	was := x.stand([]*Hold{h})
	older := &plan{book: b, events: events(keyed(5, "k"))}
	older.count(0, h)
	x.endEmpty([]*Hold{h}, was, map[int64]int64{8: 7}, nil, false)
	plan := func(id int64) *plan {
		one, from := events(keyed(id, "k")), []*Hold{h}
		return newPlan(planInput{events: one, from: from, hands: b.take(one, from), now: noon}, b, r)
	}
	p := plan(7)
	if got := sentIDs(p); len(got) != 0 || h.through != 4 {
		t.Errorf("event %d goes before 5; the hold goes on behind %d, want 4", got, h.through)
	}
	if _, err := p.conclude(nil); err != nil {
		t.Fatal(err)
	}
	b.settled(p)
	x.stand([]*Hold{h})
	if p = plan(7); len(sentIDs(p)) != 0 {
		t.Error("event 7 goes after a look that cannot have seen 5")
	}
	p.undo()
	b.settled(older)
	x.stand([]*Hold{h})
	if p = plan(5); len(sentIDs(p)) != 1 {
		t.Error("event 5 does not go, after a look that has seen it")
	}
}
