package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// halt makes event n halt its key, as the relay does.
func (r *redriving) halt(n int) {
	r.t.Helper()
	mustExec(r.t, r.subject.pool, `insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at)
		values ('key', 'orders', $2, 'halted', $1, 'infinity')`, dlqtest.EventID(n), []byte(fmt.Sprintf("key-%d", n%7)))
}

// holdOf reports whether the hold about event n lets the events go that wait behind it.
func (r *redriving) holdOf(n int) (lets bool) {
	r.t.Helper()
	if err := r.subject.pool.QueryRow(r.t.Context(), `select asked = 'release' is true from postrider.outbox_hold where event_id = $1`, dlqtest.EventID(n)).Scan(&lets); err != nil {
		r.t.Fatal(err)
	}
	return lets
}

func (r *redriving) skipped(entry uuid.UUID) dlq.SkipReason {
	r.t.Helper()
	done := r.redrive(entry)
	if len(done.Skipped) != 1 || len(done.Entries) != 0 {
		r.t.Fatalf("it was not skipped: %+v", done)
	}
	return done.Skipped[0].Reason
}

// letterOf is the letter that the relay writes when a redriven event is given up.
func letterOf(e sent, offset int64) dlq.Letter {
	l := dlqtest.Letters(dlqtest.Event(int(offset), 1))[0]
	l.ID, l.EventID, l.OutboxID = "event:"+e.EventID.String()+":1", e.EventID, &e.ID
	l.Subject.ID = e.EventID.String()
	return l
}

// TestWhatDiedAgainWaitsForItsLetter: between an event's being given up and its letter there is nothing that may be
// sent; a second copy would be closed over by the letter's investigation.
func TestWhatDiedAgainWaitsForItsLetter(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.die(1, nil)
	r.redrive(entry)
	r.dieAgain(1)
	if why := r.skipped(entry); why != dlq.AlreadyQueued {
		t.Errorf("%s", why)
	}
	second := r.record(letterOf(r.sent()[0], 50))
	if why := r.skipped(entry); why != dlq.NotPending {
		t.Errorf("afterwards: %s", why)
	}
	if done := r.redrive(second); len(done.Entries) != 1 {
		t.Errorf("its successor: %+v", done)
	}
}

// TestInPlaceAndDiedAgain: the same row, the same investigation, another letter and another redrive.
func TestInPlaceAndDiedAgain(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.die(7, nil)
	r.halt(7)
	r.redrive(entry)
	giveUp := func(state string) {
		t.Helper()
		r.settle(state, 7)
		mustExec(t, r.subject.pool, `update postrider.outbox_hold set cause = 'halted', next_probe_at = 'infinity'`)
	}
	giveUp(outboxtest.Exhausted)
	if f, err := r.Follow(t.Context(), 10, true); err != nil || f != (dlq.Followed{CameBack: 1}) {
		t.Fatalf("%+v, %v", f, err)
	}
	if why := r.skipped(entry); why != dlq.AlreadyQueued {
		t.Errorf("before its letter is here: %s", why)
	}
	if again := r.record(dlqtest.Letters(dlqtest.Event(7, 2))[0]); again != entry {
		t.Fatal("the letter opened another investigation")
	}
	if why := r.skipped(entry); why != dlq.Busy {
		t.Errorf("before the relay has settled the letter: %s", why)
	}
	giveUp(outboxtest.DeadLettered)
	if done := r.redrive(entry); len(done.Entries) != 1 || len(r.sent()) != 0 {
		t.Fatalf("%+v, %d new events", done, len(r.sent()))
	}
	if f, err := r.Follow(t.Context(), 10, true); err != nil || f != (dlq.Followed{}) {
		t.Errorf("the second one is on its way: %+v, %v", f, err)
	}
	r.settle(outboxtest.Published, 7)
	if f, err := r.Follow(t.Context(), 10, true); err != nil || f != (dlq.Followed{Delivered: 1}) {
		t.Errorf("%+v, %v", f, err)
	}
	e, err := r.investigations.Show(t.Context(), entry)
	if err != nil || e.Status != dlq.ManuallyResolved || e.ResolutionNotes != "redriven, and delivered: "+entry.String()+":2" {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestTheRowSaysWhichEpisode: a person redrove the event by hand, and it was given up once more; its letter is not
// here yet.
func TestTheRowSaysWhichEpisode(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.die(7, nil)
	r.halt(7)
	mustExec(t, r.subject.pool, `update postrider.outbox_exception set episode = 3, updated_at = now() where event_id = $1`, dlqtest.EventID(7))
	r.redrive(entry)
	if f, err := r.Follow(t.Context(), 10, true); err != nil || f != (dlq.Followed{}) {
		t.Errorf("it is on its way: %+v, %v", f, err)
	}
}

func TestWhatWasRedrivenByHand(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	for n, want := range []dlq.SkipReason{dlq.AlreadyQueued, dlq.AlreadyQueued, dlq.Arrived} {
		entry := r.die(n, nil)
		r.halt(n)
		mustExec(t, r.subject.pool, `select postrider.outbox_redrive($1)`, outboxID(n))
		switch n {
		case 1: // it failed once more
			r.settle(outboxtest.Scheduled, n)
		case 2:
			r.settle(outboxtest.Published, n)
		}
		if why := r.skipped(entry); why != want {
			t.Errorf("%d: %s, want %s", n, why, want)
		}
	}
	if len(r.sent()) != 0 {
		t.Errorf("%d were sent", len(r.sent()))
	}
}

// TestWhatHaltsItsKeyGoesNowhereElse: a copy would wait behind the key that only the original sets going.
func TestWhatHaltsItsKeyGoesNowhereElse(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	halting, behind, another := r.die(7, nil), r.die(14, nil), r.die(21, nil)
	r.halt(7)
	for name, c := range map[string]struct {
		entry  uuid.UUID
		target string
		edit   *dlq.Edit
		want   dlq.SkipReason
	}{
		"edited":           {halting, "other", &dlq.Edit{Payload: []byte("x")}, dlq.HaltsKey},
		"elsewhere":        {halting, "other", nil, dlq.HaltsKey},
		"edited, behind":   {behind, "", &dlq.Edit{Payload: []byte("x")}, dlq.KeyHalted},
		"elsewhere behind": {another, "other", nil, ""},
	} {
		done, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{c.entry}, Target: c.target, Edit: c.edit, Actor: "ada"})
		if err != nil || (c.want == "") != (len(done.Entries) == 1) || c.want != "" && done.Skipped[0].Reason != c.want {
			t.Errorf("%s: %+v, %v", name, done, err)
		}
	}
	done, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{halting}, Target: "orders", Actor: "ada"})
	if err != nil || len(done.Entries) != 1 || len(r.sent()) != 1 {
		t.Errorf("its own topic by name: %+v, %v, %d sent", done, err, len(r.sent()))
	}
}

