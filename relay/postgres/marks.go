package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

// followFrom is how many events a batch must have for its marks to be worth a write of each shard's row.
const followFrom = 64

// queueMarks raises the low-water marks of the shards behind what this batch settles. Nothing below can be
// committed any more (c.final, which was known before the claim's snapshot), and all that was visible there
// is in the batch, in order: so the front of it that is settled leaves nothing pending. After a batch that was
// read densely that is so up to its last id, in every shard of it.
func (c *claim) queueMarks(b *pgx.Batch, s *relay.Settlement) {
	events := c.batch.Events
	if len(events) < followFrom {
		return
	}
	var settled map[int64]bool // nil: all of them
	if len(s.Delivered) < len(events) {
		settled = make(map[int64]bool, len(events))
		for _, id := range s.Delivered {
			settled[id] = true
		}
		// Not what is parked: under a hold that ended meanwhile it stays pending.
		for i := range s.Exhausted {
			settled[s.Exhausted[i].ID] = true
		}
		for i := range s.Scheduled {
			settled[s.Scheduled[i].ID] = true
		}
	}
	var mark [outbox.Shards]int64
	var stopped [outbox.Shards]bool
	for i := range events {
		id, shard := events[i].ID, events[i].Shard&(outbox.Shards-1)
		if id > c.final || settled != nil && !settled[id] {
			stopped[shard] = true
		}
		if !stopped[shard] {
			mark[shard] = id
		}
	}
	if c.dense.high > 0 {
		for _, shard := range c.dense.numbers() {
			if !stopped[shard] {
				mark[shard] = min(c.dense.high, c.final)
			}
		}
	}
	var shards []int16
	var marks []int64
	for shard, id := range mark {
		if id > 0 {
			shards, marks = append(shards, int16(shard)), append(marks, id)
		}
	}
	if len(shards) > 0 {
		b.Queue(followWater, shards, marks)
	}
}
