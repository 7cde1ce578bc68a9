package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// copied is a row of every type that is copied.
type copied struct {
	Text, Optional, Label string
	Data                  []byte
	JSON                  []byte
	Int4                  *int32
	Int8                  *int64
	UUID                  uuid.UUID
	Time                  time.Time
}

func (c copied) write(r *row) {
	r.text(c.Text)
	r.optional(c.Optional)
	r.text(c.Label)
	r.data(c.Data)
	r.json(c.JSON)
	r.int4(c.Int4)
	r.int8(c.Int8)
	r.uuid(c.UUID)
	r.time(c.Time)
}

const copiedTable = `create temp table copied (place int generated always as identity, a text not null, b text, c postrider.dlq_reason not null,
	d bytea, e jsonb, f integer, g bigint, h uuid, i timestamptz)`

const copyCopied = `copy copied (a, b, c, d, e, f, g, h, i) from stdin (format binary)`

// TestCopyIn copies rows in, and reads with the driver's own codecs what arrived.
func TestCopyIn(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	if _, err := conn.Exec(t.Context(), copiedTable); err != nil {
		t.Fatal(err)
	}
	pointer := func(t *rapid.T, name string, low, high int64) *int64 {
		return rapid.Ptr(rapid.Int64Range(low, high), true).Draw(t, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) copied {
			c := copied{
				Text: rapid.String().Filter(func(s string) bool { return !strings.ContainsRune(s, 0) && utf8.ValidString(s) }).Draw(t, "text"), Optional: rapid.SampledFrom([]string{"", "x", "ä\n\t\\N"}).Draw(t, "optional"),
				Label: string(rapid.SampledFrom([]dlq.Reason{dlq.Unclassified, dlq.ManualDLQ}).Draw(t, "label")),
				Data:  rapid.SampledFrom([][]byte{nil, {}, {0, 0xff}, bytes.Repeat([]byte{1}, copyBytes+1)}).Draw(t, "data"),
				JSON:  rapid.SampledFrom([][]byte{nil, []byte(`{"a": [1, "\u00e4"]}`), []byte(`""`)}).Draw(t, "json"),
				Int8:  pointer(t, "int8", math.MinInt64, math.MaxInt64),
				UUID:  rapid.SampledFrom([]uuid.UUID{uuid.Nil, newUUID()}).Draw(t, "uuid"),
			}
			if n := pointer(t, "int4", math.MinInt32, math.MaxInt32); n != nil {
				short := int32(*n)
				c.Int4 = &short
			}
			if n := pointer(t, "time", -200_000_000_000, 253_402_300_799); n != nil {
				c.Time = time.Unix(*n, rapid.Int64Range(0, 999_999).Draw(t, "micros")*1000).UTC()
			}
			return c
		}), 0, 20).Draw(t, "rows")
		got, err := copyAndRead(conn, want)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d rows of %d", len(got), len(want))
		}
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("row %d\n got %.500v\nwant %.500v", i, got[i], want[i])
			}
		}
	})
}

func copyAndRead(conn *pgx.Conn, rows []copied) (got []copied, err error) {
	ctx := context.Background()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if err := copyIn(ctx, tx, copyCopied, rows, func(r *row, c copied) { c.write(r) }); err != nil {
		return nil, err
	}
	read, err := tx.Query(ctx, `select a, coalesce(b, ''), c::text, d, e::text, f, g, h, i from copied order by place`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(read, func(r pgx.CollectableRow) (c copied, err error) {
		var id *uuid.UUID
		var at *time.Time
		var text *string
		err = r.Scan(&c.Text, &c.Optional, &c.Label, &c.Data, &text, &c.Int4, &c.Int8, &id, &at)
		if id != nil {
			c.UUID = *id
		}
		if at != nil {
			c.Time = at.UTC()
		}
		if text != nil {
			c.JSON = bytes.ReplaceAll([]byte(*text), []byte("ä"), []byte(`\u00e4`))
		}
		return c, err
	})
}

// TestCopyRefusesTimes: no time becomes infinity, or another one.
func TestCopyRefusesTimes(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	if _, err := conn.Exec(t.Context(), copiedTable); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{time.Unix(math.MaxInt64/1_000_000+946_684_800, 0), time.Unix(math.MaxInt64/1000, 0), time.Unix(math.MinInt64/1000, 0),
		time.Date(294277, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		_, err := copyAndRead(conn, []copied{{Label: string(dlq.ManualDLQ), Time: at}})
		if err = translate("copy", err); !errors.Is(err, dlq.ErrLetter) {
			t.Errorf("%v: error %v, want one that wraps ErrLetter", at, err)
		}
	}
	// The connection goes on after the refused rows.
	last := copied{Label: string(dlq.ManualDLQ), Time: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
	if got, err := copyAndRead(conn, []copied{last}); err != nil || !reflect.DeepEqual(got, []copied{last}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestCopyReader: rows are the same in any portions, and only a few are in memory.
func TestCopyReader(t *testing.T) {
	t.Parallel()
	const rows = 50
	items := make([]int, rows)
	made, most := 0, 0
	reader := func() *copyReader[int] {
		return &copyReader[int]{items: items, made: row{bytes: copyHeader()}, write: func(r *row, _ int) {
			made++
			r.data(bytes.Repeat([]byte{7}, 10_000))
			r.null()
		}}
	}
	whole, err := io.ReadAll(reader())
	if want := 19 + rows*(2+4+10_000+4) + 2; err != nil || len(whole) != want {
		t.Fatalf("%d bytes, %v; want %d", len(whole), err, want)
	}
	slow, err := io.ReadAll(iotest.OneByteReader(reader()))
	if err != nil || !bytes.Equal(slow, whole) {
		t.Errorf("byte by byte: %d other bytes, %v", len(slow), err)
	}
	r, p := reader(), make([]byte, 100)
	made = 0
	for at := 0; ; {
		n, err := r.Read(p)
		if err == io.EOF {
			break
		}
		at += n
		most = max(most, made-at/10_010)
	}
	if most > copyBytes/10_000+2 {
		t.Errorf("%d rows were made ahead", most)
	}
}

// TestLettersThatAreRefusedLeaveTheConnection: a row that a COPY refuses in its middle spoils neither the connection nor
// the letters that come after.
func TestLettersThatAreRefusedLeaveTheConnection(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	var letters []dlq.Letter
	for n := range 300 {
		letters = append(letters, dlq.Decode(dlqtest.Event(n, 1)))
	}
	for _, spoil := range []func(*dlq.Letter){
		func(l *dlq.Letter) { l.Dialect = "\x00" },
		func(l *dlq.Letter) { l.ErrorMessage = "\xff" },
		func(l *dlq.Letter) { l.Metadata = []byte(`{"a":"\u0000"}`) },
	} {
		bad := append([]dlq.Letter(nil), letters...)
		spoil(&bad[150])
		if _, err := s.RecordLetters(t.Context(), bad); !errors.Is(err, dlq.ErrLetter) {
			t.Errorf("error %v does not wrap ErrLetter", err)
		}
	}
	if recorded, err := s.RecordLetters(t.Context(), letters); err != nil || recorded != (dlq.Recorded{New: 300, Opened: 300}) {
		t.Errorf("%+v, %v", recorded, err)
	}
	if n := s.pool.Stat().NewConnsCount(); n != 1 {
		t.Errorf("%d connections were opened", n)
	}
}