// TestClosingLetsTheKeyGo: no person works any more on the event that the key waits for.
func TestClosingLetsTheKeyGo(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	for n, closeIt := range map[int]func(uuid.UUID) error{
		0: func(id uuid.UUID) error {
			_, err := r.people().Change(t.Context(), id, dlq.Change{Status: ref(dlq.PermanentlyFailed), Actor: "ada"})
			return err
		},
		1: func(id uuid.UUID) error {
			o, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpResolve, Name: "n", Actor: "ada", Scope: dlq.Scope{Entries: []uuid.UUID{id}}})
			if err == nil {
				r.command(o.UUID, dlq.Start)
				r.step()
			}
			return err
		},
	} {
		entry := r.die(n, nil)
		r.halt(n)
		if _, err := r.people().Change(t.Context(), entry, dlq.Change{Notes: ref("looking"), Actor: "ada"}); err != nil || r.holdOf(n) {
			t.Fatalf("%d: a note let the key go: %v", n, err)
		}
		if err := closeIt(entry); err != nil {
			t.Fatal(err)
		}
		if !r.holdOf(n) {
			t.Errorf("%d: the key is held by a closed investigation", n)
		}
	}
}

// TestGoneAfterItDiedAgain: the letter came, its investigation was closed, and retention took the row, all before
// Follow looked.
func TestGoneAfterItDiedAgain(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	first, other := r.die(1, nil), r.die(2, nil)
	o := r.plan(dlq.Scope{Entries: []uuid.UUID{first, other}}, dlq.OperationOptions{})
	r.command(o.UUID, dlq.Start)
	r.step()
	r.record(letterOf(r.sent()[0], 50))
	outboxtest.Settle(t, r.subject.pool, outboxtest.DeadLettered, r.sent()[0].ID)
	mustExec(t, r.subject.pool, `delete from postrider.outbox_exception where id > 1000`)
	r.deliverAndForget(1)
	mustExec(t, r.subject.pool, `delete from postrider.outbox_event where id > 1000`)
	r.follow()
	if o = r.operation(o.UUID); o.CameBack != 1 || o.Delivered != 1 {
		t.Errorf("%+v", o)
	}
}

