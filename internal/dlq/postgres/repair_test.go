package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/message"
)

// rawHeaders are headers of an event; one of them cannot be read.
const rawHeaders = `{"tenant": "acme", "priority": 5}`

// unreadable gives a letter the headers of an event with rawHeaders.
func unreadable(l *dlq.Letter) {
	l.Headers = []message.Header{{Name: "tenant", Value: []byte("acme")}, {Name: message.HeaderInvalidHeaders, Value: []byte(rawHeaders)}}
}

// dieUnreadable is die for an event with rawHeaders.
func (r *redriving) dieUnreadable(n int) uuid.UUID {
	r.t.Helper()
	entry := r.die(n, unreadable)
	mustExec(r.t, r.subject.pool, `update postrider.outbox_exception set headers = $2 where event_id = $1`, dlqtest.EventID(n), rawHeaders)
	return entry
}

func (r *redriving) redriveAs(req dlq.RedriveRequest) dlq.Requeued {
	r.t.Helper()
	req.Actor = "ada"
	done, err := r.Redrive(r.t.Context(), req)
	if err != nil {
		r.t.Fatal(err)
	}
	return done
}

// own are the headers of a sent message, without the headers of the redrive.
func own(e sent) (out []string) {
	for _, h := range e.Headers {
		if h[0] != dlq.HeaderReplayID && h[0] != dlq.HeaderReplayOf && !message.Reserved(h[0]) {
			out = append(out, h[0]+"="+h[1])
		}
	}
	return out
}

var priority = []message.Header{{Name: "priority", Value: []byte("5")}}

// TestUnreadableHeadersAreLeftAlone: without them it would be another message. A request that says what to send has it sent.
func TestUnreadableHeadersAreLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	for n, c := range []struct {
		req  dlq.RedriveRequest
		want []string // nil: left alone
	}{
		{req: dlq.RedriveRequest{}},
		{req: dlq.RedriveRequest{Target: "elsewhere"}},
		{req: dlq.RedriveRequest{Edit: &dlq.Edit{Payload: []byte("x")}}},
		{dlq.RedriveRequest{Edit: &dlq.Edit{Headers: priority}}, []string{"priority=5"}},
		{dlq.RedriveRequest{Edit: &dlq.Edit{Headers: []message.Header{}}}, []string{}},
		{dlq.RedriveRequest{Repair: &dlq.Repair{Headers: priority}}, []string{"tenant=acme", "priority=5"}},
		{dlq.RedriveRequest{Repair: &dlq.Repair{AsText: true}}, []string{"tenant=acme", "priority=5"}},
		{req: dlq.RedriveRequest{Repair: &dlq.Repair{Headers: []message.Header{{Name: "tenant", Value: []byte("other")}}}}}, // priority would get lost
		{dlq.RedriveRequest{Repair: &dlq.Repair{None: true}}, []string{}},
	} {
		entry, before := r.dieUnreadable(n+1), len(r.sent())
		c.req.Entries = []uuid.UUID{entry}
		done := r.redriveAs(c.req)
		if c.want == nil {
			if !slices.Equal(done.Skipped, []dlq.Skip{{Entry: entry, Reason: dlq.UnreadableHeaders}}) || len(r.sent()) != before {
				t.Errorf("%+v: %+v, %d were sent", c.req, done, len(r.sent())-before)
			}
			if status, _ := r.status(entry); status != dlq.Pending {
				t.Errorf("%+v: it is %s", c.req, status)
			}
			continue
		}
		all := r.sent()
		if len(done.Entries) != 1 || len(all) != before+1 || !slices.Equal(own(all[before]), c.want) {
			t.Errorf("%+v: %+v, %+v", c.req, done, all[before:])
		}
		if n := r.count(`select count(*) from postrider.dlq_redrive where dlq_entry_uuid = $1 and edited`, entry); n != 1 {
			t.Errorf("%+v: it is not noted as edited", c.req)
		}
		letters, err := r.letters(t.Context(), entry)
		if raw, invalid := letters[0].InvalidHeaders(); err != nil || !invalid || raw != rawHeaders {
			t.Errorf("the letter has %q, %v", raw, err)
		}
	}
	for name, repair := range map[string]dlq.Repair{"nothing": {}, "both": {Headers: priority, None: true},
		"ours": {Headers: []message.Header{{Name: message.HeaderEventID}}}, "nameless": {Headers: []message.Header{{Value: []byte("x")}}},
		"two lines": {Headers: []message.Header{{Name: "a\r\nb", Value: []byte("x")}}}} {
		if _, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{uuid.New()}, Actor: "ada", Repair: &repair}); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnOperationRepairsHeaders: only the messages that need it are repaired, and the plan says how many these are.
