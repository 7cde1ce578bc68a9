package relay

import (
	"bytes"
	"sync"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

const (
	// crowdMin is the fewest events of a shard that tell anything about a crowd. One worker with a batch of 1000
	// has 15 of each of 64 shards.
	crowdMin = 4
	// crowdPause is how long a shard is left alone after a look.
	crowdPause = time.Second
)

// crowds remembers which shards were looked at, so that a shard with a single key, where nobody is kept
// waiting, is not looked at with every batch.
type crowds struct {
	mu     sync.Mutex
	looked [outbox.Shards]time.Time
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

// again has a shard looked at with its next batch: the last look parked something, so there may be more.
func (c *crowds) again(shard int16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked[shard] = time.Time{}
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
