package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

// Settle implements relay.Claim. Where no new hold is needed it is one round trip, commit
// included; two for a dense batch.
func (c *claim) Settle(ctx context.Context, s *relay.Settlement) (err error) {
	defer c.store.judge(&err, true)
	defer c.rollback() // releases the connection; a no-op for the transaction once it is committed
	holds, err := c.putHolds(ctx, s.Holds)
	if err != nil {
		return fmt.Errorf("put holds in place: %w", err)
	}
	settled, err := c.settleDense(ctx, s)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	if len(s.Delivered) > 0 && !settled {
		b.Queue(c.store.settleQuery, s.Delivered)
	}
	if s.Uncounted > 0 {
		b.Queue(uncountAttempt, s.Uncounted)
	}
	if len(s.Exhausted) > 0 {
		queueExhausted(b, s.Exhausted)
	}
	if len(s.Scheduled) > 0 {
		queueScheduled(b, s.Scheduled)
	}
	queueParked(b, s, holds)
	for i := range s.Crowds {
		w := &s.Crowds[i]
		b.Queue(parkCrowd, w.Shard, w.After, w.Topic, w.Key, crowdLook, crowdReach, max(w.After, w.Beyond)).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&w.Parked, &w.Alone, &w.Looked)
			w.More = w.Looked == crowdReach
			return err
		})
	}
	if len(s.Proven) > 0 {
		b.Queue(proveHolds, s.Proven)
	}
	c.queueMarks(b, s)
	switch {
	case c.marked && s.TriedThrough > 0:
		b.Queue(narrowBatch, c.id, s.TriedThrough)
	case c.marked:
		b.Queue(unmarkBatch, c.id)
	}
	if c.mayBeLost(s) {
		b.Queue("set local synchronous_commit = off")
	}
	b.Queue("commit")
	return c.conn.SendBatch(ctx, b).Close()
}

// durableFrom is how many events a batch must have for its settlement to wait for the disk in any case. It costs
// a large batch little, and bounds what is sent twice.
const durableFrom = 64

// mayBeLost reports whether the commit of a settlement need not wait for the disk: it says of a few events that
// they were acknowledged, and no more. When the database crashes before it is written, within its
// wal_writer_delay or a few, the events are pending again and go once more, as when a relay dies between sending
// and settling; whatever built on this commit is later in the log and lost with it. To wait would keep the shards
// locked for as long as the disk takes, beside all the writers' commits. Of what was not delivered somebody is
// told, or it must not go to its topic again: that waits.
func (c *claim) mayBeLost(s *relay.Settlement) bool {
	return len(c.batch.Events) < durableFrom && s.TriedThrough == 0 &&
		len(s.Exhausted)+len(s.Scheduled)+len(s.Parked)+len(s.Holds)+len(s.Crowds)+len(s.Proven) == 0
}

