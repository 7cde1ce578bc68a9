package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

// errAnotherServer: what a claim relied on was known of the server before.
var errAnotherServer = errors.New("the database server was restarted, or is another")

// abandonTimeout bounds giving a claim back.
const abandonTimeout = 5 * time.Second

// claim is a transaction that holds shard locks.
type claim struct {
	store  *Store
	conn   *pgxpool.Conn
	worker string
	batch  relay.Batch
	id     int64
	dead   []int64 // markers of workers that died over these shards
	marked bool
	// counted is the event whose attempt was counted and may be taken back; 0 is none.
	counted int64
	dense   denseClaim
	known   *knownMarks
	at      server // at the beginning, all that is known is of it
	ordered server // what is final for commit order is of it
	ofKeys  bool   // holds of keys are asked for by the keys that were found
	final   int64  // no event up to this id can be committed any more; known before the claim's snapshot
}

// Claim implements relay.Store. Locking and reading are two statements in one round trip: the second
// one's snapshot is taken after the locks, so it sees all that the last owners settled.
func (s *Store) Claim(ctx context.Context, limits relay.Limits) (_ relay.Claim, err error) {
	defer s.judge(&err, false)
	if limits.Events >= denseFrom && (!s.begun.Swap(true) || s.lately.Load() >= int64(limits.Events/2)) {
		if err := s.hurryMarks(ctx); err != nil {
			return nil, fmt.Errorf("look how far the low-water marks may rise: %w", err)
		}
	}
	c := &claim{store: s, worker: limits.Worker, at: s.water.where()}
	c.known, c.final = s.water.known(), s.water.final.Load()
	if limits.CommitOrder {
		// Before the claim's snapshot, which then sees all that is final.
		c.batch.Final, c.ordered, c.batch.FenceAge, err = s.order.final(ctx, s.pool)
		if c.batch.Standstill = s.order.standstill(); err != nil {
			return nil, err
		}
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	c.conn = conn
	if limits.Bytes <= 0 {
		limits.Bytes = math.MaxInt64
	}
	err = c.read(ctx, limits)
	if errors.Is(err, errAnotherServer) {
		c.rollback()
		return s.Claim(ctx, limits)
	}
	if err != nil {
		c.rollback()
		return nil, err
	}
	if len(c.batch.Events) == 0 {
		c.rollback()
		return nil, nil
	}
	return c, nil
}

func (c *claim) read(ctx context.Context, limits relay.Limits) error {
	b := &pgx.Batch{}
	begins := queueBegin(b, c.conn.Conn())
	shards := limits.Shards
	if c.dense.tried = c.store.dense.due(limits.Events); c.dense.tried {
		shards = max(shards, denseShards)
	}
	k := c.known
	b.Queue(lockShards, limits.First, shards, k.epochs, k.marks)
	if c.dense.tried {
		b.Queue(claimDense, limits.Events, largest(limits.Events, limits.Bytes), denseReach, denseShards, k.epochs, k.marks)
	} else {
		b.Queue(claimEvents, limits.Events, largest(limits.Events, limits.Bytes), k.epochs, k.marks)
	}
	c.queueHolds(b)
	b.Queue(claimCrashes, c.store.processPrefix(c.worker), c.store.markers.gone.Load())
	res := c.conn.SendBatch(ctx, b)
	f, err := c.scan(res, begins, limits)
	if err = errors.Join(err, res.Close()); err != nil {
		return err
	}
	if f, err = c.denseOrWalk(ctx, f, limits); err != nil {
		return err
	}
	if err := c.complete(ctx, f); err != nil {
		return err
	}
	if err := c.holdsOfKeys(ctx, f.events); err != nil {
		return fmt.Errorf("read holds of keys: %w", err)
	}
	c.batch.Events = f.events
	c.store.lately.Store(int64(len(f.events)))
	c.suspects()
	return nil
}

func (c *claim) scan(res pgx.BatchResults, begins int, limits relay.Limits) (f *found, err error) {
	if err := begun(res, begins); err != nil {
		return f, fmt.Errorf("begin: %w", err)
	}
	var shards string
	var locked int
	var here server
	if err := res.QueryRow().Scan(&shards, &locked, &c.dense.low, &c.batch.Now, &here.started, &here.file); err != nil {
		return f, fmt.Errorf("lock shards: %w", err)
	}
	if !c.store.water.isAt(here) || c.at != (server{}) && c.at != here {
		return f, errAnotherServer
	}
	if c.ordered != here {
		c.batch.Final = 0
	}
	c.batch.PerShard = max(limits.Events/max(locked, 1), 1)
	c.dense.locked = locked
	if c.dense.tried {
		c.dense.shards = shards
	}
	rows, err := res.Query()
	if err != nil {
		return f, fmt.Errorf("read events: %w", err)
	}
	if f, err = readEvents(rows, c.bounds(limits), int(c.store.lately.Load())); err != nil {
		return f, fmt.Errorf("read events: %w", err)
	}
	if rows, err = res.Query(); err != nil {
		return f, fmt.Errorf("read holds: %w", err)
	}
	holds, err := c.scanHolds(rows)
	if err != nil {
		return f, fmt.Errorf("read holds: %w", err)
	}
	if !c.ofKeys {
		c.store.held.saw(holds)
	}
	if rows, err = res.Query(); err != nil {
		return f, fmt.Errorf("read batch markers: %w", err)
	}
	if err := c.scanCrashes(rows); err != nil {
		return f, fmt.Errorf("read batch markers: %w", err)
	}
	return f, nil
}

func (c *claim) scanCrashes(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		var id, first, last int64
		var crashes int
		var own bool
		if err := rows.Scan(&id, &crashes, &first, &last, &own); err != nil {
			return err
		}
		c.dead = append(c.dead, id)
		if !own {
			crashes++
		}
		b := &c.batch
		if b.Crashes == 0 {
			b.SuspectFirst, b.SuspectLast = first, last
		}
		b.Crashes = max(b.Crashes, crashes)
		b.SuspectFirst, b.SuspectLast = min(b.SuspectFirst, first), max(b.SuspectLast, last)
	}
	return rows.Err()
}

