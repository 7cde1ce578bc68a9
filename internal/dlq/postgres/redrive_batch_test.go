package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

const oldTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// messages makes an investigation of each kind of message, and returns them by name. Sets that begin 70 apart have the
// same keys.
func (r *redriving) messages(from int) map[string]uuid.UUID {
	r.t.Helper()
	h := func(name, value string) message.Header { return message.Header{Name: name, Value: []byte(value)} }
	holds := func(payload string, headers ...message.Header) func(*dlq.Letter) {
		return func(l *dlq.Letter) { l.Payload, l.Headers = []byte(payload), headers }
	}
	entries, n := map[string]uuid.UUID{}, from
	die := func(name string, change func(*dlq.Letter), event ...string) uuid.UUID {
		n++
		entries[name] = r.die(n, func(l *dlq.Letter) {
			l.Headers = []message.Header{h("a", "1")}
			if change != nil {
				change(l)
			}
		})
		for _, set := range event {
			for _, table := range []string{"outbox_event", "outbox_exception"} {
				mustExec(r.t, r.subject.pool, `update postrider.`+table+` set `+set+` where event_id = $1`, dlqtest.EventID(n))
			}
		}
		return entries[name]
	}
	elsewhere := func(l *dlq.Letter) { l.Payload, l.PayloadKind = nil, dlq.Reference }
	die("plain", holds("plain"))
	die("tombstone", func(l *dlq.Letter) { l.Payload, l.PayloadKind, l.PayloadBytes = nil, dlq.Tombstone, nil })
	die("empty", holds(""))
	die("no key", func(l *dlq.Letter) { l.Key, l.KeyKind, l.Payload = nil, dlq.Tombstone, []byte("x") })
	die("payload elsewhere", elsewhere, `payload = 'elsewhere'`)
	die("all elsewhere", func(l *dlq.Letter) {
		elsewhere(l)
		l.Key, l.KeyKind, l.Headers = nil, dlq.Reference, nil
	}, `payload = 'all'`, `headers = '{"b": {"base64": "AAE="}, "a": "1"}'`)
	die("of a task", holds("task"), `kind = 'task', max_attempts = 7, task_uuid = '00000000-0000-0000-0000-000000000007'`)
	die("traced", holds("traced", h("a", "1"), h("traceparent", oldTrace), h("tracestate", "v=1"), h("b", "2")))
	die("traced twice", holds("twice", h("traceparent", oldTrace), h("traceparent", oldTrace)))
	die("copied headers", holds("copied", h("Postrider-X", "1"), h("replay_id", "old"), h("kept", "1"), h("kept", "\xff"), h("replay_traceparent", "o")))
	die("sent before", func(l *dlq.Letter) { l.Hops, l.Payload = 2, []byte("before") })
	die("too large", holds(strings.Repeat("x", 200)))
	die("gone", elsewhere)
	for _, table := range []string{"outbox_event", "outbox_exception"} {
		mustExec(r.t, r.subject.pool, `delete from postrider.`+table+` where event_id = $1`, dlqtest.EventID(n))
	}
	die("too many hops", func(l *dlq.Letter) { l.Hops = dlq.DefaultMaxHops })
	die("refused", holds("picky"))
	if err := r.Resolve(r.t.Context(), die("closed", nil)); err != nil {
		r.t.Fatal(err)
	}
	r.redrive(die("on its way", nil))
	die("unreadable", unreadable)
	die("last", holds("last"))
	entries["of a consumer"] = r.record(dlq.Decode(givenUpBy(r.t, "billing", int64(from+60), dlq.Place{})))
	entries["foreign"] = r.record(dlq.Decode(dlq.Record{Topic: "x.dlq", Partition: 1, Offset: int64(from), Timestamp: dlqtest.Start, Value: []byte("v")}))
	return entries
}

// written is what a redrive wrote of an investigation, without the values that differ between two of the same kind.
func (r *redriving) written(entry uuid.UUID) string {
	r.t.Helper()
	var text, subject string
	err := r.subject.pool.QueryRow(r.t.Context(), `select concat_ws('|', o.kind, o.topic, coalesce(encode(o.key, 'escape'), 'null'), coalesce(encode(o.payload, 'escape'), 'null'),
			o.max_attempts, o.task_uuid, (select s.state from postrider.outbox_standing(array[o.id], array[o.event_id]) s), o.headers, r.generation, r.edited, r.episode, r.in_place, r.target, r.actor, r.redrive_id), e.subject_id
		from postrider.dlq_redrive r join postrider.dlq_entry e using (dlq_entry_uuid) join postrider.outbox_event o on o.id = r.outbox_id and o.event_id = r.event_id
		where r.dlq_entry_uuid = $1`, entry).Scan(&text, &subject)
	if err != nil {
		r.t.Fatal(err)
	}
	text = strings.NewReplacer(entry.String(), "ENTRY", subject, "SUBJECT").Replace(text)
	text = regexp.MustCompile(`orders/3/\d+`).ReplaceAllString(text, "orders/3/N")
	return regexp.MustCompile(`00-[0-9a-f]{32}-[0-9a-f]{16}-01`).ReplaceAllStringFunc(text, func(trace string) string {
		if trace == oldTrace {
			return trace
		}
		return "FRESH"
	})
}

