package postgres

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// rows are all versions of a table's rows, by a number of each.
func (f *fixture) rows(table, number string) []string {
	f.Helper()
	return pgtest.Column[string](f, f.pool, fmt.Sprintf(`select concat_ws(' ', %s, xmin, ctid) from postrider.%s order by %s`, number, table, number))
}

// TestRule1RowsAreOnlyInserted: whatever becomes of events, no row of the log and no receipt is written twice.
func TestRule1RowsAreOnlyInserted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := &memory{}
	b.refuse(relay.Record, values("t", "bad"))
	f.writes("t", "k", "one", "bad", "three")
	f.writes("t", "other", "bad")
	before := f.rows("outbox_event", "id")
	stop := f.run(b, halting, nil)
	f.state(2, relay.DeadLettered)
	f.state(4, relay.DeadLettered)
	receipts := f.rows("outbox_receipt", "number")
	b.mend()
	f.redrive(2)
	f.done(f.tryReleaseKey(4))
	f.waitFor(`select not exists (select from postrider.outbox_hold)`)
	f.state(2, relay.Published)
	stop()
	if after := f.rows("outbox_event", "id"); strings.Join(after, ", ") != strings.Join(before, ", ") {
		t.Errorf("the rows were %v and are %v", before, after)
	}
	if after := f.rows("outbox_receipt", "number"); len(after) <= len(receipts) || strings.Join(after[:len(receipts)], ", ") != strings.Join(receipts, ", ") {
		t.Errorf("the receipts were %v and are %v", receipts, after)
	}
	if got := b.arrived("t", "k"); got != "one bad three" {
		t.Errorf("arrived %s", got)
	}
}

// tryReleaseKey releases the key that an event halts.
func (f *fixture) tryReleaseKey(id int64) error {
	_, err := f.tryRelease(value[int64](f, `select h.hold_id from postrider.outbox_hold h join postrider.outbox_exception x using (event_id) where x.id = $1`, id))
	return err
}

// TestRule1NobodyMayChangeTheLog: neither the relay nor writers have the right to, nor to say what an id is.
func TestRule1NobodyMayChangeTheLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a")
	for role, statements := range map[string][]string{
		"postrider_relay": {
			`update postrider.outbox_event set payload = 'x'`, `delete from postrider.outbox_event`, `truncate postrider.outbox_event`,
			`insert into postrider.outbox_event (topic) values ('t')`, `update postrider.outbox_receipt set position = 7`, `delete from postrider.outbox_receipt`,
			`select setval('postrider.outbox_event_id_seq', 1)`,
		},
		"postrider_writer": {
			`update postrider.outbox_event set payload = 'x'`, `delete from postrider.outbox_event`, `select from postrider.outbox_event`,
			`insert into postrider.outbox_event (id, topic) overriding system value values (7, 't')`, `insert into postrider.outbox_event (event_id, topic) values (gen_random_uuid(), 't')`,
			`insert into postrider.outbox_event (kind, topic) values ('task', 't')`, `insert into postrider.outbox_event (created_at, topic) values (now(), 't')`,
			`select nextval('postrider.outbox_event_id_seq')`, `select setval('postrider.outbox_event_id_seq', 1)`, `insert into postrider.outbox_receipt (number, term, position) values (9, 9, 9)`,
		},
		"postrider_operator": {
			`update postrider.outbox_event set payload = 'x'`, `delete from postrider.outbox_event`, `insert into postrider.outbox_event (topic) values ('t')`,
			`update postrider.outbox_exception set attempts = 0`, `delete from postrider.outbox_hold`, `update postrider.outbox_receipt set position = 7`,
		},
	} {
		s := f.as(role)
		for _, sql := range statements {
			if _, err := s.pool.Exec(t.Context(), sql); !denied(err) {
				t.Errorf("%s: %s: %v, want that the right is lacking", role, sql, err)
			}
		}
	}
}

// TestRule2NumbersFence: a receipt that another has written already is refused, and nothing of the settlement stays.
func TestRule2NumbersFence(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b")
	d := f.leader()
	f.exec(`insert into postrider.outbox_receipt (number, term, position, gaps) values ($1, 99, 0, '{}')`, d.number+1)
	h := f.keyHold("a", time.Hour)
	err := d.Settle(t.Context(), []*relay.Receipt{{Position: 2, Events: relay.Ranges{{First: 1, Last: 2}}, Holds: []relay.HoldChange{h}, Exceptions: withEvents(f, parked(h.ID, 1))}})
	f.fails(err, relay.ErrNotLeading)
	if f.holds() != 0 || value[int](f, `select count(*) from postrider.outbox_exception`) != 0 {
		t.Error("something of the refused settlement stays")
	}
	if got := f.progress(); got != "2 99 0 {}" {
		t.Errorf("progress is %s", got)
	}
	// A settlement whose outcome is not known ends the term in the same way.
	f.letGo(d)
	f.fails(d.Settle(t.Context(), []*relay.Receipt{{Position: 2}}), relay.ErrNotLeading)
}