// suspects forgets the dead batches of which nothing is left here: whoever dies next dies over something else.
func (c *claim) suspects() {
	b := &c.batch
	if !slices.ContainsFunc(b.Events, func(e outbox.Event) bool { return e.ID >= b.SuspectFirst && e.ID <= b.SuspectLast }) {
		b.Crashes, b.SuspectFirst, b.SuspectLast = 0, 0, 0
	}
}

// Batch implements relay.Claim.
func (c *claim) Batch() *relay.Batch { return &c.batch }

// Mark implements relay.Claim, on a connection of its own so that others see it while the claim runs. Each
// batch pays for this before it is sent, so it is a single statement mostly.
func (c *claim) Mark(ctx context.Context) (err error) {
	defer c.store.judge(&err, true)
	var shards []int16
	seen := [outbox.Shards]bool{}
	first, last := c.batch.Events[0].ID, c.batch.Events[0].ID
	for i := range c.batch.Events {
		e := &c.batch.Events[i]
		first, last = min(first, e.ID), max(last, e.ID)
		if !seen[e.Shard] {
			seen[e.Shard] = true
			shards = append(shards, e.Shard)
		}
	}
	if c.batch.Crashes > 0 {
		// Keep looking at what was in flight when the others died, until it is settled.
		first, last = c.batch.SuspectFirst, c.batch.SuspectLast
	}
	// What is sent together is a transaction, without a word about it.
	b := &pgx.Batch{}
	if len(c.dead) > 0 {
		b.Queue(takeOverBatches, c.dead, shards)
	}
	var id int64
	b.Queue(markBatch, c.worker, shards, first, last, len(c.batch.Events), c.batch.Crashes).QueryRow(func(row pgx.Row) error {
		return row.Scan(&id)
	})
	if err := c.store.pool.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	c.id, c.marked = id, true
	return nil
}

// CountAttempt implements relay.Claim, committed at once on a connection of its own: the claim locks
// the shard, not the row.
func (c *claim) CountAttempt(ctx context.Context, id int64) (n int, err error) {
	defer c.store.judge(&err, true)
	if err = c.store.pool.QueryRow(ctx, countAttempt, id).Scan(&n); err != nil {
		return n, err
	}
	c.counted = id
	return n, nil
}

// Abandon implements relay.Claim.
func (c *claim) Abandon() {
	if c.marked {
		ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
		defer cancel()
		end := unmarkBatch
		if c.batch.Crashes > 0 {
			end = freeBatch // nothing is settled: the deaths still count
		}
		// Best effort: a marker that stays is recognised as this process's own.
		_, _ = c.store.pool.Exec(ctx, end, c.id)
	}
	if c.counted > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
		defer cancel()
		// By the claim itself, while nobody else can count. When it fails one is too many, as after a death here.
		b := &pgx.Batch{}
		b.Queue(uncountAttempt, c.counted)
		b.Queue("commit")
		_ = c.conn.SendBatch(ctx, b).Close()
	}
	c.rollback()
}

// rollback ends the transaction.
func (c *claim) rollback() { giveBack(c.conn) }
