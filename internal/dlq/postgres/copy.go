package postgres

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// copyIn runs a COPY … FROM STDIN in binary format of one row per item. Nothing is inserted faster: the server fills a
// page at a time, and rows are made while it inserts the rows before.
func copyIn[T any](ctx context.Context, tx pgx.Tx, sql string, items []T, write func(*row, T)) error {
	_, err := tx.Conn().PgConn().CopyFrom(ctx, &copyReader[T]{items: items, write: write, made: row{bytes: copyHeader()}}, sql)
	return err
}

// copyHeader begins what a binary COPY reads: its signature, no flags, and no extension. See "Binary Format" on
// PostgreSQL's page about COPY.
func copyHeader() []byte { return append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...) }

// copyBytes is how many bytes of rows are made at once, at least. So the memory holds little more than one row.
const copyBytes = 64 << 10

// copyReader makes the rows of a COPY as they are read.
type copyReader[T any] struct {
	items []T
	write func(*row, T)
	made  row // and the part of it before read was handed out
	read  int
	ended bool
}

func (c *copyReader[T]) Read(p []byte) (int, error) {
	if c.read == len(c.made.bytes) && !c.more() {
		return 0, io.EOF
	}
	n := copy(p, c.made.bytes[c.read:])
	c.read += n
	return n, nil
}

// more makes the next rows, or the end behind the last one. It returns false behind that.
func (c *copyReader[T]) more() bool {
	if c.ended {
		return false
	}
	c.made.bytes, c.read = c.made.bytes[:0], 0
	for len(c.items) > 0 && len(c.made.bytes) < copyBytes {
		begin := len(c.made.bytes)
		c.made.bytes = append(c.made.bytes, 0, 0)
		c.made.fields = 0
		c.write(&c.made, c.items[0])
		binary.BigEndian.PutUint16(c.made.bytes[begin:], c.made.fields)
		c.items = c.items[1:]
	}
	if len(c.made.bytes) == 0 {
		c.made.bytes, c.ended = append(c.made.bytes, 0xff, 0xff), true
	}
	return true
}

// row writes the fields of rows, each as its type's receive function reads it.
type row struct {
	bytes  []byte
	fields uint16
}

func (r *row) begin(size int) {
	r.fields++
	r.bytes = binary.BigEndian.AppendUint32(r.bytes, uint32(size))
}

func (r *row) null() {
	r.fields++
	r.bytes = append(r.bytes, 0xff, 0xff, 0xff, 0xff)
}

// text writes a text, or the label of an enum.
func (r *row) text(s string) {
	r.begin(len(s))
	r.bytes = append(r.bytes, s...)
}

// optional writes a text, null where it is empty.
func (r *row) optional(s string) {
	if s == "" {
		r.null()
		return
	}
	r.text(s)
}

// data writes a bytea, null where it is nil.
func (r *row) data(b []byte) {
	if b == nil {
		r.null()
		return
	}
	r.begin(len(b))
	r.bytes = append(r.bytes, b...)
}

// json writes a jsonb, null where there is none.
func (r *row) json(b []byte) {
	if len(b) == 0 {
		r.null()
		return
	}
	r.begin(1 + len(b))
	r.bytes = append(append(r.bytes, 1), b...) // the version of the format
}

func (r *row) int4(n *int32) {
	if n == nil {
		r.null()
		return
	}
	r.begin(4)
	r.bytes = binary.BigEndian.AppendUint32(r.bytes, uint32(*n))
}

// bool writes a boolean, null where there is none.
func (r *row) bool(b *bool) {
	if b == nil {
		r.null()
		return
	}
	r.begin(1)
	if *b {
		r.bytes = append(r.bytes, 1)
	} else {
		r.bytes = append(r.bytes, 0)
	}
}

func (r *row) int8(n *int64) {
	if n == nil {
		r.null()
		return
	}
	r.begin(8)
	r.bytes = binary.BigEndian.AppendUint64(r.bytes, uint64(*n))
}

// uuid writes a uuid, null where it is uuid.Nil.
func (r *row) uuid(id uuid.UUID) {
	if id == uuid.Nil {
		r.null()
		return
	}
	r.begin(len(id))
	r.bytes = append(r.bytes, id[:]...)
}

// time writes a timestamptz, null where it is zero. The server refuses times out of its range: the ends of the
// numbers, which are infinity there, are not written.
func (r *row) time(t time.Time) {
	if t.IsZero() {
		r.null()
		return
	}
	const y2k, perSecond = 946_684_800, 1_000_000 // it counts microseconds from there
	seconds := t.Unix() - y2k
	micros := seconds*perSecond + int64(t.Nanosecond())/1000
	if limit := int64(math.MaxInt64/perSecond - 1); seconds > limit {
		micros = math.MaxInt64 - 1
	} else if seconds < -limit {
		micros = math.MinInt64 + 1
	}
	n := micros
	r.int8(&n)
}
