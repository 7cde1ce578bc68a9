package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	relaypostgres "github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/message"
)

// auditor remembers what it was told, and refuses when it is told to.
type auditor struct {
	mu      sync.Mutex
	actions []string
	refuse  error
}

func (a *auditor) Audit(_ context.Context, _ pgx.Tx, _, action, targetType, targetID string, _ []string, _ any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.actions = append(a.actions, action+" "+targetType+" "+targetID)
	return a.refuse
}

// exceptions is the relay's store, with the error that this room knows.
type exceptions struct{ *relaypostgres.Store }

func (k exceptions) RedriveInPlace(ctx context.Context, tx pgx.Tx, id int64) error {
	err := k.Store.RedriveInPlace(ctx, tx, id)
	if errors.Is(err, relaypostgres.ErrBusy) {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}

// redriving is a store with investigations of dead-lettered events, and a redriver.
type redriving struct {
	subject
	*Redriver
	audit *auditor
	t     *testing.T
}

func newRedriving(t *testing.T) *redriving {
	t.Helper()
	s := newSubject(t)
	a := &auditor{}
	r, err := NewRedriver(RedriverConfig{Pool: s.pool, Auditor: a, Exceptions: exceptions{relaypostgres.NewStore(s.pool, relaypostgres.StoreOptions{})}})
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, s.pool, `select setval('postrider.outbox_event_id_seq', 1000)`) // above the events that die
	r.patience = 0                                                              // no source answers
	return &redriving{s, r, a, t}
}

// die writes event n to the outbox as dead-lettered, records its letter and returns its investigation. A change of the key, payload
// or headers that are in the letter is one of the event, too; otherwise its headers differ from the letter's, to tell which are sent.
func (r *redriving) die(n int, change func(*dlq.Letter)) uuid.UUID {
	r.t.Helper()
	l := dlqtest.Letters(dlqtest.Event(n, 1))[0]
	topic, key, payload, headers := l.OriginTopic, l.Key, l.Payload, []byte(`[["trace", "x"]]`)
	before := len(l.Headers)
	if change != nil {
		change(&l)
	}
	if l.KeyKind != dlq.Reference {
		key = l.Key
	}
	if l.PayloadKind != dlq.Reference {
		payload = l.Payload
	}
	if _, invalid := l.InvalidHeaders(); len(l.Headers) != before && l.KeyKind != dlq.Reference && !invalid {
		headers = message.MarshalHeaders(l.Headers)
	}
	mustExec(r.t, r.subject.pool, `insert into postrider.outbox_event (id, event_id, topic, key, payload, headers)
		overriding system value values ($1, $2, $3, $4, $5, $6)`,
		outboxID(n), dlqtest.EventID(n), topic, key, payload, string(headers))
	r.settle(outboxtest.DeadLettered, n)
	return r.record(l)
}

func (r *redriving) record(l dlq.Letter) uuid.UUID {
	r.t.Helper()
	if _, err := r.RecordLetters(r.t.Context(), []dlq.Letter{l}); err != nil {
		r.t.Fatal(err)
	}
	var entry uuid.UUID
	if err := r.subject.pool.QueryRow(r.t.Context(), `select dlq_entry_uuid from postrider.dlq_letter where letter_id = $1`, l.ID).Scan(&entry); err != nil {
		r.t.Fatal(err)
	}
	return entry
}

func (r *redriving) redrive(entries ...uuid.UUID) dlq.Requeued {
	r.t.Helper()
	done, err := r.Redrive(r.t.Context(), dlq.RedriveRequest{Entries: entries, Actor: "ada"})
	if err != nil {
		r.t.Fatal(err)
	}
	return done
}

// sent are the events after the dead-lettered ones, in order.
type sent struct {
	ID      int64
	EventID uuid.UUID
	Topic   string
	Key     []byte
	Payload []byte
	Headers [][2]string
}

