package postgres

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
)

var (
	logRead    = query("log_read")
	logDetails = query("log_details")
	logLarge   = query("log_large")
	logLook    = query("log_look")
)

// The values of the column about of log_read.
const (
	aboutDelayed = 1 << iota
	aboutDetails
	aboutTask
	aboutRedrive
	aboutPlaced
	aboutSize // this bit and all above it
)

// columns of log_read.
const (
	readID = iota
	readEventID
	readTopic
	readKey
	readPayload
	readHeaders
	readAbout
)

// inlineBytes is the size from which a key or a payload is read by itself: a page of the largest that is below it is as
// much as a batch may have.
func inlineBytes(q *relay.Question) int32 {
	return int32(max(min(q.Bytes/int64(max(q.Events, 1)), 1<<20), 1<<10))
}

// Read implements relay.Leadership.
func (d *leadership) Read(ctx context.Context, q relay.Question) (page relay.Page, err error) {
	defer d.log.asStoreError(&err, false)
	lowest, highest := make([]int64, len(q.Gaps)), make([]int64, len(q.Gaps))
	for i, r := range q.Gaps {
		lowest[i], highest[i] = r.First, r.Last
	}
	rows, err := d.log.pool.Query(ctx, logRead, lowest, highest, q.Position, q.Events, inlineBytes(&q))
	if err != nil {
		return page, err
	}
	found := logRows{q: &q, expected: d.lastRead}
	if err := found.scan(rows); err != nil {
		return page, err
	}
	d.lastRead = len(found.events)
	if found.drawn >= 0 && found.drawn < q.Position {
		return page, rewound(found.drawn, q.Position)
	}
	if page, err = found.page(); err != nil {
		return page, err
	}
	if len(found.large) > 0 {
		if err := d.readLarge(ctx, &found, &page); err != nil {
			return page, fmt.Errorf("read large events: %w", err)
		}
	}
	if len(found.details) > 0 {
		if err := d.readDetails(ctx, &found, &page); err != nil {
			return page, fmt.Errorf("read details of events: %w", err)
		}
	}
	return page, nil
}

// logRows are the rows of one read.
type logRows struct {
	q        *relay.Question
	expected int // events, as many as the last read had
	snapshot string
	drawn    int64 // the newest id that was drawn; -1 where that is not known
	skips    []byte
	now      time.Time
	events   []relay.Event
	sizes    []int64 // of keys and payloads that are read later; 0 for all others
	details  map[int64]bool
	large    map[int64]bool
	filled   int
}

// placed reads the partition and the timestamp of an event, which stand behind its headers, and returns these.
func placed(place []byte, e *relay.Event) (headers []byte, err error) {
	var parts [3]json.RawMessage
	var at *int64
	if err := json.Unmarshal(place, &parts); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(parts[1], &e.Partition); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(parts[2], &at); err != nil {
		return nil, err
	}
	if at != nil {
		e.Timestamp = time.UnixMicro(*at)
	}
	return parts[0], nil
}