func TestAnOperationRepairsHeaders(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	broken, sound := r.dieUnreadable(1), r.die(2, nil)
	bare := r.die(3, func(l *dlq.Letter) {
		unreadable(l)
		l.Headers, l.KeyKind, l.Key = l.Headers[1:], dlq.Reference, nil
	})
	run := func(options dlq.OperationOptions, entries ...uuid.UUID) dlq.Operation {
		o := r.plan(dlq.Scope{Entries: entries}, options)
		r.command(o.UUID, dlq.Start)
		for range 2 { // its items, and its end
			r.step()
		}
		after := r.operation(o.UUID)
		if after.State != dlq.Completed { // or the next one would wait for its turn
			r.command(o.UUID, dlq.Abort)
		}
		after.Plan = o.Plan
		return after
	}
	if o := run(dlq.OperationOptions{}, broken, bare); o.Plan.Unreadable != 2 || o.Skipped != 2 || o.Done != 0 || len(r.sent()) != 0 {
		t.Errorf("without headers: %+v", o)
	} else if items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{State: "skipped"}, 0, 10); err != nil || len(items) != 2 || items[0].Reason != string(dlq.UnreadableHeaders) {
		t.Errorf("%+v, %v", items, err)
	}
	// Headers that are only in the outbox row are not made up.
	if o := run(dlq.OperationOptions{Headers: [][]string{{"priority", "5"}}}, broken, sound, bare); o.Plan.Unreadable != 2 || o.Done != 2 || o.Skipped != 1 {
		t.Errorf("with headers: %+v", o)
	}
	all := r.sent()
	if len(all) != 2 || !slices.Equal(own(all[0]), []string{"tenant=acme", "priority=5"}) || !slices.Equal(own(all[1]), []string{"trace=x"}) {
		t.Errorf("%+v", all)
	}
	if n := r.count(`select count(*) from postrider.dlq_redrive where edited`); n != 1 {
		t.Errorf("%d are noted as edited, want 1", n)
	}
	if o := run(dlq.OperationOptions{NoHeaders: true}, bare); o.Done != 1 || len(own(r.sent()[2])) != 0 {
		t.Errorf("without any: %+v, %+v", o, r.sent())
	}
	for name, n := range map[string]dlq.NewOperation{
		"two":       {Kind: dlq.OpRedrive, Options: dlq.OperationOptions{Headers: [][]string{{"priority", "b"}}, HeadersAsText: true}},
		"closing":   {Kind: dlq.OpResolve, Options: dlq.OperationOptions{NoHeaders: true}},
		"no pair":   {Kind: dlq.OpRedrive, Options: dlq.OperationOptions{Headers: [][]string{{"a"}}}},
		"too much":  {Kind: dlq.OpRedrive, Options: dlq.OperationOptions{Headers: [][]string{{"a", "b", "c"}}}},
		"both":      {Kind: dlq.OpRedrive, Options: dlq.OperationOptions{Headers: [][]string{{"a", "b"}}, NoHeaders: true}},
		"our own":   {Kind: dlq.OpRedrive, Options: dlq.OperationOptions{Headers: [][]string{{message.HeaderEventID, "b"}}}},
		"a purge's": {Kind: dlq.OpPurge, Options: dlq.OperationOptions{Headers: [][]string{{"a", "b"}}}},
	} {
		n.Name, n.Actor, n.Scope = name, "ada", dlq.Scope{Entries: []uuid.UUID{broken}}
		if _, err := r.PlanOperation(t.Context(), n); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// row is the exception of event n.
func (r *redriving) row(n int) (state, headers string, payload []byte) {
	r.t.Helper()
	if err := r.subject.pool.QueryRow(r.t.Context(), `select state::text, headers::text, payload from postrider.outbox_exception where event_id = $1`, dlqtest.EventID(n)).Scan(&state, &headers, &payload); err != nil {
		r.t.Fatal(err)
	}
	return state, headers, payload
}

// TestAKeyIsRepairedInItsPlace: the event itself goes on, changed, before the events behind it.
func TestAKeyIsRepairedInItsPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change           func(*dlq.Letter)
		raw              string
		req              dlq.RedriveRequest
		headers, payload string
	}{
		"headers":          {unreadable, rawHeaders, dlq.RedriveRequest{Edit: &dlq.Edit{Headers: priority}}, `[["priority", "5"]]`, `{"n":7}`},
		"no headers":       {unreadable, rawHeaders, dlq.RedriveRequest{Edit: &dlq.Edit{Headers: []message.Header{}}}, `[]`, `{"n":7}`},
		"by an operation":  {unreadable, rawHeaders, dlq.RedriveRequest{Repair: &dlq.Repair{Headers: priority}}, `[["tenant", "acme"], ["priority", "5"]]`, `{"n":7}`},
		"payload":          {nil, `{"a": "b"}`, dlq.RedriveRequest{Edit: &dlq.Edit{Payload: []byte("x")}}, `{"a": "b"}`, "x"},
		"tombstone":        {nil, `{}`, dlq.RedriveRequest{Edit: &dlq.Edit{Tombstone: true}}, `{}`, ""},
		"own topic, named": {nil, `{}`, dlq.RedriveRequest{Target: "orders", Edit: &dlq.Edit{Payload: []byte("x")}}, `{}`, "x"},
	} {
		r := newRedriving(t)
		entry := r.die(7, c.change)
		mustExec(t, r.subject.pool, `update postrider.outbox_exception set headers = $2 where event_id = $1`, dlqtest.EventID(7), c.raw)
		r.halt(7)
		c.req.Entries = []uuid.UUID{entry}
		if done := r.redriveAs(c.req); len(done.Entries) != 1 || len(r.sent()) != 0 {
			t.Fatalf("%s: %+v, %d new events", name, done, len(r.sent()))
		}
		if state, headers, payload := r.row(7); state != "parked" || headers != c.headers || string(payload) != c.payload || (payload == nil) != (name == "tombstone") {
			t.Errorf("%s: %s, %s, %q", name, state, headers, payload)
		}
		if n := r.count(`select count(*) from postrider.dlq_redrive where in_place and edited`); n != 1 {
			t.Errorf("%s: it is not noted as edited in its place", name)
		}
		letters, err := r.letters(t.Context(), entry)
		if err != nil || string(letters[0].Payload) != `{"n":7}` {
			t.Errorf("%s: the letter is %+v, %v", name, letters, err)
		}
		if last := r.audit.actions[len(r.audit.actions)-1]; last != "dlq.requeue entry "+entry.String() {
			t.Errorf("%s: %s", name, last)
		}
	}
}