func (r *redriving) sent() []sent {
	r.t.Helper()
	rows, err := r.subject.pool.Query(r.t.Context(), `select id, event_id, topic, key, payload, headers::text from postrider.outbox_event where id > 1000 order by id`)
	if err != nil {
		r.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s sent, err error) {
		var headers string
		if err = row.Scan(&s.ID, &s.EventID, &s.Topic, &s.Key, &s.Payload, &headers); err != nil {
			return s, err
		}
		return s, json.Unmarshal([]byte(headers), &s.Headers)
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func mustExec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestRedriveSendsTheMessageAgain(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.die(3, nil)
	if done := r.redrive(entry); !slices.Equal(done.Entries, []uuid.UUID{entry}) || len(done.Skipped) != 0 {
		t.Fatalf("%+v", done)
	}
	out := r.sent()
	if len(out) != 1 {
		t.Fatalf("%d events", len(out))
	}
	e := out[0]
	want := [][2]string{{"trace", "x"}, {"replay_of", "event:" + dlqtest.EventID(3).String()}, {"replay_id", entry.String() + ":1"}, {"postrider-hops", "1"}, {"postrider-redrive-of", "event:" + dlqtest.EventID(3).String()}}
	if e.Topic != "orders" || string(e.Key) != "key-3" || string(e.Payload) != `{"n":3}` || !slices.Equal(e.Headers, want) || e.EventID == dlqtest.EventID(3) {
		t.Errorf("%+v", e)
	}
	if !slices.Equal(r.audit.actions, []string{"dlq.requeue entry " + entry.String()}) {
		t.Errorf("audit log: %q", r.audit.actions)
	}
	again := r.redrive(entry)
	if len(again.Entries) != 0 || !slices.Equal(again.Skipped, []dlq.Skip{{Entry: entry, Reason: dlq.AlreadyQueued}}) {
		t.Errorf("again: %+v", again)
	}
	if len(r.sent()) != 1 || len(r.audit.actions) != 1 {
		t.Errorf("the second one changed something: %d events, %q", len(r.sent()), r.audit.actions)
	}
}

func TestRedriveKeepsTheOrderOfAKey(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	var entries []uuid.UUID
	for _, n := range []int{21, 7, 14, 0, 28} { // all of key-0
		entries = append(entries, r.die(n, nil))
	}
	r.redrive(entries...)
	var got []string
	for _, e := range r.sent() {
		got = append(got, string(e.Payload))
	}
	if want := []string{`{"n":0}`, `{"n":7}`, `{"n":14}`, `{"n":21}`, `{"n":28}`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRedriveOfWhatTheLetterRefersTo(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	refer := func(l *dlq.Letter) {
		l.Key, l.KeyKind, l.Payload, l.PayloadKind, l.Headers = nil, dlq.Reference, nil, dlq.Reference, nil
	}
	there, gone := r.die(1, refer), r.die(2, refer)
	mustExec(t, r.subject.pool, `delete from postrider.outbox_event where id = $1`, outboxID(2))
	mustExec(t, r.subject.pool, `delete from postrider.outbox_exception where id = $1`, outboxID(2))
	done := r.redrive(there, gone)
	if !slices.Equal(done.Entries, []uuid.UUID{there}) || !slices.Equal(done.Skipped, []dlq.Skip{{Entry: gone, Reason: dlq.EventGone}}) {
		t.Fatalf("%+v", done)
	}
	e := r.sent()[0]
	if string(e.Key) != "key-1" || string(e.Payload) != `{"n":1}` || e.Headers[0] != [2]string{"trace", "x"} {
		t.Errorf("%+v", e)
	}
}

func TestRedriveLeavesAlone(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	closed := r.die(1, nil)
	if err := r.Resolve(t.Context(), closed); err != nil {
		t.Fatal(err)
	}
	task := r.die(2, func(l *dlq.Letter) { l.Subject = dlq.Subject{Type: dlq.SubjectTask, ID: uuid.NewString()} })
	foreign := r.record(dlq.Decode(dlq.Record{Topic: "x.dlq", Partition: 1, Offset: 5, Timestamp: dlqtest.Start, Value: []byte("v")}))
	large := r.die(3, nil)
	mustExec(t, r.subject.pool, `create or replace function postrider.outbox_max_payload_bytes() returns integer language sql immutable as 'select 3'`)
	done := r.redrive(closed, task, foreign, large)
	got := map[uuid.UUID]dlq.SkipReason{}
	for _, s := range done.Skipped {
		got[s.Entry] = s.Reason
		if s.Reason.Explain() == string(s.Reason) {
			t.Errorf("%s is not explained", s.Reason)
		}
	}
	want := map[uuid.UUID]dlq.SkipReason{closed: dlq.NotPending, task: dlq.TaskSubject, foreign: dlq.NoTarget, large: dlq.PayloadTooLarge}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(done.Entries) != 0 || len(r.sent()) != 0 || len(r.audit.actions) != 0 {
		t.Errorf("%v, want %v; %d sent, %q", got, want, len(r.sent()), r.audit.actions)
	}
	elsewhere, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{foreign}, Target: "retry", Actor: "ada"})
	if err != nil || len(elsewhere.Entries) != 1 {
		t.Fatalf("%+v, %v", elsewhere, err)
	}
	if e := r.sent()[0]; e.Topic != "retry" || e.Key != nil || string(e.Payload) != "v" || e.Headers[0] != [2]string{"replay_of", "record:x.dlq/1/5"} {
		t.Errorf("%+v", e)
	}
}

func TestRedriveRefusesAsAWhole(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.die(1, nil)
	unknown := uuid.New()
	if _, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry, unknown}, Actor: "ada"}); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("an unknown id: %v", err)
	}
	for name, req := range map[string]dlq.RedriveRequest{
		"nothing":        {Actor: "ada"},
		"twice":          {Entries: []uuid.UUID{entry, entry}, Actor: "ada"},
		"no actor":       {Entries: []uuid.UUID{entry}},
		"a bad target":   {Entries: []uuid.UUID{entry}, Actor: "ada", Target: "a b"},
		"two edited":     {Entries: []uuid.UUID{entry, unknown}, Actor: "ada", Edit: &dlq.Edit{}},
		"both":           {Entries: []uuid.UUID{entry}, Actor: "ada", Edit: &dlq.Edit{Tombstone: true, Payload: []byte("x")}},
		"our own header": {Entries: []uuid.UUID{entry}, Actor: "ada", Edit: &dlq.Edit{Headers: []message.Header{{Name: message.HeaderEventID}}}},
	} {
		if _, err := r.Redrive(t.Context(), req); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.audit.refuse = errors.New("disk full")
	if _, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry}, Actor: "ada"}); !errors.Is(err, r.audit.refuse) {
		t.Errorf("without an audit log: %v", err)
	}
	r.audit.refuse = nil
	if len(r.sent()) != 0 {
		t.Fatalf("%d events were sent", len(r.sent()))
	}
	if done := r.redrive(entry); len(done.Entries) != 1 {
		t.Errorf("afterwards: %+v", done)
	}
}

