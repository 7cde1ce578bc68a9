package outbox_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

// The rules of the database and of the relay must be the same: an event that one accepts and the other refuses would
// become a dead letter, or never be written at all.

// accepted runs a statement in a transaction that is rolled back, and reports whether it was accepted.
// Refusals must have one of these codes.
func accepted(t *rapid.T, pool *pgxpool.Pool, codes, sql string, args ...any) bool {
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), sql, args...)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && strings.Contains(codes, pg.Code) {
		return false
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return true
}

func TestTopicRulesAgree(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	agree := func(t *rapid.T, name string) {
		valid := message.ValidTopic(name) == nil && !strings.HasPrefix(name, "__") // which Enqueue refuses as well
		if got := accepted(t, pool, "23514", `insert into postrider.outbox_event (topic) values ($1)`, name); got != valid {
			t.Fatalf("topic %q: the table accepts it: %v, ValidTopic does: %v", name, got, valid)
		}
		if got := accepted(t, pool, "23514", `select postrider.outbox_publish($1, 'k', '1')`, name); got != valid {
			t.Fatalf("topic %q: outbox_publish accepts it: %v, ValidTopic does: %v", name, got, valid)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		agree(t, rapid.OneOf(
			rapid.StringMatching(`[a-zA-Z0-9._-]{1,12}`),
			rapid.StringMatching(`[ -~]{0,6}`),
			rapid.StringMatching(`\.{0,4}`),
			rapid.StringMatching(`_{0,3}[a-z]`),
			rapid.StringMatching(`[a-z.]{1,4}[\n\r\t]?`),
			rapid.StringMatching(`[a-z]{245,253}`),
			rapid.StringMatching(`[a-zäßſK一]{1,4}`),
		).Draw(t, "name"))
	})
	rapid.Check(t, func(t *rapid.T) { agree(t, rapid.StringN(0, 260, -1).Filter(noNUL).Draw(t, "name")) })
}

// TestAvailableAtIsAPointInTime: what waits for ever, and what RFC 3339 cannot say, is refused wherever it is written, by
// a name that says what it is.
func TestAvailableAtIsAPointInTime(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	for at, valid := range map[string]bool{"infinity": false, "-infinity": false, "2026-01-31T12:00:00Z": true, "0044-03-15 BC": false, "20000-01-01": false,
		"294276-12-31": false, "0001-01-01T00:00:00Z": true, "0001-12-31T23:59:59Z BC": false, "9999-12-30T23:59:59.999999Z": true, "9999-12-31T00:00:00Z": false} {
		for _, sql := range []string{`insert into postrider.outbox_event (topic, available_at) values ('t', $1::text::timestamptz)`,
			`select postrider.outbox_publish('t', 'k', '1', available_at => $1::text::timestamptz)`} {
			_, err := pool.Exec(t.Context(), sql, at)
			pg, refused := errors.AsType[*pgconn.PgError](err)
			if (err == nil) != valid || refused && (pg.Code != "23514" || pg.ConstraintName != "outbox_event_available_at_range") {
				t.Errorf("%s of %s: %v", sql, at, err)
			}
		}
	}
}

func noNUL(s string) bool { return !strings.ContainsRune(s, 0) }

// TestHeaderNamesOfPlainInserts: the table refuses names with control characters, and values that are no set of
// headers.
func TestHeaderNamesOfPlainInserts(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringN(0, 4, -1).Filter(noNUL).Draw(t, "name")
		valid := name == "" || message.ValidHeaderName(name) == nil // the table leaves empty ones to the relay
		for _, headers := range []any{map[string]any{name: "x"}, []any{[]any{"a", "x"}, []any{name, "x"}}} {
			if got := accepted(t, pool, "23514", `insert into postrider.outbox_event (topic, headers) values ('t', $1::jsonb)`, headers); got != valid {
				t.Fatalf("headers %q: the table accepts them: %v", headers, got)
			}
		}
	})
	for headers, constraint := range map[string]string{`7`: "outbox_event_headers_shape", `{"a\r\nb": "c"}`: "outbox_event_headers_names"} {
		_, err := pool.Exec(t.Context(), `insert into postrider.outbox_event (topic, headers) values ('t', $1::text::jsonb)`, headers)
		if pg, refused := errors.AsType[*pgconn.PgError](err); !refused || pg.ConstraintName != constraint {
			t.Errorf("headers %s: %v, want %s", headers, err, constraint)
		}
	}
}

