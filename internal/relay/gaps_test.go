package relay

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// gapLog is a table that transactions write to, with what a reader knows of it. It is the reference: a reader that looks
// everywhere, each time.
type gapLog struct {
	gapTracker
	t        *rapid.T
	next     int64
	xid      uint64
	names    int
	open     []*gapTx
	visible  map[int64]bool
	read     map[int64]bool
	position int64
	doomed   map[int64]*gapTx // ids and who may commit them; none may any more where it has ended
	lost     map[int64]bool   // that were forgotten
}

type gapTx struct {
	name     string
	xid      uint64
	prepared bool
	ids      []int64
}

func (l *gapLog) pick() *gapTx {
	if len(l.open) == 0 {
		return nil
	}
	return rapid.SampledFrom(l.open).Draw(l.t, "transaction")
}

func (l *gapLog) name() string {
	l.names++
	return string(rune('a'+l.names%26)) + string(rune('0'+l.names/26))
}

func (l *gapLog) begin(named bool) {
	x := &gapTx{name: l.name()}
	if named {
		l.withXID(x)
	}
	l.open = append(l.open, x)
}

func (l *gapLog) withXID(x *gapTx) {
	if x.xid == 0 {
		l.xid++
		x.xid = l.xid
	}
}

func (l *gapLog) end(x *gapTx, commits bool) {
	l.open = slices.DeleteFunc(l.open, func(o *gapTx) bool { return o == x })
	for _, id := range x.ids {
		if delete(l.doomed, id); commits {
			if l.lost[id] {
				l.t.Fatalf("id %d is committed after it was forgotten", id)
			}
			l.visible[id] = true
		}
	}
}

func (l *gapLog) snapshot() Snapshot {
	s := Snapshot{Max: l.xid + 1}
	for _, x := range l.open {
		if x.xid != 0 {
			s.Running = append(s.Running, x.xid)
		}
	}
	slices.Sort(s.Running)
	return s
}

// lookNow finds out the last id, and then the transactions that hold the table; between the two others work.
func (l *gapLog) lookNow(between func()) {
	look := Look{Last: l.next}
	between()
	for _, x := range l.open {
		look.Holders = append(look.Holders, Transaction{Name: x.name, XID: x.xid, Prepared: x.prepared})
	}
	l.observe(look)
	for id := range l.doomed {
		if id <= l.final {
			l.t.Fatalf("id %d is final, and its transaction is open", id)
		}
	}
}

// readNow reads at most limit of each part, as a term does. Others work before each statement.
func (l *gapLog) readNow(limit int, between func()) {
	var q question
	var s Snapshot
	for {
		q = l.ask()
		between()
		s = l.snapshot()
		if l.believe(q, s) {
			break
		}
	}
	for _, g := range q.skipped {
		for _, r := range g.ranges {
			for id := r.First; id <= r.Last; id++ {
				if l.visible[id] && !l.read[id] {
					l.t.Fatalf("id %d is visible in a gap that was left out", id)
				}
			}
		}
	}
	var filled, ahead []int64
	for _, r := range q.ranges {
		for id := r.First; id <= r.Last && len(filled) < limit; id++ {
			if l.visible[id] {
				filled = append(filled, id)
			}
		}
	}
	complete := len(filled) < limit
	if complete {
		for id := l.position + 1; id <= l.next && len(ahead) < limit; id++ {
			if l.visible[id] {
				ahead = append(ahead, id)
			}
		}
	}
	forgotten := l.filled(q, RangesOf(filled), complete)
	var unseen Ranges
	for _, id := range ahead {
		if id > l.position+1 {
			unseen = unseen.push(Range{l.position + 1, id - 1})
		}
		l.position = id
	}
	forgotten = forgotten.Union(l.passed(unseen))
	for _, id := range append(filled, ahead...) {
		if l.read[id] {
			l.t.Fatalf("id %d is read twice", id)
		}
		l.read[id] = true
	}
	for _, r := range forgotten {
		for id := r.First; id <= r.Last; id++ {
			if x := l.doomed[id]; x != nil {
				l.t.Fatalf("id %d is forgotten, and transaction %s may commit it", id, x.name)
			}
			if l.visible[id] {
				l.t.Fatalf("id %d is forgotten, and is there", id)
			}
			l.lost[id] = true
		}
	}
	l.agree()
}

// agree: the gaps of the tracker are the ids that were passed and neither read nor forgotten.
func (l *gapLog) agree() {
	want := map[int64]bool{}
	for id := int64(1); id <= l.position; id++ {
		want[id] = !l.read[id] && !l.lost[id]
	}
	if got, want := l.all(), rangesFrom(want); !slices.Equal(got, want) {
		l.t.Fatalf("the gaps are %v, want %v", got, want)
	}
	if l.empty() != (len(l.all()) == 0) {
		l.t.Fatalf("empty() is %v with %v", l.empty(), l.all())
	}
	if l.ranges() < len(l.all()) {
		l.t.Fatalf("%d ranges, there are %d", l.ranges(), len(l.all()))
	}
}