// putHolds writes the hold changes and returns their ids in the same order.
func (c *claim) putHolds(ctx context.Context, changes []relay.HoldChange) ([]int64, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	rows, err := c.conn.Query(ctx, upsertHolds, holdArgs(changes)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	index := map[holdSubject]int{}
	for i := range changes {
		h := &changes[i]
		index[holdSubject{h.Scope, h.Topic, string(h.Key), h.Partition, h.Partitions}] = i
	}
	ids := make([]int64, len(changes))
	for rows.Next() {
		var id int64
		var s holdSubject
		var key []byte
		if err := rows.Scan(&id, &s.scope, &s.topic, &key, &s.partition, &s.partitions); err != nil {
			return nil, err
		}
		s.key = string(key)
		ids[index[s]] = id
	}
	return ids, rows.Err()
}

// holdSubject is what a hold holds, as the table's unique index sees it.
type holdSubject struct {
	scope                 relay.Scope
	topic, key            string
	partition, partitions int32
}

func holdArgs(changes []relay.HoldChange) []any {
	n := len(changes)
	scopes, topics, keys, causes := make([]string, n), make([]string, n), make([][]byte, n), make([]string, n)
	codes, errs, ids := make([]string, n), make([]string, n), make([]uuid.UUID, n)
	partitions, counts := make([]*int32, n), make([]*int32, n)
	probes, draining, waits := make([]int32, n), make([]bool, n), make([]*int64, n)
	for i := range changes {
		h := &changes[i]
		scopes[i], topics[i], keys[i], causes[i] = string(h.Scope), h.Topic, h.Key, string(h.Cause)
		codes[i], errs[i], ids[i] = text(h.Code), text(h.Error), h.EventID
		probes[i], draining[i] = int32(min(h.Probes, 1<<30)), h.Draining
		if h.Scope == relay.ScopePartition {
			partitions[i], counts[i] = &h.Partition, &h.Partitions
		}
		if h.ProbeIn != relay.Forever {
			w := micros(h.ProbeIn)
			waits[i] = &w
		}
	}
	return []any{scopes, topics, keys, partitions, counts, causes, codes, errs, ids, probes, draining, waits}
}

func queueExhausted(b *pgx.Batch, fs []relay.Failure) {
	var f failures
	for i := range fs {
		f.add(fs[i].ID, &fs[i])
	}
	b.Queue(settleExhausted, f.ids, f.attempts, f.classes, f.codes, f.errors)
	b.Queue(moveTasks, f.ids)
}

func queueScheduled(b *pgx.Batch, ss []relay.Schedule) {
	var f failures
	waits := make([]*int64, len(ss))
	for i := range ss {
		f.add(ss[i].ID, ss[i].Failure)
		if ss[i].In > 0 {
			w := micros(ss[i].In)
			waits[i] = &w
		}
	}
	b.Queue(settleScheduled, f.ids, f.attempts, f.classes, f.codes, f.errors, waits)
}

const (
	// crowdReach is how many events are looked at for others that a crowd keeps waiting: reading is cheap.
	crowdReach = 50_000
	// crowdLook is how many events are looked at for those of a crowd, and how many of it are parked at most at once.
	crowdLook = 20_000
)

// queueParked parks events, and makes holds known in the shards where they have none to park yet.
func queueParked(b *pgx.Batch, s *relay.Settlement, holds []int64) {
	var f failures
	ids, shards := make([]int64, len(s.Parked)), make([]int16, len(s.Parked))
	for i := range s.Parked {
		p := &s.Parked[i]
		ids[i], shards[i] = p.HoldID, p.Shard
		if ids[i] == 0 {
			ids[i] = holds[p.Hold]
		}
		f.add(p.ID, p.Failure)
	}
	known, in := ids, shards
	for i := range s.Holds {
		if s.Holds[i].Anchor {
			known, in = append(known, holds[i]), append(in, s.Holds[i].Shard)
		}
	}
	if holds == nil {
		holds = []int64{}
	}
	if len(known) > 0 {
		b.Queue(parkShards, known, in, holds)
	}
	if len(ids) > 0 {
		b.Queue(parkEvents, f.ids, ids, f.attempts, f.classes, f.codes, f.errors)
	}
}

// failures are the columns of failed attempts; null where an event did not fail.
type failures struct {
	ids                    []int64
	attempts               []*int32
	classes, codes, errors []*string
}

func (f *failures) add(id int64, failure *relay.Failure) {
	var attempts *int32
	var class, code, message *string
	if failure != nil {
		a, c, k, m := int32(failure.Attempts), string(failure.Class), text(failure.Code), text(failure.Error)
		attempts, class, code, message = &a, &c, &k, &m
	}
	f.ids = append(f.ids, id)
	f.attempts = append(f.attempts, attempts)
	f.classes = append(f.classes, class)
	f.codes = append(f.codes, code)
	f.errors = append(f.errors, message)
}

func micros(d time.Duration) int64 { return d.Microseconds() }
