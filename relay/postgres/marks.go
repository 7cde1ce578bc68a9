package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

// followFrom is how many events a batch must have for its marks to be worth a write of each shard's row.
const followFrom = 64

// queueMarks raises the low-water marks of the shards behind what this batch settles. Nothing below can be
// committed any more (c.final, which was known before the claim's snapshot), and all that was visible there
// is in the batch, in order: so the front of it that is settled leaves nothing pending.
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
	var shards []int16
	var marks []int64
	for first := 0; first < len(events); {
		shard, mark, whole, last := events[first].Shard, int64(0), true, first
		for ; last < len(events) && events[last].Shard == shard; last++ {
			id := events[last].ID
			if whole = whole && id <= c.final && (settled == nil || settled[id]); whole {
				mark = id
			}
		}
		if mark > 0 {
			shards, marks = append(shards, shard), append(marks, mark)
		}
		first = last
	}
	if len(shards) > 0 {
		b.Queue(followWater, shards, marks)
	}
}
