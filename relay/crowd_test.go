package relay

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// inKeys are events with ids from 1 on and one key for each letter; "-" is none.
func inKeys(keys string) []outbox.Event {
	var es []outbox.Event
	for i, k := range keys {
		if k == '-' {
			es = append(es, unkeyed(int64(i+1)))
		} else {
			es = append(es, keyed(int64(i+1), string(k)))
		}
	}
	return es
}

// TestPlanFindsCrowds: of shards that may have more events than the batch, where one key has three quarters
// of them.
func TestPlanFindsCrowds(t *testing.T) {
	t.Parallel()
	const found = "crowd of t/h in shard 3 after "
	for name, c := range map[string]struct {
		keys     string
		perShard int
		change   func(*Batch, *rules)
		want     string
	}{
		"all of one key":               {keys: "hhhhhhhh", perShard: 8, want: found + "8"},
		"three quarters":               {keys: "hahhahhh", perShard: 8, want: found + "8"},
		"at the end":                   {keys: "aahhhhhh", perShard: 8, want: found + "8"},
		"less":                         {keys: "hahahahh", perShard: 8},
		"half of it, but together":     {keys: "ababhhhh", perShard: 8},
		"nobody has most":              {keys: "abcdefgh", perShard: 8},
		"without a key":                {keys: "--------", perShard: 8},
		"the shard has no more":        {keys: "hhhhhhh", perShard: 8},
		"too few to tell":              {keys: "hhh", perShard: 3},
		"the share of one worker":      {keys: "hhhhhhhhhhhhhhh", perShard: 1000 / outbox.Shards, want: found + "15"},
		"the last event was over":      {keys: "hhhhhhhhh", perShard: 8, want: found + "9"},
		"that is known, and looked at": {keys: "hhhhhhhh", perShard: 8, change: func(_ *Batch, r *rules) { r.crowd = func(int16) bool { return false } }},
		"a known crowd is looked at no more often": {keys: "hhhhhhhh", perShard: 8, change: func(b *Batch, r *rules) {
			r.crowd = func(int16) bool { return false }
			b.Holds.Add(onKey(7, "h", Hold{Cause: CauseCrowded, Draining: true, Through: through(8)}))
		}},
		"without a key and with an empty one": {keys: "hhhhhhhh", perShard: 8, change: func(b *Batch, _ *rules) {
			for i := range b.Events {
				b.Events[i].Key = map[bool][]byte{true: nil, false: {}}[i%2 == 0]
			}
		}},
		"another topic's events are others": {keys: "hhhhhhhh", perShard: 8, change: func(b *Batch, _ *rules) {
			for i := range b.Events {
				b.Events[i].Topic = strings.Repeat("t", 1+i%2)
			}
		}},
		"delayed ones count: they are there": {keys: "hhhhhhhh", perShard: 8, want: found + "8", change: func(b *Batch, _ *rules) {
			for i := range b.Events {
				delayed(&b.Events[i])
			}
		}},
		"every shard is looked at by itself": {keys: "hhhhaaaa", perShard: 4, change: func(b *Batch, _ *rules) {
			for i := range b.Events[4:] {
				b.Events[4+i].Shard = 5
			}
		}, want: lines(found+"4", "crowd of t/a in shard 5 after 8")},
		"shards that are read together": {keys: "hahaahhahbhc", perShard: 4, change: func(b *Batch, _ *rules) {
			for i := range b.Events {
				if string(b.Events[i].Key) != "h" {
					b.Events[i].Shard = 5
				}
			}
		}, want: lines(found + "11")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r := &Batch{Events: inKeys(c.keys), PerShard: c.perShard}, rulesOf(TopicSettings{})
			if c.change != nil {
				c.change(b, &r)
			}
			var got []string
			for _, line := range strings.Split(describe(newPlan(b, r).settlement()), "\n") {
				if strings.HasPrefix(line, "crowd") {
					got = append(got, line)
				}
			}
			if lines(got...) != c.want {
				t.Errorf("found\n%s\nwant\n%s", lines(got...), c.want)
			}
		})
	}
}

