package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	relaypostgres "github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// subject is a Store with what people see of it, and with what an operator does straight on its tables.
type subject struct {
	*Store
	pool *pgxpool.Pool
	// investigations have an audit log of their own, which no test reads.
	investigations *Investigations
}

// list returns a page as people see it, and how many there are on all pages.
func (s subject) list(ctx context.Context, f dlq.Filter) ([]dlq.Entry, int, error) {
	page, err := s.investigations.Find(ctx, dlq.Search{Filter: f})
	return page.Entries, int(page.Total), err
}

// letters returns the letters of an investigation, the newest one whole.
func (s subject) letters(ctx context.Context, entry uuid.UUID) ([]dlq.Letter, error) {
	detail, err := s.investigations.Show(ctx, entry)
	if err != nil {
		return nil, err
	}
	detail.Letters[0], err = s.investigations.Reveal(ctx, dlq.RevealRequest{Entry: entry, Actor: "test"})
	return detail.Letters, err
}

func (s subject) Resolve(ctx context.Context, entry uuid.UUID) error {
	_, err := s.pool.Exec(ctx, `update postrider.dlq_entry
		set resolution_status = 'manually_resolved', resolution_timestamp = now() where dlq_entry_uuid = $1`, entry)
	return err
}

func (s subject) Purge(ctx context.Context, entry uuid.UUID) error {
	_, err := s.pool.Exec(ctx, `delete from postrider.dlq_entry where dlq_entry_uuid = $1`, entry)
	return err
}

func newSubject(t *testing.T) subject {
	t.Helper()
	return subjectOn(t, pgtest.New(t).Pool(t))
}