// TestTheOnlyCopyIsNotReplaced, and what the outbox does not take is refused; the key stays halted, the row as it was.
func TestTheOnlyCopyIsNotReplaced(t *testing.T) {
	t.Parallel()
	payload := dlq.RedriveRequest{Edit: &dlq.Edit{Payload: []byte("x")}}
	headers := dlq.RedriveRequest{Edit: &dlq.Edit{Headers: priority}}
	for name, c := range map[string]struct {
		change func(*dlq.Letter)
		sql    string
		req    dlq.RedriveRequest
		want   dlq.SkipReason
	}{
		"payload elsewhere": {func(l *dlq.Letter) { l.Payload, l.PayloadKind = nil, dlq.Reference }, ``, payload, dlq.OnlyCopy},
		"headers elsewhere": {func(l *dlq.Letter) { l.Key, l.KeyKind, l.Headers = nil, dlq.Reference, nil }, ``, headers, dlq.OnlyCopy},
		"headers cut": {func(l *dlq.Letter) {
			l.Headers = []message.Header{{Name: message.HeaderInvalidHeaders, Value: []byte(`{"a": 1, "b`)}}
		}, `update postrider.outbox_exception set headers = '{"a": 1, "b": 2}'`, headers, dlq.OnlyCopy},
		"another episode": {nil, `update postrider.outbox_exception set episode = 2`, payload, dlq.OnlyCopy},
		"too large":       {nil, `select postrider.outbox_set_max_payload_bytes(1024)`, dlq.RedriveRequest{Edit: &dlq.Edit{Payload: make([]byte, 1025)}}, dlq.PayloadTooLarge},
	} {
		r := newRedriving(t)
		entry := r.die(7, c.change)
		if c.sql != "" {
			mustExec(t, r.subject.pool, c.sql)
		}
		r.halt(7)
		_, hs, body := r.row(7)
		c.req.Entries = []uuid.UUID{entry}
		if done := r.redriveAs(c.req); !slices.Equal(done.Skipped, []dlq.Skip{{Entry: entry, Reason: c.want}}) || len(r.sent()) != 0 {
			t.Errorf("%s: %+v", name, done)
		}
		if state, h, b := r.row(7); state != "dead_lettered" || h != hs || string(b) != string(body) || r.holdOf(7) {
			t.Errorf("%s: %s, %s, %q", name, state, h, b)
		}
	}
}