// withEvents fills in what the relay knows of the events.
func withEvents(f *fixture, xs []relay.Exception) []relay.Exception {
	f.Helper()
	for i := range xs {
		xs[i].EventID, xs[i].Topic = eventID(f, xs[i].ID), "t"
	}
	return xs
}

// TestRule2EachTermBeginsWithAReceipt: and ends with one, where it hands over. Each number is one more than the last.
func TestRule2EachTermBeginsWithAReceipt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.insert("a", "b")
	one := f.lead()
	if b := one.Began(); b.Number != 1 || b.Term != 1 || b.Position != 0 || len(b.Gaps)+len(b.Holds)+b.Deaths != 0 {
		t.Errorf("the first term began as %+v", b)
	}
	f.settle(one, &relay.Receipt{Position: 2, Events: relay.Ranges{{First: 1, Last: 2}}, Gaps: relay.Ranges{}})
	one.End(t.Context())
	two := f.lead()
	if b := two.Began(); b.Number != 4 || b.Term != 2 || b.Position != 2 || b.Deaths != 0 {
		t.Errorf("the second term began as %+v", b)
	}
	got := pgtest.Column[string](t, f.pool, `select concat_ws(' ', number, term, position, events, note, worker) from postrider.outbox_receipt order by number`)
	want := []string{"0 0 0 {}", "1 1 0 {} began host:1:aaaa", "2 1 2 {[1,3)}", "3 1 2 {} ended", "4 2 2 {} began host:1:aaaa"}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("the receipts are\n%v, want\n%v", got, want)
	}
}

// TestRule3GapsFollowFromReceipts: gaps that are not written down follow from the last receipt that has them, whatever came
// after: moves, gaps that were filled or forgotten, exceptions that went, terms that began and ended.
func TestRule3GapsFollowFromReceipts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			r := rand.New(rand.NewPCG(seed, 7))
			f.exec(`select setval('postrider.outbox_event_id_seq', 1000000)`)
			d := f.lead()
			var gaps relay.Ranges
			position := int64(0)
			check := func(when string) {
				t.Helper()
				got, err := parseRanges(value[string](f, `select gaps::text from postrider.outbox_progress`))
				f.done(err)
				if rangesText(got) != rangesText(gaps) || value[int64](f, `select position from postrider.outbox_progress`) != position {
					t.Fatalf("%s: the gaps are %s, want %s", when, rangesText(got), rangesText(gaps))
				}
			}
			some := func(of relay.Ranges) (out relay.Ranges) {
				for _, g := range of {
					if r.IntN(4) == 0 {
						first := g.First + r.Int64N(g.Len())
						out = out.Union(relay.Ranges{{First: first, Last: first + r.Int64N(g.Last-first+1)}})
					}
				}
				return out
			}
			for step := range 60 {
				rs := make([]*relay.Receipt, 1+r.IntN(3))
				for i := range rs {
					filled := some(gaps)
					forgotten := some(gaps.Minus(filled))
					gaps = gaps.Minus(filled).Minus(forgotten)
					rs[i] = &relay.Receipt{Events: filled, Forgotten: forgotten}
					for range r.IntN(20) {
						skip, n := r.Int64N(4), 1+r.Int64N(9)
						if skip > 0 {
							gaps = gaps.Union(relay.Ranges{{First: position + 1, Last: position + skip}})
						}
						rs[i].Events = rs[i].Events.Union(relay.Ranges{{First: position + skip + 1, Last: position + skip + n}})
						position += skip + n
					}
					rs[i].Position = position
					if r.IntN(6) == 0 {
						rs[i].Gaps = append(relay.Ranges{}, gaps...)
					}
				}
				f.settle(d, rs...)
				check(fmt.Sprintf("step %d", step))
				switch r.IntN(20) {
				case 0:
					d.End(t.Context())
					check("ended")
				case 1:
					f.letGo(d)
				default:
					continue
				}
				d = f.lead()
				check("began")
				if got := d.Began(); rangesText(got.Gaps) != rangesText(gaps) || got.Position != position {
					t.Fatalf("the term began with %s at %d, want %s at %d", rangesText(got.Gaps), got.Position, rangesText(gaps), position)
				}
			}
		})
	}
}

// TestRule3RangesAreReadAsWritten: what Go writes PostgreSQL reads, and the other way.
func TestRule3RangesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, rs := range []relay.Ranges{nil, {{First: 1, Last: 1}}, {{First: 1, Last: 2}, {First: 4, Last: 9}}, {{First: 1 << 40, Last: 1<<63 - 2}}} {
		var text string
		f.done(f.pool.QueryRow(t.Context(), `select $1::text::int8multirange::text`, rangesText(rs)).Scan(&text))
		if got, err := parseRanges(text); err != nil || text != rangesText(rs) || rangesText(got) != rangesText(rs) {
			t.Errorf("%v is %s and comes back as %v, %v", rs, text, got, err)
		}
	}
	if _, err := parseRanges("{[x,2)}"); err == nil {
		t.Error("nonsense is read")
	}
}