// TestGapsAreRead: whatever transactions do between and in the middle of looks and reads, no id is forgotten that is
// committed later, none is read twice, and at the end all that was committed is read and there is no gap.
func TestGapsAreRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &gapLog{t: t, visible: map[int64]bool{}, read: map[int64]bool{}, doomed: map[int64]*gapTx{}, lost: map[int64]bool{}}
		step := func(what string) {
			x := l.pick()
			switch {
			case what == "begin" || x == nil:
				if len(l.open) < 6 {
					l.begin(what == "xid")
				}
			case x.prepared && what != "commit" && what != "roll back":
			case what == "draw":
				l.next++
				x.ids = append(x.ids, l.next)
				l.doomed[l.next] = x
				if rapid.Bool().Draw(t, "inserts at once") {
					l.withXID(x)
				}
			case what == "xid":
				l.withXID(x)
			case what == "prepare":
				l.withXID(x)
				x.name, x.prepared = "-1/"+x.name, true
			case what == "commit" && (x.xid != 0 || len(x.ids) == 0), what == "roll back":
				l.end(x, what == "commit")
			}
		}
		what := rapid.SampledFrom([]string{"begin", "draw", "draw", "draw", "xid", "prepare", "commit", "commit", "roll back"})
		others := func() {
			for range rapid.IntRange(0, 2).Draw(t, "others") {
				step(what.Draw(t, "between"))
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				l.lookNow(others)
			case 1, 2:
				l.readNow(rapid.SampledFrom([]int{1, 2, 3, 100}).Draw(t, "limit"), others)
			case 3:
				if rapid.IntRange(0, 9).Draw(t, "takeover") == 0 {
					l.restore(l.all())
				}
			default:
				step(what.Draw(t, "what"))
			}
		}
		for len(l.open) > 0 {
			l.end(l.open[0], l.open[0].xid != 0)
		}
		// An id behind all others, so that all gaps are behind the position.
		l.next++
		l.visible[l.next] = true
		for range 3 {
			l.lookNow(func() {})
			l.readNow(1000, func() {})
		}
		for id := range l.visible {
			if !l.read[id] {
				t.Fatalf("id %d was never read", id)
			}
		}
		if !l.empty() {
			t.Fatalf("the gaps %v are left, and no transaction can fill them", l.all())
		}
	})
}

// TestQuietGapsAreLeftOut: a gap costs nothing while a snapshot shows that no transaction can have filled it. The
// statement in which that changes looks at the gap.
func TestQuietGapsAreLeftOut(t *testing.T) {
	t.Parallel()
	var g gapTracker
	g.passed(Ranges{{1, 3}})
	asked := func(want Ranges) question {
		t.Helper()
		q := g.ask()
		if !slices.Equal(q.ranges, want) {
			t.Fatalf("it asks for %v, want %v", q.ranges, want)
		}
		return q
	}
	done := func(q question, seen, forgotten Ranges) {
		t.Helper()
		if got := g.filled(q, seen, true); !slices.Equal(got, forgotten) {
			t.Fatalf("forgotten %v, want %v", got, forgotten)
		}
	}
	done(asked(Ranges{{1, 3}}), nil, nil) // nothing is known
	g.observe(Look{Last: 9, Holders: []Transaction{{Name: "a"}, {Name: "b", XID: 7}}})
	done(asked(Ranges{{1, 3}}), nil, nil)
	done(asked(Ranges{{1, 3}}), nil, nil) // a has no id: no snapshot tells of it
	g.observe(Look{Last: 9, Holders: []Transaction{{Name: "a", XID: 8}, {Name: "b", XID: 7}}})
	q := asked(nil)
	if !g.believe(q, Snapshot{Max: 9, Running: []uint64{7, 8}}) {
		t.Error("both run, and it looks again")
	}
	if g.believe(q, Snapshot{Max: 9, Running: []uint64{8}}) {
		t.Error("b has ended, and it does not look again")
	}
	q = asked(Ranges{{1, 3}})
	if !g.believe(q, Snapshot{Max: 9, Running: []uint64{8}}) {
		t.Error("it looks again and again")
	}
	done(q, Ranges{{2, 2}}, nil)
	asked(nil)
	g.observe(Look{Last: 9, Unknown: Stall{Code: "X"}}) // says nothing
	asked(nil)
	g.observe(Look{Last: 9, Holders: []Transaction{{Name: "-1/8", XID: 8, Prepared: true}}}) // a under its new name
	done(asked(Ranges{{1, 1}, {3, 3}}), nil, nil)
	asked(nil)
	g.observe(Look{Last: 9})
	done(asked(Ranges{{1, 1}, {3, 3}}), nil, Ranges{{1, 1}, {3, 3}})
	if !g.empty() || g.ranges() != 0 {
		t.Errorf("gaps %v are left", g.all())
	}
	if got := g.passed(Ranges{{8, 12}}); !slices.Equal(got, Ranges{{8, 9}}) {
		t.Errorf("of what is passed %v never come, want what is final", got)
	}
}

// TestManyGroupsAreJoined: groups that the same transactions can fill become one.
func TestManyGroupsAreJoined(t *testing.T) {
	t.Parallel()
	var g gapTracker
	holders := []Transaction{{Name: "a", XID: 7}}
	for id := int64(1); id < 100; id += 2 {
		g.passed(Ranges{{id, id}})
		g.observe(Look{Last: id, Holders: holders})
		q := g.ask()
		g.filled(q, nil, true)
	}
	if len(g.groups) != 1 || g.ranges() != 50 {
		t.Errorf("%d groups of %d ranges", len(g.groups), g.ranges())
	}
}