func TestManyRedriveTheSame(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	var entries []uuid.UUID
	for n := range 20 {
		entries = append(entries, r.die(n, nil))
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			mine := slices.Clone(entries)
			if i%2 == 1 {
				slices.Reverse(mine)
			}
			if _, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: mine, Actor: fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(r.sent()); n != 20 {
		t.Errorf("%d events were sent, want 20", n)
	}
}

func TestEditKeepsTheOriginal(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	for n, edit := range map[int]dlq.Edit{
		1: {Payload: []byte("changed")},
		2: {Tombstone: true},
		3: {Headers: []message.Header{{Name: "only", Value: []byte("this")}}},
		4: {Payload: []byte{}},
	} {
		entry := r.die(n, nil)
		if _, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry}, Actor: "ada", Edit: &edit}); err != nil {
			t.Fatal(err)
		}
		all := r.sent()
		e := all[len(all)-1]
		payload, first := []byte(fmt.Sprintf(`{"n":%d}`, n)), [2]string{"trace", "x"}
		switch {
		case edit.Tombstone:
			payload = nil
		case edit.Payload != nil:
			payload = edit.Payload
		}
		if edit.Headers != nil {
			first = [2]string{"only", "this"}
		}
		if string(e.Payload) != string(payload) || (e.Payload == nil) != (payload == nil) || e.Headers[0] != first || len(e.Headers) != 5 {
			t.Errorf("%d: %+v", n, e)
		}
		letters, err := r.letters(t.Context(), entry)
		if err != nil || string(letters[0].Payload) != fmt.Sprintf(`{"n":%d}`, n) {
			t.Errorf("%d: the letter is %+v, %v", n, letters, err)
		}
	}
}

func (r *redriving) status(entry uuid.UUID) (dlq.Status, string) {
	r.t.Helper()
	e, err := r.investigations.Show(r.t.Context(), entry)
	if err != nil {
		r.t.Fatal(err)
	}
	return e.Status, e.ResolvedBy
}

func TestResolvingByRuleCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.die(1, nil)
	r.redrive(entry)
	r.deliverAndForget(1)
	if f, err := r.Follow(t.Context(), 10, false); err != nil || f.Delivered != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	if status, _ := r.status(entry); status != dlq.Pending {
		t.Errorf("%s", status)
	}
	if done := r.redrive(entry); len(done.Entries) != 1 {
		t.Errorf("a second redrive: %+v", done)
	}
	if id := r.sent()[0].Headers[2][1]; id != entry.String()+":2" {
		t.Errorf("its redrive id is %s", id)
	}
}