// TestABatchIsTheSameAsOneByOne: which messages go and how, which are left alone and why, and in which order.
func TestABatchIsTheSameAsOneByOne(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	alone, together := r.messages(0), r.messages(70)
	mustExec(t, r.subject.pool, `alter table postrider.outbox_event add constraint picky check (payload <> 'picky' or id <= 1000)`)
	mustExec(t, r.subject.pool, `create or replace function postrider.outbox_max_payload_bytes() returns integer language sql immutable as 'select 100'`)

	one := map[string]dlq.SkipReason{}
	for name, entry := range alone {
		if done := r.redrive(entry); len(done.Skipped) == 1 {
			one[name] = done.Skipped[0].Reason
		}
	}
	want := map[string]dlq.SkipReason{"too large": dlq.PayloadTooLarge, "gone": dlq.EventGone, "too many hops": dlq.TooManyHops, "refused": dlq.Refused,
		"closed": dlq.NotPending, "on its way": dlq.AlreadyQueued, "unreadable": dlq.UnreadableHeaders, "foreign": dlq.NoTarget}
	if fmt.Sprint(one) != fmt.Sprint(want) {
		t.Errorf("alone: %v, want %v", one, want)
	}
	names := map[uuid.UUID]string{}
	var entries []uuid.UUID
	for name, entry := range together {
		names[entry], entries = name, append(entries, entry)
	}
	all := map[string]dlq.SkipReason{}
	done := r.redrive(entries...)
	for _, s := range done.Skipped {
		all[names[s.Entry]] = s.Reason
	}
	if fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("together: %v, want %v", all, want)
	}
	for name := range together {
		if all[name] != "" {
			continue
		}
		if a, b := r.written(alone[name]), r.written(together[name]); a != b {
			t.Errorf("%s: alone\n%s\ntogether\n%s", name, a, b)
		}
	}
	if text := r.written(together["traced"]); !strings.Contains(text, `["traceparent", "FRESH"], ["b", "2"], ["replay_of", "event:SUBJECT"], ["replay_id", "ENTRY:1"], ["postrider-hops", "1"], ["postrider-redrive-of", "event:SUBJECT"], ["replay_traceparent", "`+oldTrace+`"]]`) {
		t.Errorf("traced: %s", text)
	}
	if text := r.written(together["of a task"]); !strings.HasPrefix(text, "task|orders|") || !strings.Contains(text, "|7|00000000-0000-0000-0000-000000000007|pending|") {
		t.Errorf("of a task: %s", text)
	}
	origins := pgtest.Column[int64](t, r.subject.pool, `select l.outbox_id from postrider.dlq_redrive r join postrider.dlq_letter l on l.letter_id = r.letter_id
		where r.dlq_entry_uuid = any ($1) and l.outbox_id is not null and r.dlq_entry_uuid <> $2 order by r.outbox_id`, entries, together["on its way"])
	if len(origins) != len(entries)-len(want)-1 || !slices.IsSorted(origins) {
		t.Errorf("they go in the order %v", origins)
	}
	fresh := r.count(`select count(distinct h.pair->>1) from postrider.outbox_event o, jsonb_array_elements(o.headers) h(pair)
		where o.id > 1000 and h.pair->>0 = 'traceparent' and h.pair->>1 <> $1`, oldTrace)
	if fresh != 2 {
		t.Errorf("two traced messages have %d traces of their own", fresh)
	}
}