// TestOnlyWhatWasRedrivenIsAmended: no caller can change another event with the function dlq_amend.
func TestOnlyWhatWasRedrivenIsAmended(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.die(1, nil)
	letter := fmt.Sprintf("event:%s:1", dlqtest.EventID(1))
	amend := func(first string) error {
		return pgx.BeginFunc(t.Context(), r.subject.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			_, err := tx.Exec(t.Context(), `select postrider.dlq_amend($1, true, 'x', null)`, letter)
			return err
		})
	}
	redriveInPlace := fmt.Sprintf(`select postrider.outbox_redrive(%d)`, outboxID(1))
	refused := func(what, first string) {
		t.Helper()
		if err := amend(first); err == nil || !strings.Contains(err.Error(), "55000") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("dead-lettered", `select`)
	refused("that failed and waits", `update postrider.outbox_exception set state = 'scheduled', next_attempt_at = now(), updated_at = now()`)
	r.halt(1)
	mustExec(t, r.subject.pool, redriveInPlace)
	refused("put back by another transaction", `select`)
	refused("in hand", `update postrider.outbox_exception set sending_since = now(), updated_at = now()`)
	r.settle(outboxtest.Published, 1)
	refused("delivered", `select`)
	r.die(2, nil)
	letter = fmt.Sprintf("event:%s:1", dlqtest.EventID(2))
	r.halt(2)
	redriveInPlace = fmt.Sprintf(`select postrider.outbox_redrive(%d)`, outboxID(2))
	mustExec(t, r.subject.pool, `update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now()`)
	refused("of a closed investigation", redriveInPlace)
	mustExec(t, r.subject.pool, `update postrider.dlq_entry set resolution_status = 'pending', resolution_timestamp = null`)
	if err := amend(redriveInPlace); err != nil {
		t.Error(err)
	}
	if _, _, payload := r.row(2); string(payload) != "x" {
		t.Errorf("the payload is %q", payload)
	}
}

// TestASmallCanaryHalts: the minimum is for a share of messages still on their way; a canary that is over has said all.
func TestASmallCanaryHalts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		canary, dead int
		paused       bool
		want         dlq.OperationState
	}{{2, 2, false, dlq.Halted}, {1, 1, false, dlq.Halted}, {2, 1, false, dlq.Halted}, {2, 2, true, dlq.Halted}, {2, 0, false, dlq.Running}} {
		r := newRedriving(t)
		r.many(8)
		o := r.plan(all, dlq.OperationOptions{Canary: c.canary, Rate: 10})
		r.command(o.UUID, dlq.Start)
		for range c.canary + 1 {
			r.step()
		}
		if c.paused {
			r.command(o.UUID, dlq.Pause)
		}
		r.dieAgain(c.dead)
		r.deliver(c.canary - c.dead)
		if c.paused {
			r.command(o.UUID, dlq.Resume)
		}
		r.step()
		if o = r.operation(o.UUID); o.State != c.want || c.want == dlq.Halted && (o.Done != int64(c.canary) || o.Error == "") {
			t.Errorf("%+v: %s after %d, %q", c, o.State, o.Done, o.Error)
		}
		if c.want != dlq.Halted {
			continue
		}
		// A person who looked at it may go on.
		r.command(o.UUID, dlq.Resume)
		r.step()
		if again := r.operation(o.UUID); again.State != dlq.Running || again.Done <= o.Done {
			t.Errorf("%+v: resumed it is %s after %d", c, again.State, again.Done)
		}
	}
}

