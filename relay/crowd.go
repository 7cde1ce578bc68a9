package relay

import (
	"bytes"
	"sync"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

// A key that keeps nobody waiting is left alone: it would be parked and come back for nothing, 250 at a time. So others
// must have been seen, and they may wait behind any number of its events. Looks reach far, each goes on where the last
// one ended, and is followed by the next at once until they have come to the end of what waits. Then the shard is left
// alone in proportion to what they read: a million events that wait alone cost no more a second than a few.

const (
	// crowdMin is the fewest events of a shard that tell anything about a crowd. One worker with a batch of 1000
	// has 15 of each of 64 shards.
	crowdMin = 4
	// crowdPause is how long a shard is left alone after a look.
	crowdPause = time.Second
	// crowdPace is how many events that were found to be of one key alone the looks at a shard read in each crowdPause,
	// on average. What was read is believed that long: an earlier event may be committed, or come back, meanwhile.
	crowdPace = 20_000
)

// crowds remembers which shards were looked at, so that a shard with a single key, where nobody is kept
// waiting, is not looked at with every batch.
type crowds struct {
	mu     sync.Mutex
	looked [outbox.Shards]time.Time
	alone  [outbox.Shards]alone
}

// alone is what the looks at a shard found: up to an id there are events of one key alone.
type alone struct {
	topic   string
	key     []byte
	through int64
	read    int64 // so many events, since it began
	began   time.Time
}

// of reports whether this is known of a crowd, and not for too long.
func (a *alone) of(c *Crowd) bool {
	return a.topic == c.Topic && bytes.Equal(a.key, c.Key) && time.Since(a.began) < crowdPause*time.Duration(1+a.read/crowdPace)
}

func (c *crowds) due(shard int16) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked[shard]) < crowdPause {
		return false
	}
	c.looked[shard] = time.Now()
	return true
}

// recall has looks that are to be made begin where the last ones at their shards ended.
func (c *crowds) recall(looks []Crowd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range looks {
		if a, l := &c.alone[looks[i].Shard], &looks[i]; a.of(l) {
			l.Beyond = a.through
		}
	}
}

// note remembers what looks found. A shard is looked at again with its next batch when the look parked something, so
// that there may be more, and when it did not come to the end of what waits.
func (c *crowds) note(looks []Crowd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range looks {
		a, l := &c.alone[looks[i].Shard], &looks[i]
		if !a.of(l) {
			*a = alone{topic: l.Topic, key: bytes.Clone(l.Key), began: time.Now()}
		}
		a.through, a.read = l.Alone, a.read+l.Looked
		if l.Parked > 0 || l.More {
			c.looked[l.Shard] = time.Time{}
		}
	}
}

// lookForCrowds finds shards of which the batch has a full share or more, three quarters of it of one key:
// there may be others behind.
func (p *plan) lookForCrowds() {
	b := p.batch
	if b.PerShard < crowdMin {
		return
	}
	var count [outbox.Shards]int
	for i := range b.Events {
		count[b.Events[i].Shard&(outbox.Shards-1)]++
	}
	var of [outbox.Shards][]*outbox.Event // of the shards that have so many
	for i := range b.Events {
		shard := b.Events[i].Shard & (outbox.Shards - 1)
		if count[shard] < b.PerShard {
			continue
		}
		if of[shard] == nil {
			of[shard] = make([]*outbox.Event, 0, count[shard])
		}
		of[shard] = append(of[shard], &b.Events[i])
	}
	for _, events := range of {
		if len(events) > 0 {
			p.lookForCrowd(events)
		}
	}
}

func (p *plan) lookForCrowd(events []*outbox.Event) {
	same := func(a, b *outbox.Event) bool {
		return bytes.Equal(a.Key, b.Key) && a.HasKey() == b.HasKey() && a.Topic == b.Topic
	}
	// A majority vote: whoever has more than half is left over. Then the count.
	var most *outbox.Event
	votes, n := 0, 0
	for _, e := range events {
		switch {
		case votes == 0:
			most, votes = e, 1
		case same(e, most):
			votes++
		default:
			votes--
		}
	}
	for _, e := range events {
		if same(e, most) {
			n++
		}
	}
	if n*4 < len(events)*3 || !most.HasKey() {
		return
	}
	if !p.crowd(most.Shard) {
		return
	}
	p.out.Crowds = append(p.out.Crowds, Crowd{Shard: most.Shard, Topic: most.Topic, Key: most.Key, After: events[len(events)-1].ID})
}