// TestABatchCountsEachOfThem: an operation over all that can happen to one notes each, in one batch and with one row of
// the audit log.
func TestABatchCountsEachOfThem(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(60)
	r.halt(7) // it holds key-0
	mustExec(t, r.subject.pool, `alter table postrider.outbox_event add constraint picky check (payload not in ('{"n":2}', '{"n":3}', '{"n":40}', '{"n":59}') or id <= 1000)`)
	if err := r.Resolve(t.Context(), entries[5]); err != nil {
		t.Fatal(err)
	}
	r.redrive(entries[6])
	o := r.plan(dlq.Scope{Entries: entries}, dlq.OperationOptions{})
	r.command(o.UUID, dlq.Start)
	audited := len(r.audit.actions)
	if n := r.step(); n != 60 || len(r.audit.actions) != audited+1 {
		t.Fatalf("%d were treated, %q", n, r.audit.actions[audited:])
	}
	reasons := map[string]int{}
	items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{}, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		reasons[i.State+" "+i.Reason]++
	}
	// Of key-0 there are 0, 7, 14, …, 56; all but 7 itself are behind it.
	want := map[string]int{"done ": 46, "failed refused": 4, "skipped not_pending": 1, "skipped already_queued": 1, "skipped key_halted": 8}
	if fmt.Sprint(reasons) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", reasons, want)
	}
	if o = r.operation(o.UUID); o.Done != 46 || o.Failed != 4 || o.Skipped != 10 {
		t.Errorf("%+v", o)
	}
	if n := r.count(`select count(*) from postrider.dlq_redrive where in_place`); n != 1 {
		t.Errorf("%d went back to their place", n)
	}
	if n := r.count(`select count(*) from postrider.dlq_redrive r join postrider.v_outbox_event e on e.id = r.outbox_id and e.event_id = r.event_id and e.state in ('pending', 'parked')`); n != 47 {
		t.Errorf("%d redrives have their event, want 47", n)
	}
	if out := r.sent(); len(out) != 46 {
		t.Errorf("%d were sent, want 45 and the one before", len(out))
	} else {
		for i, e := range out[2:] {
			if slices.Compare(e.Payload, out[i+1].Payload) < 0 && len(e.Payload) == len(out[i+1].Payload) {
				t.Errorf("%s goes after %s", e.Payload, out[i+1].Payload)
			}
		}
	}
}

// TestARedriveChangesNoInvestigation: no row of theirs is written anew, so none of their indexes is touched; they show
// the redrive all the same.
func TestARedriveChangesNoInvestigation(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(30)
	places := func() []string {
		return pgtest.Column[string](t, r.subject.pool, `select ctid::text || updated_at::text from postrider.dlq_entry order by dlq_entry_uuid`)
	}
	before := places()
	group := groupOf(t, r.subject, entries[0])
	wantState(t, r.people(), group, dlq.GroupNew, 30)
	for generation := 1; generation <= 2; generation++ {
		r.redrive(entries...)
		if got := places(); !slices.Equal(got, before) {
			t.Errorf("redrive %d changed investigations: %q, before %q", generation, got, before)
		}
		e, err := r.investigations.Show(t.Context(), entries[0])
		if err != nil || e.Generation != generation {
			t.Errorf("redrive %d: %+v, %v", generation, e, err)
		}
		listed, _, err := r.list(t.Context(), dlq.Filter{})
		if err != nil || len(listed) == 0 || listed[0].Generation != generation {
			t.Errorf("redrive %d: listed %+v, %v", generation, listed, err)
		}
		wantState(t, r.people(), group, dlq.GroupOngoing, 30)
		r.deliverAndForget(30) // no investigation is closed by rule
		if f, err := r.Follow(t.Context(), 100, false); err != nil || f.Delivered != 30 {
			t.Fatalf("%+v, %v", f, err)
		}
	}
	if p := r.plan(dlq.Scope{Entries: entries[:3]}, dlq.OperationOptions{}).Plan; p.Redriven != 3 {
		t.Errorf("the plan: %+v", p)
	}
}

// TestWhatIsBusyIsTreatedLater: batches begin behind the items that were treated, and not behind the items left for later.
func TestWhatIsBusyIsTreatedLater(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(10)
	r.halt(7)
	o := r.plan(dlq.Scope{Entries: []uuid.UUID{entries[1], entries[7], entries[8], entries[9]}}, dlq.OperationOptions{Rate: 20})
	r.command(o.UUID, dlq.Start)
	through := func(want int64) {
		t.Helper()
		if got := pgtest.Value[int64](t, r.subject.pool, `select treated_through from postrider.dlq_operation`); got != want {
			t.Errorf("it is treated up to %d, want %d", got, want)
		}
	}
	err := pgx.BeginFunc(t.Context(), r.subject.pool, func(tx pgx.Tx) error { // the relay has the key in work
		if _, err := tx.Exec(t.Context(), `select from postrider.outbox_exception where event_id = $1 for update`, dlqtest.EventID(7)); err != nil {
			return err
		}
		r.step()
		through(1)
		r.step()
		through(1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.operation(o.UUID); got.Done != 2 {
		t.Errorf("while the key is in work %d are done, want 1 and 8", got.Done)
	}
	r.step()
	r.step()
	through(4)
	if got := r.operation(o.UUID); got.Done != 4 || r.count(`select count(*) from postrider.dlq_redrive where in_place`) != 1 {
		t.Errorf("%+v", got)
	}
}
