package relay

import (
	"bytes"
	"sync"
	"time"

	"github.com/postrider/postrider/relay/outbox"
)

const (
	// crowdMin is the fewest events of a shard that are looked at for a crowd.
	crowdMin = 16
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

// lookForCrowds finds shards of which the batch has as many events as it may, three quarters of them of one
// key: there may be others behind.
func (p *plan) lookForCrowds() {
	b := p.batch
	if b.PerShard < p.crowdMin {
		return
	}
	for first := 0; first < len(b.Events); {
		last := first
		for last < len(b.Events) && b.Events[last].Shard == b.Events[first].Shard {
			last++
		}
		if last-first >= b.PerShard {
			p.lookForCrowd(b.Events[first:last])
		}
		first = last
	}
}

func (p *plan) lookForCrowd(events []outbox.Event) {
	same := func(a, b *outbox.Event) bool {
		return bytes.Equal(a.Key, b.Key) && a.HasKey() == b.HasKey() && a.Topic == b.Topic
	}
	// A majority vote: whoever has more than half is left over. Then the count.
	var most *outbox.Event
	votes, n := 0, 0
	for i := range events {
		e := &events[i]
		switch {
		case votes == 0:
			most, votes = e, 1
		case same(e, most):
			votes++
		default:
			votes--
		}
	}
	for i := range events {
		if same(&events[i], most) {
			n++
		}
	}
	if n*4 < len(events)*3 || !most.HasKey() {
		return
	}
	known := p.batch.Holds.key(most.Topic, most.Key)
	if known == nil && !p.crowd(most.Shard) {
		return
	}
	p.out.Crowds = append(p.out.Crowds, Crowd{Shard: most.Shard, Topic: most.Topic, Key: most.Key, After: events[len(events)-1].ID})
}