func TestARedriveThatDiesAgainHasASuccessor(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	first := r.die(1, nil)
	r.redrive(first)
	e := r.sent()[0]
	outboxtest.Settle(t, r.subject.pool, outboxtest.DeadLettered, e.ID)
	if f, err := r.Follow(t.Context(), 10, true); err != nil || f.CameBack != 1 || f.Delivered != 0 {
		t.Fatalf("%+v, %v", f, err)
	}
	l := dlqtest.Letters(dlqtest.Event(50, 1))[0]
	l.ID, l.EventID, l.OutboxID = "event:"+e.EventID.String()+":1", e.EventID, &e.ID
	l.Subject.ID = e.EventID.String()
	for _, h := range e.Headers {
		if h[0] != "trace" {
			l.Headers = append(l.Headers, message.Header{Name: h[0], Value: []byte(h[1])})
		}
	}
	l.Hops = 1
	second := r.record(l)
	got, err := r.investigations.Show(t.Context(), second)
	if err != nil || got.PredecessorUUID != first || got.Status != dlq.Pending {
		t.Errorf("%+v, %v", got, err)
	}
	if status, _ := r.status(first); status != dlq.Cancelled {
		t.Errorf("the first one is %s", status)
	}
	r.redrive(second)
	again := r.sent()[1]
	if len(again.Headers) != 5 || again.Headers[4][1] != "event:"+dlqtest.EventID(1).String() || again.Headers[3][1] != "2" || again.Headers[1][1] != "event:"+e.EventID.String() || again.Headers[2][1] != second.String()+":1" {
		t.Errorf("headers pile up: %v", again.Headers)
	}
}

func TestAnEventThatHaltsItsKeyGoesBackToItsPlace(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	halting, behind := r.die(7, nil), r.die(14, nil) // both of key-0
	mustExec(t, r.subject.pool, `insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at) values ('key', 'orders', 'key-0', 'halted', $1, 'infinity')`, dlqtest.EventID(7))
	done := r.redrive(halting, behind)
	if !slices.Equal(done.Entries, []uuid.UUID{halting}) || !slices.Equal(done.Skipped, []dlq.Skip{{Entry: behind, Reason: dlq.KeyHalted}}) {
		t.Fatalf("%+v", done)
	}
	if len(r.sent()) != 0 {
		t.Errorf("a new event was sent, too: %+v", r.sent())
	}
	var state, cause string
	if err := r.subject.pool.QueryRow(t.Context(), `select e.state::text, h.cause from postrider.outbox_exception e join postrider.outbox_hold h using (hold_id) where e.event_id = $1`, dlqtest.EventID(7)).Scan(&state, &cause); err != nil {
		t.Fatal(err)
	}
	if state != "parked" || cause != "redrive" {
		t.Errorf("the event is %s, its hold waits for %s", state, cause)
	}
	if f, err := r.Follow(t.Context(), 10, true); err != nil || f != (dlq.Followed{}) {
		t.Errorf("while it waits: %+v, %v", f, err)
	}
	r.settle(outboxtest.Published, 7)
	if f, err := r.Follow(t.Context(), 10, true); err != nil || f.Delivered != 1 {
		t.Errorf("%+v, %v", f, err)
	}
	if status, _ := r.status(halting); status != dlq.ManuallyResolved {
		t.Errorf("%s", status)
	}
}

func TestAKeyInWorkIsLeftForLater(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	halting, other := r.die(7, nil), r.die(3, nil)
	mustExec(t, r.subject.pool, `insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at) values ('key', 'orders', 'key-0', 'halted', $1, 'infinity')`, dlqtest.EventID(7))
	claim, err := r.subject.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = claim.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := claim.Exec(t.Context(), `select from postrider.outbox_exception where event_id = $1 for update`, dlqtest.EventID(7)); err != nil {
		t.Fatal(err)
	}
	done := r.redrive(halting, other)
	if !slices.Equal(done.Entries, []uuid.UUID{other}) || !slices.Equal(done.Skipped, []dlq.Skip{{Entry: halting, Reason: dlq.Busy}}) {
		t.Errorf("%+v", done)
	}
	if len(r.sent()) != 1 {
		t.Errorf("%d events", len(r.sent()))
	}
}