// TestHeadersThatTheRelayRefuses: a message with a header that no writer may send, for example one without a name, is left
// alone, as it is with headers that cannot be read. Headers of ours that a consumer copied with the rest do not kill it.
func TestHeadersThatTheRelayRefuses(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	h := func(name, value string) message.Header { return message.Header{Name: name, Value: []byte(value)} }
	given := []message.Header{h(message.HeaderEventID, "e"), h("Postrider-Anything", "e"), h("kept", "1"), h("kept", "2"), h("replay_id", "old"), {Name: "null"}}
	for n, odd := range []message.Header{h("", "nameless"), h("a\r\nSet-Cookie: b", "c"), h("\x7f", "d")} {
		entry := r.record(dlq.Decode(dlq.Record{Topic: "x.dlq", Offset: int64(5 + n), Timestamp: dlqtest.Start, Value: []byte("v"), Headers: append(given[:len(given):len(given)], odd)}))
		if done, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry}, Target: "retry", Actor: "ada"}); err != nil || len(done.Skipped) != 1 || done.Skipped[0].Reason != dlq.UnreadableHeaders {
			t.Fatalf("%q: %+v, %v", odd.Name, done, err)
		}
		if o := r.plan(dlq.Scope{Entries: []uuid.UUID{entry}}, dlq.OperationOptions{Target: "retry"}); o.Plan.Unreadable != 1 {
			t.Errorf("%q: %+v", odd.Name, o.Plan)
		}
		request := dlq.RedriveRequest{Entries: []uuid.UUID{entry}, Target: "retry", Repair: &dlq.Repair{Headers: []message.Header{h("named", "n")}}, Actor: "ada"}
		if done, err := r.Redrive(t.Context(), request); err != nil || len(done.Skipped) != 1 || done.Skipped[0].Reason != dlq.UnreadableHeaders {
			t.Fatalf("%q, lost behind another header: %+v, %v", odd.Name, done, err)
		}
		request.Repair, request.Edit = nil, &dlq.Edit{Headers: []message.Header{h("kept", "1"), h("kept", "2"), {Name: "null"}, h("named", "n")}}
		if done, err := r.Redrive(t.Context(), request); err != nil || len(done.Entries) != 1 {
			t.Fatalf("%q, with headers: %+v, %v", odd.Name, done, err)
		}
		raw := pgtest.Value[[]byte](t, r.subject.pool, `select headers from postrider.outbox_event where id > 1000 order by id desc limit 1`)
		got, err := message.ParseHeaders(raw)
		var names []string
		for _, h := range got {
			names = append(names, h.Name+"="+string(h.Value))
		}
		place := fmt.Sprintf("record:x.dlq/0/%d", 5+n)
		if want := []string{"kept=1", "kept=2", "null=", "named=n", "replay_of=" + place, "replay_id=" + entry.String() + ":1", "postrider-hops=1",
			fmt.Sprintf("postrider-redrive-of=%s@%d", place, dlqtest.Start.UnixMilli())}; err != nil || !slices.Equal(names, want) {
			t.Errorf("%q, want %q, %v", names, want, err)
		}
	}
}

// TestOneThatTheOutboxRefuses does not keep the others.
func TestOneThatTheOutboxRefuses(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(5)
	mustExec(t, r.subject.pool, `alter table postrider.outbox_event add constraint picky check (payload <> '{"n":2}' or id <= 1000)`)
	o := r.plan(dlq.Scope{Entries: entries}, dlq.OperationOptions{})
	r.command(o.UUID, dlq.Start)
	r.step()
	if o = r.operation(o.UUID); o.Done != 4 || o.Failed != 1 || len(r.sent()) != 4 {
		t.Errorf("%+v, %d sent", o, len(r.sent()))
	}
	items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{State: "failed"}, 0, 10)
	if err != nil || len(items) != 1 || items[0].Entry != entries[2] || items[0].Reason != "refused" {
		t.Errorf("%+v, %v", items, err)
	}
	if why := r.skipped(entries[2]); why != dlq.Refused {
		t.Errorf("alone: %s", why)
	}
	r.deliver(4)
	r.step()
	if o = r.operation(o.UUID); o.State != dlq.Completed {
		t.Errorf("%+v", o)
	}
}

// TestLettersWithABadTopic are of other writers; the outbox would refuse them.
func TestLettersWithABadTopic(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.die(1, func(l *dlq.Letter) { l.OriginTopic = "not a topic" })
	if why := r.skipped(entry); why != dlq.NoTarget {
		t.Errorf("%s", why)
	}
}

func TestTheRetryTopicOfAGroup(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	consumer := func(offset int64, group string, headers ...message.Header) uuid.UUID {
		headers = append(headers, message.Header{Name: "kafka_dlt-original-topic", Value: []byte("orders")})
		if group != "" {
			headers = append(headers, message.Header{Name: "kafka_dlt-original-consumer-group", Value: []byte(group)})
		}
		return r.record(dlq.Decode(dlq.Record{Topic: "x.dlq", Offset: offset, Timestamp: dlqtest.Start, Key: []byte("k"), Value: []byte("v"), Headers: headers}))
	}
	names := func(topic string) message.Header {
		return message.Header{Name: message.HeaderRetryTopic, Value: []byte(topic)}
	}
	whole, silent, foreign, broken := consumer(1, "billing", names("orders.retry.billing")), consumer(2, "billing"),
		consumer(3, "", names("orders.retry.billing")), consumer(4, "billing", names("no topic"))
	done, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{whole, silent, foreign, broken}, Target: dlq.TargetGroup, Actor: "ada"})
	if err != nil || !slices.Equal(done.Entries, []uuid.UUID{whole}) || len(done.Skipped) != 3 {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, s := range done.Skipped {
		if s.Reason != dlq.NoRetryTopic {
			t.Errorf("%+v", s)
		}
	}
	e := r.sent()[0]
	if e.Topic != "orders.retry.billing" || string(e.Key) != "k" || string(e.Payload) != "v" || e.Headers[0][0] != "replay_of" {
		t.Errorf("%+v", e)
	}
}

