package kafka

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// between is a publisher with two clients, and a topic to which partitions are added. Only one client knows of these.
type between struct {
	*testing.T
	b          *kafkatest.Broker
	p          *Publisher
	topic      string
	keys       []string
	knows, not *kgo.Client
	rounds     int
}

const fewPartitions, manyPartitions = 2, 10

func newBetween(t *testing.T, options ...kgo.Opt) *between {
	b := kafkatest.Virtual(t)
	x := &between{T: t, b: b, p: newPublisher(t, b, func(c *Config) { c.Options = append(c.Options, options...) }), topic: b.Topic(t, fewPartitions, nil), keys: keys(20)}
	var clients [2]*kgo.Client
	for i := range clients {
		clients[i] = x.taken()
	}
	for _, c := range clients {
		x.p.giveBack(c)
	}
	x.knows, x.not = clients[0], clients[1]
	x.round(x.knows)
	x.round(x.not)
	time.Sleep(10 * time.Second) // a client may have more than one question about the topic under way
	if _, err := b.Admin(t).CreatePartitions(t.Context(), manyPartitions-fewPartitions, x.topic); err != nil {
		t.Fatal(err)
	}
	x.knows.ForceMetadataRefresh()
	time.Sleep(time.Second)
	for c, want := range map[*kgo.Client]bool{x.knows: true, x.not: false} {
		if leader, _, err := c.PartitionLeader(x.topic, manyPartitions-1); err != nil || leader >= 0 != want {
			t.Fatalf("a client has %d as the leader of an added partition, %v; is it to know of it: %v", leader, err, want)
		}
	}
	return x
}

func (x *between) taken() *kgo.Client {
	x.Helper()
	c, err := x.p.take()
	if err != nil {
		x.Fatal(err)
	}
	return c
}

// next are messages with the number of the round, one for each key.
func (x *between) next() (ms []relay.Message) {
	for _, k := range x.keys {
		ms = append(ms, messageOf(x.topic, k, strconv.Itoa(x.rounds)))
	}
	x.rounds++
	return ms
}

// round publishes a message of each key, with this client if it may be used.
func (x *between) round(with *kgo.Client) {
	x.Helper()
	x.p.mu.Lock()
	if i := slices.Index(x.p.idle, with); i >= 0 {
		x.p.idle = append(slices.Delete(x.p.idle, i, i+1), with)
	}
	x.p.mu.Unlock()
	wantAll(x.T, publish(x.T, x.p, x.next()...), relay.Delivered)
}

// wantMovedOnce checks that the first rounds are where keys were, and all others where they are now, in order.
func (x *between) wantMovedOnce(before int) {
	x.Helper()
	last := map[string]int{}
	for _, r := range x.b.ReadAll(x.T, x.topic, x.rounds*len(x.keys)) {
		n, err := strconv.Atoi(string(r.Value))
		if err != nil {
			x.Fatal(err)
		}
		of := int32(fewPartitions)
		if n >= before {
			of = manyPartitions
		}
		if want := x.p.Partition(r.Key, of); r.Partition != want {
			x.Errorf("round %d of %s is in partition %d, want %d of %d", n, r.Key, r.Partition, want, of)
		}
		place := fmt.Sprintf("%s in %d", r.Key, r.Partition)
		if n < last[place] {
			x.Errorf("round %d of %s comes after round %d", n, r.Key, last[place])
		}
		last[place] = n
	}
}

// TestKeysMoveOnce: one client learns of added partitions, the other does not. After the first batch by the new
// number no batch goes by the old one.
func TestKeysMoveOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newBetween(t)
		x.round(x.not) // the publisher cannot know better yet
		for range 3 {
			x.round(x.knows)
			x.round(x.not)
		}
		x.wantMovedOnce(3)
		x.p.mu.Lock()
		defer x.p.mu.Unlock()
		if _, there := x.p.all[x.not]; there && slices.Contains(x.p.idle, x.not) {
			t.Error("a client that does not know of the partitions waits to be used again")
		}
	})
}

// TestInUseWhenKeysMove: a client that was taken before another learned of added partitions sends nothing more to the
// topic, and what else is in its batch goes out.
func TestInUseWhenKeysMove(t *testing.T) {
	t.Parallel()
	for name, hooks := range map[string][]kgo.Opt{"alone": nil, "with a hook that wraps contexts": {kgo.WithHooks(around{})}} {
		t.Run(name, func(t *testing.T) { inUseWhenKeysMove(t, hooks) })
	}
}

func inUseWhenKeysMove(t *testing.T, hooks []kgo.Opt) {
	synctest.Test(t, func(t *testing.T) {
		x := newBetween(t, hooks...)
		other := x.b.Topic(t, 1, nil)
		x.p.mu.Lock()
		x.p.idle = slices.DeleteFunc(x.p.idle, func(c *kgo.Client) bool { return c == x.not })
		x.p.inUse.Add(1)
		x.p.mu.Unlock()
		x.round(x.knows)

		ms := append(x.next(), messageOf(other, "k", "v"))
		send := make([]int, len(ms))
		for i := range ms {
			send[i] = i
		}
		out := make([]relay.Outcome, len(ms))
		b := x.p.produce(t.Context(), x.not, ms, send)
		if !x.p.read(b, ms, send, out) {
			t.Error("records are without an answer")
		}
		x.p.release(&x.p.own, x.not, b)
		for i, o := range out[:len(x.keys)] {
			if o.Class != relay.Infrastructure || o.Code != CodePartitionsChanged {
				t.Errorf("message %d: %+v, want that it is not sent", i, o)
			}
		}
		wantAll(t, out[len(x.keys):], relay.Delivered)
		wantAll(t, publish(t, x.p, ms[:len(x.keys)]...), relay.Delivered)
		x.round(x.knows)
		x.wantMovedOnce(2)
		wantTopic(t, x.b, other, ms[len(x.keys)])
	})
}

// TestSizes: a smaller number is old news for a while, and after that a topic that was made anew.
func TestSizes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s sizes
		see := func(when, topic string, n int, ok, changed bool) {
			t.Helper()
			before := s.changes.Load()
			if gotOK, gotChanged := s.see(topic, n); gotOK != ok || gotChanged != changed {
				t.Errorf("%s: %v and %v, want %v and %v", when, gotOK, gotChanged, ok, changed)
			}
			if (s.changes.Load() > before) != changed {
				t.Errorf("%s: %d changes, %d before", when, s.changes.Load(), before)
			}
		}
		see("first", "t", 4, true, false)
		see("the same", "t", 4, true, false)
		see("another topic", "u", 2, true, false)
		see("added", "t", 6, true, true)
		see("the same again", "t", 6, true, false)
		time.Sleep(oldSizeFor - 1)
		see("from before", "t", 4, false, false)
		time.Sleep(time.Nanosecond)
		see("made anew", "t", 4, true, true)
		see("that is not growth", "t", 2, true, true)
		s.forget("t")
		see("forgotten", "t", 1, true, false)
		see("the other topic", "u", 2, true, false)
	})
}