func TestHeaderRulesAgree(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	text := rapid.OneOf(
		rapid.StringMatching(`[a-z]{0,3}`),
		rapid.StringMatching(`(postrider|Postrider|POſTRIDER|POSTRIDER)-?[a-z]?`),
		rapid.StringN(0, 4, -1).Filter(noNUL),
	)
	encoded := rapid.Custom(func(t *rapid.T) string {
		s := base64.StdEncoding.EncodeToString(rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "bytes"))
		at := rapid.IntRange(0, len(s)).Draw(t, "where")
		return s[:at] + rapid.SampledFrom([]string{"", "", "\n", " ", "\t", "\r\n", "A", "-", "=", "ü"}).Draw(t, "odd") + s[at:]
	})
	value := rapid.Custom(func(t *rapid.T) any {
		return rapid.OneOf(
			rapid.Map(text, func(s string) any { return s }),
			rapid.Map(encoded, func(s string) any { return map[string]any{"base64": s} }),
			rapid.SampledFrom([]any{nil, 1, true, []any{}, []any{"x"}, map[string]any{}, map[string]any{"base64": 1},
				map[string]any{"base64": nil}, map[string]any{"base64": "", "x": 1}, map[string]any{"x": ""}}),
		).Draw(t, "value")
	})
	headers := rapid.Custom(func(t *rapid.T) any {
		if rapid.Bool().Draw(t, "object") {
			return rapid.MapOfN(text, value, 0, 3).Draw(t, "headers")
		}
		pair := rapid.Custom(func(t *rapid.T) any {
			p := []any{text.Draw(t, "name"), value.Draw(t, "value")}
			switch rapid.IntRange(0, 12).Draw(t, "shape") {
			case 0:
				return p[:1]
			case 1:
				return append(p, "x")
			case 2:
				return []any{1, "x"}
			case 3:
				return "x"
			}
			return p
		})
		return rapid.SliceOfN(pair, 0, 3).Draw(t, "headers")
	})
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(rapid.OneOf(headers, rapid.SampledFrom([]any{nil, "x", 7, false})).Draw(t, "json"))
		if err != nil {
			t.Fatal(err)
		}
		got := accepted(t, pool, "22023", `select postrider.outbox_publish('t', 'k', '1', $1::jsonb)`, string(raw))
		hs, err := message.ParseHeaders(raw)
		want := err == nil
		for _, h := range hs {
			want = want && !message.Reserved(h.Name)
		}
		if got != want {
			t.Fatalf("headers %s: the database accepts them: %v, the relay does: %v (%v)", raw, got, want, err)
		}
	})
}

// TestEnqueueAndRelayAgreeAboutHeaders: whatever Enqueue writes, the relay reads back byte for byte.
func TestEnqueueAndRelayAgreeAboutHeaders(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) message.Header {
			return message.Header{
				Name:  rapid.StringN(1, 5, -1).Filter(func(s string) bool { return message.ValidHeaderName(s) == nil }).Draw(t, "name"),
				Value: rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 6), rapid.Just([]byte(nil))).Draw(t, "value"),
			}
		}), 0, 4).Draw(t, "headers")
		var raw []byte
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			id, err := outbox.Enqueue(t.Context(), tx, outbox.Message{Topic: "t", Headers: want})
			if err != nil {
				return err
			}
			return tx.QueryRow(t.Context(), `delete from postrider.outbox_event where event_id = $1 returning headers`, id).Scan(&raw)
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := message.ParseHeaders(raw)
		if err != nil || len(got) != len(want) {
			t.Fatalf("wrote %q, read %q from %s, %v", want, got, raw, err)
		}
		for i := range want {
			if got[i].Name != want[i].Name || literal(got[i].Value) != literal(want[i].Value) {
				t.Fatalf("wrote %q, read %q from %s", want, got, raw)
			}
		}
	})
}