// TestAConsumerFailsAgain: the letter of a redriven message names where it comes from; but a header closes nothing.
func TestAConsumerFailsAgain(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	foreign := func(offset int64, headers ...message.Header) uuid.UUID {
		return r.record(dlq.Decode(dlq.Record{Topic: "x.dlq", Offset: offset, Timestamp: dlqtest.Start, Value: []byte("v"), Headers: headers}))
	}
	redrive := func(id string) message.Header { return message.Header{Name: dlq.HeaderReplayID, Value: []byte(id)} }
	first := foreign(1)
	if _, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{first}, Target: "orders", Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		header string
		want   uuid.UUID
	}{{first.String() + ":1", first}, {first.String() + ":2", uuid.Nil}, {"a\x00b", uuid.Nil}, {"\xff", uuid.Nil}, {strings.Repeat("x", 2000), uuid.Nil}} {
		e, err := r.investigations.Show(t.Context(), foreign(int64(10+i), redrive(c.header)))
		if err != nil || e.PredecessorUUID != c.want {
			t.Errorf("%.50q: it comes from %s, %v", c.header, e.PredecessorUUID, err)
		}
	}
	if status, _ := r.status(first); status != dlq.Pending {
		t.Errorf("a header made the first one %s", status)
	}
}

func TestEveryReasonIsExplained(t *testing.T) {
	t.Parallel()
	for _, why := range dlq.SkipReasons() {
		if why.Explain() == string(why) {
			t.Errorf("%s is not explained", why)
		}
	}
}

// TestManyFollowAtOnce: each redrive ends once, however many processes look.
func TestManyFollowAtOnce(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(40)
	var ops []dlq.Operation
	for _, half := range [][]uuid.UUID{entries[:20], entries[20:]} {
		o := r.plan(dlq.Scope{Entries: half}, dlq.OperationOptions{})
		ops = append(ops, r.command(o.UUID, dlq.Start))
		if n, _, err := r.Step(t.Context()); n != 20 || err != nil {
			t.Fatal(n, err)
		}
	}
	for rest, state := range []string{outboxtest.Published, outboxtest.Exhausted} {
		outboxtest.SettleAll(t, r.subject.pool, state, `select id from postrider.outbox_event where id > 1000 and id % 2 = $1`, rest)
	}
	var mu sync.Mutex
	var all dlq.Followed
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			f, err := r.Follow(t.Context(), 3, true)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all.Delivered, all.CameBack = all.Delivered+f.Delivered, all.CameBack+f.CameBack
		})
	}
	wg.Wait()
	r.follow()
	var delivered, back int64
	for _, o := range ops {
		o = r.operation(o.UUID)
		delivered, back = delivered+o.Delivered, back+o.CameBack
	}
	if delivered != 20 || back != 20 || all.Delivered > 20 || all.CameBack > 20 {
		t.Errorf("%d delivered and %d came back; %+v", delivered, back, all)
	}
}

// TestAnOperationThatFailsLeavesTheOthersTheirTurn, and says what went wrong until it goes on.
func TestAnOperationThatFailsLeavesTheOthersTheirTurn(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(4)
	var ops []dlq.Operation
	for _, half := range [][]uuid.UUID{entries[:2], entries[2:]} {
		o := r.plan(dlq.Scope{Entries: half}, dlq.OperationOptions{})
		ops = append(ops, r.command(o.UUID, dlq.Start))
	}
	r.audit.refuse = errors.New("disk full")
	if _, _, err := r.Step(t.Context()); !errors.Is(err, r.audit.refuse) {
		t.Fatal(err)
	}
	r.audit.refuse = nil
	if n, _, err := r.Step(t.Context()); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	first, second := r.operation(ops[0].UUID), r.operation(ops[1].UUID)
	if first.Done != 0 || !strings.Contains(first.Error, "disk full") || first.State != dlq.Running || second.Done != 2 {
		t.Errorf("%+v\n%+v", first, second)
	}
	r.step()
	if first = r.operation(ops[0].UUID); first.Done != 2 || first.Error != "" {
		t.Errorf("%+v", first)
	}
}