// createdAt is when an event was written, as its id says: a UUID of version 7 begins with that, in milliseconds.
func createdAt(id uuid.UUID) time.Time {
	if id.Version() != 7 {
		return time.Time{}
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
}

func (f *logRows) scan(rows pgx.Rows) error {
	defer rows.Close()
	var bytes arena
	topic := ""
	first := true
	f.details, f.large = map[int64]bool{}, map[int64]bool{}
	for rows.Next() {
		v := rows.RawValues()
		if first {
			first = false
			f.snapshot, f.now = string(v[readTopic]), time.UnixMicro(int64(binary.BigEndian.Uint64(v[readID])))
			f.skips = append(f.skips, v[readPayload]...)
			f.drawn = int64(binary.BigEndian.Uint64(v[readAbout]))
			continue
		}
		id, about := int64(binary.BigEndian.Uint64(v[readID])), int64(0)
		if v[readAbout] != nil {
			about = int64(binary.BigEndian.Uint64(v[readAbout]))
		}
		if string(v[readTopic]) != topic { // mostly that of the event before
			topic = string(v[readTopic])
		}
		if f.events == nil {
			n := min(f.q.Events, max(f.expected*5/4, 64))
			f.events, f.sizes = make([]relay.Event, 0, n), make([]int64, 0, n)
		}
		f.events = append(f.events, relay.Event{})
		e := &f.events[len(f.events)-1]
		e.ID, e.EventID, e.Topic = id, uuid.UUID(v[readEventID]), topic
		e.Key, e.Payload, e.CreatedAt = bytes.copyOf(v[readKey]), bytes.copyOf(v[readPayload]), createdAt(e.EventID)
		e.Delayed, e.OfTask, e.Redriven = about&aboutDelayed != 0, about&aboutTask != 0, about&aboutRedrive != 0
		headers := v[readHeaders]
		if about&aboutPlaced != 0 {
			var err error
			if headers, err = placed(headers, e); err != nil {
				return fmt.Errorf("read where event %d goes: %w", id, err)
			}
		}
		if len(headers) > 2 { // most have none
			e.Headers = bytes.copyOf(headers)
		}
		f.sizes = append(f.sizes, about/aboutSize)
		if about&aboutDetails != 0 {
			f.details[id] = true
		}
		if about/aboutSize > 0 {
			f.large[id] = true
		}
		if id <= f.q.Position {
			f.filled++
		}
	}
	return rows.Err()
}

// page is as much of what was found as fits: gaps alone where there may be more in gaps.
func (f *logRows) page() (page relay.Page, err error) {
	if page.Snapshot, err = parseSnapshot(f.snapshot); err != nil {
		return page, err
	}
	if len(f.skips) > 0 {
		var skips map[string]string
		if err := json.Unmarshal(f.skips, &skips); err != nil {
			return page, fmt.Errorf("read what is to be skipped: %w", err)
		}
		page.Skips = make(map[int64]string, len(skips))
		for id, reason := range skips {
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				return page, fmt.Errorf("read what is to be skipped: %w", err)
			}
			page.Skips[n] = reason
		}
	}
	page.Now = f.now
	events := f.events
	page.Complete = f.filled < f.q.Events
	if !page.Complete {
		events = events[:f.filled]
	}
	page.More = len(f.events)-f.filled >= f.q.Events || !page.Complete
	var bytes int64
	for i := range events {
		if i > 0 && events[i].ID <= events[i-1].ID {
			return page, fmt.Errorf("event %d was read after event %d: the log is not read in order", events[i].ID, events[i-1].ID)
		}
		bytes += int64(len(events[i].Key)+len(events[i].Payload)) + f.sizes[i]
		if i > 0 && bytes > f.q.Bytes {
			if events = events[:i]; i < f.filled {
				f.filled, page.Complete = i, false
			}
			page.More = true
			break
		}
	}
	page.Events, page.Filled = events, min(f.filled, len(events))
	return page, nil
}

func (f *logRows) of(wanted map[int64]bool, page *relay.Page) (ids []int64, byID map[int64]*relay.Event) {
	byID = make(map[int64]*relay.Event, len(wanted))
	for i := range page.Events {
		if e := &page.Events[i]; wanted[e.ID] {
			ids = append(ids, e.ID)
			byID[e.ID] = e
		}
	}
	return ids, byID
}

func (d *leadership) readLarge(ctx context.Context, f *logRows, page *relay.Page) error {
	ids, events := f.of(f.large, page)
	rows, err := d.log.pool.Query(ctx, logLarge, ids)
	if err != nil {
		return err
	}
	var id int64
	var key, payload []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &key, &payload}, func() error {
		events[id].Key, events[id].Payload = key, payload
		key, payload = nil, nil
		return nil
	})
	return err
}

func (d *leadership) readDetails(ctx context.Context, f *logRows, page *relay.Page) error {
	ids, events := f.of(f.details, page)
	rows, err := d.log.pool.Query(ctx, logDetails, ids)
	if err != nil {
		return err
	}
	var id int64
	var attempts int
	var task *uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&id, &attempts, &task}, func() error {
		events[id].MaxAttempts = attempts
		if task != nil {
			events[id].TaskUUID = *task
		}
		return nil
	})
	return err
}

// Look implements relay.Leadership.
func (d *leadership) Look(ctx context.Context) (look relay.Look, err error) {
	defer d.log.asStoreError(&err, false)
	var why string
	var snapshot string
	b := &pgx.Batch{}
	b.Queue(readLastID).QueryRow(func(row pgx.Row) error { return row.Scan(&look.Last, &why) })
	b.Queue("select pg_catalog.pg_current_snapshot()::text").QueryRow(func(row pgx.Row) error { return row.Scan(&snapshot) })
	b.Queue(logLook).Query(func(rows pgx.Rows) error {
		var t relay.Transaction
		var xid int64
		_, err := pgx.ForEachRow(rows, []any{&t.Name, &xid, &t.Prepared}, func() error {
			t.XID = uint64(xid)
			look.Holders = append(look.Holders, t)
			return nil
		})
		return err
	})
	if err := d.log.pool.Send(ctx, b); err != nil {
		return look, err
	}
	s, err := parseSnapshot(snapshot)
	if err != nil {
		return look, err
	}
	for i := range look.Holders {
		if t := &look.Holders[i]; t.XID != 0 {
			t.XID = fullXID(uint32(t.XID), s.Max)
		}
	}
	if why != "" {
		look.Unknown = stall(why)
	}
	return look, nil
}

// arena keeps many small byte strings in few large ones.
type arena struct{ chunk []byte }

const chunkBytes = 64 << 10

// copyOf copies b; nil stays nil, and empty is not nil.
func (a *arena) copyOf(b []byte) []byte {
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