// TestWhatIsOnItsWayIsNotClosed: the outcome of its redrive is not known yet.
func TestWhatIsOnItsWayIsNotClosed(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(3)
	r.redrive(entries[0])
	closeIt := func(id uuid.UUID) error {
		_, err := r.people().Change(t.Context(), id, dlq.Change{Status: ref(dlq.Cancelled), Actor: "ada"})
		return err
	}
	if err := closeIt(entries[0]); !errors.Is(err, dlq.ErrUnderWay) || !strings.Contains(err.Error(), entries[0].String()) {
		t.Errorf("%v", err)
	}
	note := "looked at"
	if _, err := r.people().Change(t.Context(), entries[0], dlq.Change{Notes: &note, Actor: "ada"}); err != nil {
		t.Errorf("a note: %v", err)
	}
	o, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpResolve, Name: "n", Actor: "ada", Scope: dlq.Scope{Entries: entries[:2]}})
	if err != nil {
		t.Fatal(err)
	}
	r.command(o.UUID, dlq.Start)
	r.step()
	if o = r.operation(o.UUID); o.Done != 1 || o.Skipped != 1 {
		t.Errorf("%+v", o)
	}
	if items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{State: "skipped"}, 0, 10); err != nil || len(items) != 1 || items[0].Entry != entries[0] || items[0].Reason != string(dlq.AlreadyQueued) {
		t.Errorf("%+v, %v", items, err)
	}
	// It died again: its letter, which will say so, is on its way.
	r.dieAgain(1)
	if err := closeIt(entries[0]); !errors.Is(err, dlq.ErrUnderWay) {
		t.Errorf("before its letter is here: %v", err)
	}
	if err := closeIt(entries[2]); err != nil {
		t.Errorf("another one: %v", err)
	}
}

// TestNothingGoesToItsDeadLetterTopic: it would come back as a dead letter of a dead letter.
func TestNothingGoesToItsDeadLetterTopic(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	a, b := r.die(1, nil), r.die(2, func(l *dlq.Letter) { l.DLQTopic = "other.dlq" })
	own := dlqtest.Letters(dlqtest.Event(1, 1))[0].DLQTopic
	want := func(err error) {
		t.Helper()
		if !errors.Is(err, dlq.ErrRequest) || !strings.Contains(err.Error(), "target "+own) || !strings.Contains(err.Error(), a.String()) {
			t.Errorf("%v", err)
		}
	}
	_, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{b, a}, Target: own, Actor: "ada"})
	want(err)
	_, err = r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpRedrive, Name: "n", Actor: "ada", Scope: all, Options: dlq.OperationOptions{Target: own}})
	want(err)
	if len(r.sent()) != 0 {
		t.Errorf("%d were sent", len(r.sent()))
	}
	// Nor to a topic that Postrider or Kafka alone writes, when it is planned or sent or only asked about.
	for target, says := range map[string]string{own: "Postrider itself writes", "postrider.lifecycle": "Postrider itself writes", "__consumer_offsets": "Kafka keeps for itself"} {
		req := dlq.RedriveRequest{Entries: []uuid.UUID{b}, Target: target, Actor: "ada"}
		_, sent := r.Redrive(t.Context(), req)
		_, asked := r.Preview(t.Context(), req)
		_, planned := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpRedrive, Name: "n", Actor: "ada", Scope: dlq.Scope{Entries: []uuid.UUID{b}}, Options: dlq.OperationOptions{Target: target}})
		for _, err := range []error{sent, asked, planned} {
			if !errors.Is(err, dlq.ErrRequest) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", target, err)
			}
		}
	}
	if done := r.redriveAs(dlq.RedriveRequest{Entries: []uuid.UUID{b}, Target: "third.dlq"}); len(done.Entries) != 1 {
		t.Errorf("another dead-letter topic: %+v", done)
	}
	// An investigation whose message came from there is left alone.
	c := r.die(3, func(l *dlq.Letter) { l.OriginTopic = l.DLQTopic })
	if done := r.redrive(c); len(done.Skipped) != 1 || done.Skipped[0].Reason != dlq.DeadLetterTopic {
		t.Errorf("%+v", done)
	}
}
