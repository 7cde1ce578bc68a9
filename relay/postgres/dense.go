package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

// A deep backlog is read along the primary key, for all claimed shards at once, and settled as a range of ids.
// That visits each page once for sixteen events, where a walk of each shard visits one for every event. It
// pays only where the shards are about as far as each other and most of what lies before them waits; a walk
// finds out whether that is so.
const (
	// denseFrom is the smallest limit of events for which it pays.
	denseFrom = 1000
	// denseShards is the fewest shards: with fewer, most of the rows are others'. A claim that reads densely takes so
	// many even if that is more than its share; workers that then find none free would only have made batches dearer.
	denseShards = outbox.Shards / 4
	// denseShort is how long claims find fewer free, because others have the rest, before one makes do.
	denseShort = 200 * time.Millisecond
	// denseReach is how many times more ids are looked at than so many events of so many shards should need.
	denseReach = 4
	// densePerShard is how many times its even share a shard may have of a batch. With a key that writes more
	// than that the others of a batch would be few; walks give every shard the same.
	densePerShard = 4
	// denseRest is the longest rest after reading densely found too little, in claims.
	denseRest = 64
)

// dense is what a store knows of whether reading densely pays.
type dense struct {
	mu   sync.Mutex
	on   bool
	rest int       // claims until it is tried again
	next int       // the length of the next rest
	lack time.Time // since when claims have found too few shards

	ranges int // batches that were settled as ranges, for the tests
}

// due says whether a claim of so many events should read densely.
func (d *dense) due(limit int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.on && limit >= denseFrom
}

// settled notes a batch that was settled as a range.
func (d *dense) settled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ranges++
}

// paid notes that it went well.
func (d *dense) paid() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next, d.lack = 0, time.Time{}
}

// short notes that too few shards were free, and says whether to wait for more. Workers that took what is free would
// never leave as many again.
func (d *dense) short() (wait bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lack.IsZero() {
		d.lack = time.Now()
	}
	return time.Since(d.lack) < denseShort
}

// failed notes that it did not; each time in a row it rests for longer.
func (d *dense) failed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on, d.rest, d.lack = false, d.next, time.Time{}
	d.next = min(max(1, 2*d.next), denseRest)
}

// walked notes whether reading densely would have found as much as a walk did.
func (d *dense) walked(would bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rest > 0 {
		d.rest--
		return
	}
	d.on = would
}

// denseClaim is a claim's part in it.
type denseClaim struct {
	tried  bool
	locked int    // how many shards
	shards string // which, as an array of PostgreSQL
	low    int64  // the lowest mark of the locked shards
	// high is the last id that was read; all that was pending of the locked shards up to there is in the
	// batch. 0 when the batch was not read densely, or not all of that was taken.
	high int64
}

// denseOrWalk looks at what was read, and walks along each shard when reading densely found too little.
func (c *claim) denseOrWalk(ctx context.Context, f *found, limits relay.Limits) (*found, error) {
	d := &c.store.dense
	if c.dense.tried {
		switch {
		case c.dense.locked == 0:
			return f, nil
		case c.dense.locked < denseShards && d.short():
			return &found{}, nil
		case f.rows >= limits.Events/2 && f.over <= f.rows/2:
			d.paid()
			c.store.lastClaimed.Store(f.lastID)
			if len(f.events) == f.rows {
				c.dense.high = f.lastID
			}
			return f, nil
		}
		d.failed()
		c.dense.tried = false
		rows, err := c.conn.Query(ctx, claimEvents, limits.Events, largest(limits.Events, limits.Bytes), c.known.epochs, c.known.marks)
		if err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		if f, err = readEvents(rows, c.bounds(limits), limits.Events); err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
	}
	if limits.Events >= denseFrom {
		c.store.lastClaimed.Store(f.lastID)
		d.walked(c.dense.would(f, limits))
	}
	return f, nil
}

// would says whether what a walk found lies close enough together, counted from the lowest mark. Where so few shards
// have work that the claim did not get its share, most of the rows along the primary key are no longer there.
func (c *denseClaim) would(f *found, limits relay.Limits) bool {
	if c.locked < min(limits.Shards, denseShards) || f.rows < limits.Events/2 {
		return false
	}
	reach := c.low + int64(limits.Events)*denseReach*outbox.Shards/int64(c.locked)
	within := 0
	for i := range f.events {
		if f.events[i].ID <= reach {
			within++
		}
	}
	return within >= limits.Events/2
}

// settleDense settles a batch that was read densely and delivered whole as a range of ids. It returns false
// when that is not what happened, or when the range holds other events than the batch: then it has changed
// nothing, and the batch is settled by its ids. Nothing in the range can be committed any more (c.final, which
// was known before the claim's snapshot), so that would be a change behind the relay's back.
func (c *claim) settleDense(ctx context.Context, s *relay.Settlement) (bool, error) {
	if c.dense.high == 0 || c.dense.high > c.final || len(s.Delivered) != len(c.batch.Events) {
		return false, nil
	}
	b := &pgx.Batch{}
	b.Queue("savepoint dense")
	settled := int64(0)
	b.Queue(c.store.settleDense, c.dense.low, c.dense.high).Exec(func(tag pgconn.CommandTag) error {
		settled = tag.RowsAffected()
		return nil
	})
	if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
		return false, fmt.Errorf("settle a range of ids: %w", err)
	}
	if settled == int64(len(s.Delivered)) {
		c.store.dense.settled()
		return true, nil
	}
	c.store.dense.failed()
	if _, err := c.conn.Exec(ctx, "rollback to savepoint dense"); err != nil {
		return false, fmt.Errorf("take back a range of ids that held %d events instead of %d: %w", settled, len(s.Delivered), err)
	}
	return false, nil
}

// numbers are the locked shards.
func (c *denseClaim) numbers() []int16 {
	var shards []int16
	for n := range strings.SplitSeq(strings.Trim(c.shards, "{}"), ",") {
		if shard, err := strconv.ParseInt(n, 10, 16); err == nil && shard >= 0 && shard < outbox.Shards {
			shards = append(shards, int16(shard))
		}
	}
	return shards
}
