package replay

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
)

// died is what a process of the test ends with.
type died struct{}

// mortal counts what happens to the outside, and dies at a chosen event.
type mortal struct {
	*letters
	events, death int
}

func (m *mortal) event() {
	if m.events++; m.events == m.death {
		panic(died{})
	}
}

func (m *mortal) CommitOffsets(ctx context.Context, group, topic string, offsets map[int32]CommittedOffset) error {
	m.event() // before it is there
	err := m.letters.CommitOffsets(ctx, group, topic, offsets)
	m.event() // after it, and before anybody knows
	return err
}

func (m *mortal) Publish(ctx context.Context, ms []relay.Message) []relay.Outcome {
	out := make([]relay.Outcome, len(ms))
	for i := range ms {
		out[i] = m.letters.Publish(ctx, ms[i:i+1])[0]
		m.event()
	}
	return out
}

// life is one process: it plans and runs until it is done or dies.
func life(t *rapid.T, l *letters, o Options, batch, death int) (done bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(died); !ours {
				panic(r)
			}
		}
	}()
	m := &mortal{letters: l, death: death}
	r, err := New(Config{Cluster: m, Publisher: m, Options: o, Batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.Plan(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if p.Round == Next {
		return true // the last life ended after its last commit
	}
	res, err := r.Run(context.Background(), p)
	if err != nil || o.Max == 0 && res.Remaining > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	return res.Remaining == 0
}

// TestKilledAnywhereProperty kills the replay at any event, again and again. Every letter is sent, with one id however
// often, and in the order of its key by first occurrences. No later letter is sent, and only messages on their way are
// sent twice.
func TestKilledAnywhereProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLetters(rapid.Int32Range(1, 3).Draw(t, "partitions"), "payments")
		l.chunk = rapid.IntRange(1, 9).Draw(t, "chunk")
		n := rapid.IntRange(1, 40).Draw(t, "letters")
		wanted := map[string]string{} // by value, the key
		for i := range n {
			key := fmt.Sprint("k", rapid.IntRange(0, 4).Draw(t, "key"))
			if key == "k4" { // left alone
				l.add(int32(i%len(l.records)), dlq.Record{Key: []byte(key), Value: fmt.Append(nil, i)})
				continue
			}
			l.add(int32(i%len(l.records)), foreign(i, []byte(key)))
			wanted[fmt.Sprint(i)] = key
		}
		o := optionsOf(func(o *Options) { o.Max = rapid.SampledFrom([]int64{0, 0, 5}).Draw(t, "max") })
		batch := rapid.IntRange(1, 6).Draw(t, "batch")
		lives := 0
		for done := false; !done; lives++ {
			death := 0
			if lives < 8 {
				death = rapid.IntRange(1, 30).Draw(t, "death")
			}
			done = life(t, l, o, batch, death)
			if lives == 0 { // letters after the first begin are not of this round
				if len(l.offsets) > 0 {
					l.add(0, foreign(500, []byte("late")))
				}
			}
		}
		ids, first := map[string]string{}, map[string][]string{}
		for i := range l.sent {
			m := &l.sent[i]
			value, id := string(m.Value), headerOf(m, dlq.HeaderReplayID)
			if wanted[value] == "" {
				t.Fatalf("%s was sent", value)
			}
			if before, again := ids[value]; again && before != id {
				t.Fatalf("%s was sent as %s and %s", value, before, id)
			} else if !again {
				ids[value] = id
				first[string(m.Key)] = append(first[string(m.Key)], value)
			}
		}
		if len(ids) != len(wanted) {
			t.Fatalf("%d of %d were sent", len(ids), len(wanted))
		}
		if twice := len(l.sent) - len(ids); twice > lives*batch {
			t.Fatalf("%d were sent twice in %d lives, with %d on their way at once", twice, lives, batch)
		}
		for p := range l.records {
			want := map[string][]string{} // of a key in one partition
			for _, r := range l.records[p] {
				if value := string(r.Value); wanted[value] != "" {
					want[wanted[value]] = append(want[wanted[value]], value)
				}
			}
			for key, values := range want {
				got := slices.DeleteFunc(slices.Clone(first[key]), func(v string) bool { return !slices.Contains(values, v) })
				if !slices.Equal(got, values) {
					t.Fatalf("%s of partition %d: %v, want %v", key, p, got, values)
				}
			}
		}
	})
}