func subjectOn(t *testing.T, pool *pgxpool.Pool) subject {
	t.Helper()
	store, err := NewStore(Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	investigations, err := NewInvestigations(RedriverConfig{Pool: pool, Auditor: &auditor{}, Exceptions: exceptions{relaypostgres.NewStore(pool, relaypostgres.StoreOptions{})}})
	if err != nil {
		t.Fatal(err)
	}
	return subject{store, pool, investigations}
}

func TestStore(t *testing.T) {
	t.Parallel()
	dlqtest.Suite(t, func(t *testing.T) (dlq.Letters, dlq.Investigations) {
		s := newSubject(t)
		return s.Store, s.investigations
	})
}

func TestNewStore(t *testing.T) {
	t.Parallel()
	if _, err := NewStore(Config{}); err == nil {
		t.Error("a store without a pool")
	}
	if _, err := NewStore(Config{Pool: new(pgxpool.Pool), Timeout: -1}); err == nil {
		t.Error("a store with a negative timeout")
	}
}

// TestNastyLetters stores what Decode makes of records that were made to break text, JSON and numbers.
func TestNastyLetters(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	texts := []string{"\x00", "\xff\xfe", "\u0000", strings.Repeat("\xff", 10_000), strings.Repeat("ä", 10_000), "'; drop table dlq_letter; --", "\u202e", "{}", "{NULL,\"x\"}"}
	values := [][]byte{
		[]byte(`"\u0000"`), []byte(`{"\u0000":1}`), []byte(`"\ud800"`), []byte(`["\ud83d\ude00"]`), []byte(`"\ude00\ud83d"`),
		[]byte(`1e400`), []byte(`1e401`), []byte(`-1E-99999`), []byte(`1e131072`), []byte(`[1e16384]`), bytes.Repeat([]byte("9"), 60_000),
		[]byte("0." + strings.Repeat("1", 20_000)), bytes.Repeat([]byte("["), 9_000), []byte(strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)),
		[]byte(strings.Repeat(`{"a":`, 5_000) + "1" + strings.Repeat("}", 5_000)), bytes.Repeat([]byte{0xff}, 200_000), []byte("\"" + strings.Repeat("é", 100_000) + "\""),
		[]byte(`{"a":1,"a":2}`), {}, nil, []byte(" null "),
	}
	var letters []dlq.Letter
	for i, text := range texts {
		r := dlqtest.Event(i, 1)
		r.Headers = append(r.Headers, message.Header{Name: text, Value: []byte(text)})
		for j := range r.Headers {
			if name := r.Headers[j].Name; name == message.HeaderErrorMessage || name == message.HeaderErrorCode || name == message.HeaderErrorClass {
				r.Headers[j].Value = []byte(text)
			}
		}
		letters = append(letters, dlq.Decode(r))
		letters = append(letters, dlq.Decode(dlq.Record{Topic: "dlq-" + text, Partition: 1, Offset: int64(i), Key: []byte(text), Headers: r.Headers}))
	}
	for i, v := range values {
		letters = append(letters, dlq.Decode(dlq.Record{Topic: "dlq", Partition: -1, Offset: int64(i), Timestamp: time.UnixMilli(1 << 60), Key: v, Value: v,
			Headers: []message.Header{{Name: "h", Value: v}}}))
	}
	recorded, err := s.RecordLetters(t.Context(), letters)
	if err != nil {
		t.Fatal(err)
	}
	if recorded.New != len(letters) {
		t.Errorf("recorded %+v of %d", recorded, len(letters))
	}
	entries, _, err := s.list(t.Context(), dlq.Filter{Limit: dlq.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := s.letters(t.Context(), e.UUID); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusedLetters(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	for name, spoil := range map[string]func(*dlq.Letter){
		"NUL in text":       func(l *dlq.Letter) { l.ErrorMessage = "\x00" },
		"no UTF-8":          func(l *dlq.Letter) { l.ConsumerGroup = "\xff" },
		"long id":           func(l *dlq.Letter) { l.ID = strings.Repeat("x", 1025) },
		"other kind":        func(l *dlq.Letter) { l.PayloadKind = "zip" },
		"other reason":      func(l *dlq.Letter) { l.Reason = "bad mood" },
		"other subject":     func(l *dlq.Letter) { l.Subject.Type = "thing" },
		"time out of range": func(l *dlq.Letter) { l.FirstFailedAt = time.Date(294277, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good, bad := dlq.Decode(dlqtest.Event(100, 1)), dlq.Decode(dlqtest.Event(200, 1))
			spoil(&bad)
			_, err := s.RecordLetters(t.Context(), []dlq.Letter{good, bad})
			if !errors.Is(err, dlq.ErrLetter) {
				t.Errorf("error %v does not wrap ErrLetter", err)
			}
			if _, total, err := s.list(t.Context(), dlq.Filter{}); err != nil || total != 0 {
				t.Errorf("%d investigations, %v: half of a batch was stored", total, err)
			}
			// The form that the collector falls back to goes through, whatever was wrong with the text.
			if reduced := dlq.Unstorable(bad, err); len(reduced.ID) <= 1024 && reduced.PayloadKind != "zip" && reduced.Subject.Type != "thing" {
				if _, err := newSubject(t).RecordLetters(t.Context(), []dlq.Letter{reduced}); err != nil {
					t.Errorf("reduced form: %v", err)
				}
			}
		})
	}
}

func TestPassingFaults(t *testing.T) {
	t.Parallel()
	letters := dlqtest.Letters(dlqtest.Event(1, 1))
	t.Run("no server", func(t *testing.T) {
		t.Parallel()
		pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none?connect_timeout=1")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		s := subjectOn(t, pool)
		checkPassing(t, s.Store, letters)
		if _, _, err := s.list(t.Context(), dlq.Filter{}); err == nil {
			t.Error("a list without a server")
		}
		if _, err := s.investigations.Show(t.Context(), uuid.New()); err == nil || errors.Is(err, dlq.ErrNotFound) {
			t.Errorf("get without a server: %v", err)
		}
	})
	t.Run("no schema", func(t *testing.T) {
		t.Parallel()
		s, err := NewStore(Config{Pool: pgtest.NewEmpty(t).Pool(t)})
		if err != nil {
			t.Fatal(err)
		}
		checkPassing(t, s, letters)
	})
	t.Run("locked", func(t *testing.T) {
		t.Parallel()
		s := newSubject(t)
		s.timeout = 200 * time.Millisecond
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "lock table postrider.dlq_letter"); err != nil {
			t.Fatal(err)
		}
		checkPassing(t, s.Store, letters)
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.timeout = DefaultTimeout
		if recorded, err := s.RecordLetters(t.Context(), letters); err != nil || recorded.New != 1 {
			t.Errorf("afterwards: %+v, %v", recorded, err)
		}
	})
}

func checkPassing(t *testing.T, s *Store, letters []dlq.Letter) {
	t.Helper()
	if _, err := s.RecordLetters(t.Context(), letters); err == nil || errors.Is(err, dlq.ErrLetter) {
		t.Errorf("error %v, want a passing one", err)
	}
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	for _, f := range []dlq.Filter{{Status: "open"}, {Reason: "bad mood"}, {Limit: -1}, {Limit: dlq.MaxLimit + 1}, {Offset: -1}} {
		if _, _, err := s.list(t.Context(), f); err == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}

// TestLargeLetters stores more in one call than one statement carries.
func TestLargeLetters(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	var records []dlq.Record
	for n := range 5 {
		r := dlqtest.Event(n, 1)
		r.Value = bytes.Repeat([]byte{byte(n)}, 8<<20)
		for i := range r.Headers {
			if r.Headers[i].Name == message.HeaderPayloadBytes {
				r.Headers[i].Value = fmt.Append(nil, 8<<20)
			}
		}
		records = append(records, r)
	}
	recorded, err := s.RecordLetters(t.Context(), dlqtest.Letters(records...))
	if err != nil || recorded != (dlq.Recorded{New: 5, Opened: 5}) {
		t.Fatalf("%+v, %v", recorded, err)
	}
	var bytes int64
	if err := s.pool.QueryRow(t.Context(), "select sum(octet_length(payload)) from postrider.dlq_letter").Scan(&bytes); err != nil || bytes != 5*8<<20 {
		t.Errorf("%d bytes, %v", bytes, err)
	}
	entries, _, err := s.list(t.Context(), dlq.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	detail, err := s.investigations.Show(t.Context(), entries[0].UUID)
	if l := detail.Letters[0]; err != nil || l.Payload != nil || l.PayloadKind != dlq.Inline || *l.PayloadBytes != 8<<20 {
		t.Errorf("a payload is not left out: %d bytes, %v", len(l.Payload), err)
	}
}

// TestResolvedWhileRecording closes an investigation while a collector waits to add to it: the letter
// opens the next one, which knows the one before.
func TestResolvedWhileRecording(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	ctx := t.Context()
	if _, err := s.RecordLetters(ctx, dlqtest.Letters(dlqtest.Event(1, 1))); err != nil {
		t.Fatal(err)
	}
	entries, _, err := s.list(ctx, dlq.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now()`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.RecordLetters(ctx, dlqtest.Letters(dlqtest.Event(1, 2)))
		done <- err
	}()
	untilWaiting(t, s.pool)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	pending, _, err := s.list(ctx, dlq.Filter{Status: dlq.Pending})
	if err != nil || len(pending) != 1 || pending[0].PredecessorUUID != entries[0].UUID {
		t.Errorf("pending %+v, %v, want one after %s", pending, err, entries[0].UUID)
	}
}

// untilWaiting returns when a session waits for a lock.
func untilWaiting(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		var waiting bool
		err := pool.QueryRow(t.Context(), `select exists (select from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		if waiting {
			return
		}
	}
}
