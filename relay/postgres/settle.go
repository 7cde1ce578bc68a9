package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

// Settle implements relay.Claim. Where no new hold is needed it is one round trip, commit included.
func (c *claim) Settle(ctx context.Context, s *relay.Settlement) (err error) {
	defer c.store.judge(&err, true)
	defer c.rollback() // releases the connection; a no-op for the transaction once it is committed
	holds, err := c.putHolds(ctx, s.Holds)
	if err != nil {
		return fmt.Errorf("put holds in place: %w", err)
	}
	b := &pgx.Batch{}
	if len(s.Delivered) > 0 {
		b.Queue(c.store.settleQuery, s.Delivered)
	}
	if len(s.Exhausted) > 0 {
		queueExhausted(b, s.Exhausted)
	}
	if len(s.Scheduled) > 0 {
		queueScheduled(b, s.Scheduled)
	}
	if len(s.Parked) > 0 {
		queueParked(b, s.Parked, holds)
	}
	if len(s.Proven) > 0 {
		b.Queue(proveHolds, s.Proven)
	}
	switch {
	case c.marked && s.TriedThrough > 0:
		b.Queue(narrowBatch, c.id, s.TriedThrough)
	case c.marked:
		b.Queue(unmarkBatch, c.id)
	}
	b.Queue("commit")
	return c.conn.SendBatch(ctx, b).Close()
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
	index := map[string]int{}
	for i := range changes {
		index[holdName(changes[i].Scope, changes[i].Topic, changes[i].Key)] = i
	}
	ids := make([]int64, len(changes))
	for rows.Next() {
		var id int64
		var scope relay.Scope
		var topic string
		var key []byte
		if err := rows.Scan(&id, &scope, &topic, &key); err != nil {
			return nil, err
		}
		ids[index[holdName(scope, topic, key)]] = id
	}
	return ids, rows.Err()
}

func holdName(scope relay.Scope, topic string, key []byte) string {
	return string(scope) + "\x00" + topic + "\x00" + string(key)
}

func holdArgs(changes []relay.HoldChange) []any {
	n := len(changes)
	scopes, topics, keys, causes := make([]string, n), make([]string, n), make([][]byte, n), make([]string, n)
	codes, errs, ids := make([]string, n), make([]string, n), make([]uuid.UUID, n)
	probes, waits := make([]int32, n), make([]int64, n)
	for i := range changes {
		h := &changes[i]
		scopes[i], topics[i], keys[i], causes[i] = string(h.Scope), h.Topic, h.Key, string(h.Cause)
		codes[i], errs[i], ids[i] = text(h.Code), text(h.Error), h.EventID
		probes[i], waits[i] = int32(min(h.Probes, 1<<30)), micros(h.ProbeIn)
	}
	return []any{scopes, topics, keys, causes, codes, errs, ids, probes, waits}
}

func queueExhausted(b *pgx.Batch, fs []relay.Failure) {
	var f failures
	for i := range fs {
		f.add(fs[i].ID, &fs[i])
	}
	b.Queue(settleExhausted, f.ids, f.attempts, f.classes, f.codes, f.errors)
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

func queueParked(b *pgx.Batch, ps []relay.Park, holds []int64) {
	var f failures
	ids, shards := make([]int64, len(ps)), make([]int16, len(ps))
	for i := range ps {
		ids[i], shards[i] = ps[i].HoldID, ps[i].Shard
		if ids[i] == 0 {
			ids[i] = holds[ps[i].Hold]
		}
		f.add(ps[i].ID, ps[i].Failure)
	}
	if holds == nil {
		holds = []int64{}
	}
	b.Queue(parkShards, ids, shards, holds)
	b.Queue(parkEvents, f.ids, ids, f.attempts, f.classes, f.codes, f.errors)
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
