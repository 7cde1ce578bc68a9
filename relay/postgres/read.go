package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

// Reading what a claim found. This is done for every event, so the columns are few and are decoded here
// rather than by reflection.

// largest is the size of a key or payload that is read with its event, so that the events of a batch
// cannot be more than the bound on its bytes. Larger ones are fetched one after the other.
func largest(events int, bytes int64) int32 {
	return int32(max(min(bytes/int64(max(events, 1))/2, 1<<20), 1<<10))
}

// columns of claim_events, in their binary form.
const (
	colID = iota
	colEventID
	colTopic
	colKey
	colPayload
	colHeaders
	colAbout
	eventColumns
)

// found are the events of a claim that need a second look.
type found struct {
	events  []outbox.Event
	special []int64 // have details
	large   []int64 // have a key or a payload that is not there yet

	bounds
	total int64                // bytes of keys and payloads
	of    [outbox.Shards]int64 // the same of each shard
	count [outbox.Shards]int   // events of each shard
	cut   [outbox.Shards]bool  // the rest of the shard's events is left out

	rows   int   // that came
	lastID int64 // of the last of them
	over   int   // that were left out because there were so many of their shard
}

// bounds are how much of what comes is taken.
type bounds struct {
	bytes, share int64 // of keys and payloads, of all shards and of one
	perShard     int   // events
}

// bounds are those of this claim. A walk of each shard bounds the events itself.
func (c *claim) bounds(limits relay.Limits) bounds {
	b := bounds{bytes: limits.Bytes, share: max(limits.Bytes/int64(max(c.dense.locked, 1)), 1), perShard: math.MaxInt}
	if c.dense.tried {
		b.perShard = densePerShard * c.batch.PerShard
	}
	return b
}

// readEvents reads the rows of claim_events or claim_dense, as far as they fit. expected is how many there
// may be.
func readEvents(rows pgx.Rows, b bounds, expected int) (*found, error) {
	defer rows.Close()
	f := &found{bounds: b, events: make([]outbox.Event, 0, expected)}
	if err := binaryFormats(rows); err != nil {
		return f, err
	}
	var bytes arena
	topic := ""
	for rows.Next() {
		v := rows.RawValues()
		about := int64(binary.BigEndian.Uint64(v[colAbout]))
		shard, special, size := int16(about&(outbox.Shards-1)), about&outbox.Shards != 0, about/(2*outbox.Shards)
		isLarge := size > 0
		if !isLarge {
			size = int64(len(v[colKey]) + len(v[colPayload]))
		}
		id := int64(binary.BigEndian.Uint64(v[colID]))
		f.rows++
		f.lastID = id
		if !f.fits(shard, size) {
			continue
		}
		if string(v[colTopic]) != topic { // mostly that of the event before
			topic = string(v[colTopic])
		}
		e := outbox.Event{
			ID: id, EventID: uuid.UUID(v[colEventID]), Topic: topic,
			Key: bytes.keep(v[colKey]), Payload: bytes.keep(v[colPayload]), Headers: bytes.keep(v[colHeaders]),
			State: outbox.Pending, Shard: shard,
		}
		if special {
			f.special = append(f.special, e.ID)
		}
		if isLarge {
			f.large = append(f.large, e.ID)
		}
		f.events = append(f.events, e)
	}
	return f, rows.Err()
}

// binaryFormats checks that the columns come as readEvents expects them. Text and JSON are the same in both.
func binaryFormats(rows pgx.Rows) error {
	fields := rows.FieldDescriptions()
	if len(fields) == 0 {
		return rows.Err() // the query failed
	}
	if len(fields) != eventColumns {
		return fmt.Errorf("claimed events have %d columns, want %d", len(fields), eventColumns)
	}
	for i, f := range fields {
		text := f.Format != pgtype.BinaryFormatCode
		if text != (i == colTopic || i == colHeaders) {
			return fmt.Errorf("column %s of a claimed event has format %d", f.Name, f.Format)
		}
	}
	return nil
}

// arena keeps many small byte strings in few large ones.
type arena struct{ chunk []byte }

const chunkBytes = 64 << 10

// keep copies b; nil stays nil, and empty is not nil.
func (a *arena) keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	if len(b) == 0 {
		return []byte{}
	}
	if len(b) > chunkBytes/4 {
		return slices.Clone(b)
	}
	if cap(a.chunk)-len(a.chunk) < len(b) {
		a.chunk = make([]byte, 0, chunkBytes)
	}
	begin := len(a.chunk)
	a.chunk = append(a.chunk, b...)
	return a.chunk[begin:len(a.chunk):len(a.chunk)]
}

// fits decides whether an event of this size is part of the batch: each shard has its share of the bytes,
// which its last event may pass if all together stay within the bound. What follows an event that is not
// in the batch is not either, so that what is there is the front of every shard. One event fits in any case.
func (f *found) fits(shard int16, size int64) bool {
	if f.count[shard] >= f.perShard {
		f.cut[shard] = true
		f.over++
		return false
	}
	if f.cut[shard] || len(f.events) > 0 && (f.of[shard] >= f.share || f.total+size > f.bytes) {
		f.cut[shard] = true
		return false
	}
	f.count[shard]++
	f.of[shard] += size
	f.total += size
	return true
}

// complete reads what the events need beside their rows.
func (c *claim) complete(ctx context.Context, f *found) error {
	if len(f.large) > 0 {
		if err := c.readLarge(ctx, f); err != nil {
			return fmt.Errorf("read large events: %w", err)
		}
	}
	if len(f.special) > 0 {
		if err := c.readDetails(ctx, f); err != nil {
			return fmt.Errorf("read details of events: %w", err)
		}
	}
	return nil
}

func (f *found) byID() map[int64]*outbox.Event {
	events := make(map[int64]*outbox.Event, len(f.events))
	for i := range f.events {
		events[f.events[i].ID] = &f.events[i]
	}
	return events
}

func (c *claim) readLarge(ctx context.Context, f *found) error {
	rows, err := c.conn.Query(ctx, readLarge, f.large)
	if err != nil {
		return err
	}
	events := f.byID()
	var id int64
	var key, payload []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &key, &payload}, func() error {
		events[id].Key, events[id].Payload = key, payload
		key, payload = nil, nil
		return nil
	})
	return err
}

func (c *claim) readDetails(ctx context.Context, f *found) error {
	rows, err := c.conn.Query(ctx, readDetails, f.special)
	if err != nil {
		return err
	}
	defer rows.Close()
	events := f.byID()
	for rows.Next() {
		var d outbox.Event
		var first, last *time.Time
		var task *uuid.UUID
		if err := rows.Scan(&d.ID, &d.Attempts, &d.MaxAttempts, &d.Episode, &d.CreatedAt, &d.Delayed, &first, &last,
			&d.LastErrorClass, &d.LastErrorCode, &d.LastError, &task); err != nil {
			return err
		}
		e := events[d.ID]
		e.Attempts, e.MaxAttempts, e.Episode, e.CreatedAt, e.Delayed = d.Attempts, d.MaxAttempts, d.Episode, d.CreatedAt, d.Delayed
		e.LastErrorClass, e.LastErrorCode, e.LastError = d.LastErrorClass, d.LastErrorCode, d.LastError
		if first != nil {
			e.FirstErrorAt = *first
		}
		if last != nil {
			e.LastErrorAt = *last
		}
		if task != nil {
			e.TaskUUID = *task
		}
	}
	return rows.Err()
}