// TestShardsAreLookedAtNowAndThen: a shard with a single key is not looked at with every batch.
func TestShardsAreLookedAtNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c crowds
		if !c.due(3) || c.due(3) {
			t.Error("a shard is looked at once")
		}
		if c.note([]Crowd{{Shard: 3, Parked: 1}}); !c.due(3) || c.due(3) {
			t.Error("a shard whose last look parked something is looked at once more, at once")
		}
		if !c.due(4) {
			t.Error("another shard is not due")
		}
		time.Sleep(crowdPause - 1)
		if c.due(3) {
			t.Error("the pause is not over")
		}
		time.Sleep(time.Nanosecond)
		if !c.due(3) {
			t.Error("the pause is over")
		}
	})
}

// TestLooksGoOnWhereTheyEnded: a look that found one key alone as far as it reached is followed by another from there,
// at once, until the end of what waits. Then what was read is believed for as long as reading it may take a share of
// the time, and the next look begins at the batch.
func TestLooksGoOnWhereTheyEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c crowds
		begins := func(when string, look Crowd, want int64) {
			t.Helper()
			looks := []Crowd{look}
			if c.recall(looks); looks[0].Beyond != want {
				t.Errorf("%s: a look begins at %d, want %d", when, looks[0].Beyond, want)
			}
		}
		note := func(l Crowd, again bool) {
			t.Helper()
			l.Shard, l.Topic, l.Key, l.After = 3, "t", []byte("h"), 10
			c.due(3)
			if c.note([]Crowd{l}); c.due(3) != again {
				t.Errorf("%+v: is it looked at again at once: %v", l, !again)
			}
		}
		h := Crowd{Shard: 3, Topic: "t", Key: []byte("h"), After: 10}
		begins("at first", h, 0)
		note(Crowd{Alone: 100_010, Looked: 100_000, More: true}, true)
		begins("after a look to the end of its reach", h, 100_010)
		begins("for another key", Crowd{Shard: 3, Topic: "t", Key: []byte("i")}, 0)
		begins("for another topic", Crowd{Shard: 3, Topic: "u", Key: []byte("h")}, 0)
		begins("in another shard", Crowd{Shard: 4, Topic: "t", Key: []byte("h")}, 0)
		note(Crowd{Alone: 150_000, Looked: 50_000}, false)
		begins("after a look to the end", h, 150_000)
		time.Sleep(crowdPause)
		note(Crowd{Alone: 150_900, Looked: 900}, false)
		begins("after a look at what came since", h, 150_900)
		time.Sleep(7*crowdPause - 1)
		begins("as long as what was read costs", h, 150_900)
		time.Sleep(time.Nanosecond)
		begins("after that", h, 0)
		note(Crowd{Alone: 120_000, Parked: 20_000}, true)
		begins("when others were found", h, 120_000)
		note(Crowd{Alone: 120_000, Parked: 20_000}, true)
		note(Crowd{Alone: 130_000, Looked: 10_000}, false)
		begins("when these are gone", h, 130_000)
		time.Sleep(crowdPause)
		begins("and when that is known for too long", h, 0)
	})
}

// TestLookAgainAfterACrowd: a look that parked something is followed by another with the next batch, one that
// parked nothing by none, whatever hold the key has.
func TestLookAgainAfterACrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &fakeClaim{batch: Batch{Events: inKeys("hhhhhhhh"), PerShard: 8}}
		w, _ := cycleOf(t, claimOf(c), &fakePublisher{})
		for n, looks := range []int{1, 1, 1, 0, 0} {
			c.parks = int64(2 - n) // as many as wait
			if _, err := w.runOnce(t.Context()); err != nil || len(c.settled.Crowds) != looks {
				t.Errorf("batch %d: %v, %d looks, want %d", n, err, len(c.settled.Crowds), looks)
			}
		}
	})
}
