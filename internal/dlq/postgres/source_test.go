package postgres

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// from is a dead letter that says it comes from a source, with headers in the place of its own.
func from(source string, r dlq.Record, headers ...string) dlq.Letter {
	for i := 0; i < len(headers); i += 2 {
		r.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h message.Header) bool { return h.Name == headers[i] })
		r.Headers = append(r.Headers, message.Header{Name: headers[i], Value: []byte(headers[i+1])})
	}
	return dlq.Decode(dlqtest.From(source, r))
}

// forged are dead letters that say of themselves that they come from another source, and name event n of this outbox by its id
// and its number. A source whose database is a copy of this one writes the same.
func forged(n int) map[string]dlq.Letter {
	payload := dlqtest.Event(n, 1)
	payload.Value = []byte(`{"n":666}`)
	reference := dlqtest.Event(n, 1)
	reference.Key, reference.Value = nil, nil
	return map[string]dlq.Letter{
		"other source":       from("orders", payload, message.HeaderPayloadBytes, "9"),
		"next episode first": from("billing", dlqtest.Event(n, 2)),
		"foreign topic":      from("mail", dlqtest.Event(n, 1), message.HeaderOriginTopic, "payments"),
		"only a reference": from("stock", reference, message.HeaderPayload, message.PayloadReference, message.HeaderKey, message.KeyReference,
			message.HeaderPayloadBytes, "7"),
	}
}

// standing is all that the outbox and the desk know of event n: it changes when anything acts on the event.
func (r *redriving) standing(n int, own uuid.UUID) string {
	r.t.Helper()
	return pgtest.Value[string](r.t, r.subject.pool, `select concat_ws(' ', x.state, x.episode, x.closed_at, x.updated_at, convert_from(x.payload, 'UTF8'), x.headers, '|', h.cause, h.asked, '|',
			e.resolution_status, e.occurrences, e.updated_at, '|', (select count(*) from postrider.dlq_redrive r where r.dlq_entry_uuid = e.dlq_entry_uuid))
		from postrider.outbox_exception x
		left join postrider.outbox_hold h on h.event_id = x.event_id
		left join postrider.dlq_entry e on e.dlq_entry_uuid = $2
		where x.id = $1`, outboxID(n), own)
}

// ways are all that people and operations do with an investigation.
func (r *redriving) ways() map[string]func(uuid.UUID) error {
	run := func(kind dlq.OperationKind, id uuid.UUID) error {
		o, err := r.PlanOperation(r.t.Context(), dlq.NewOperation{Kind: kind, Name: "n " + uuid.NewString(), Actor: "ada", Scope: dlq.Scope{Entries: []uuid.UUID{id}}})
		if err != nil {
			return err
		}
		if o.Plan.Halting != 0 {
			return errors.New("its plan has an event that halts its key")
		}
		r.command(o.UUID, dlq.Start)
		r.step()
		return nil
	}
	redrive := func(req dlq.RedriveRequest) error {
		req.Actor = "ada"
		_, err := r.Redrive(r.t.Context(), req)
		return err
	}
	return map[string]func(uuid.UUID) error{
		"redrive": func(id uuid.UUID) error { return redrive(dlq.RedriveRequest{Entries: []uuid.UUID{id}}) },
		"redrive edited": func(id uuid.UUID) error {
			return redrive(dlq.RedriveRequest{Entries: []uuid.UUID{id}, Edit: &dlq.Edit{Payload: []byte(`{"edited":1}`)}})
		},
		"redrive to its origin": func(id uuid.UUID) error {
			return redrive(dlq.RedriveRequest{Entries: []uuid.UUID{id}, Target: dlq.TargetOrigin})
		},
		"operation of redrives": func(id uuid.UUID) error { return run(dlq.OpRedrive, id) },
		"operation of closing":  func(id uuid.UUID) error { return run(dlq.OpResolve, id) },
		"operation of purging":  func(id uuid.UUID) error { return run(dlq.OpPurge, id) },
		"close": func(id uuid.UUID) error {
			_, err := r.people().Change(r.t.Context(), id, dlq.Change{Status: ref(dlq.Cancelled), Actor: "ada"})
			return err
		},
		"close its group": func(id uuid.UUID) error {
			_, err := r.people().ResolveGroup(r.t.Context(), groupOf(r.t, r.subject, id), dlq.GroupResolution{Actor: "ada"})
			return err
		},
		"purge": func(id uuid.UUID) error {
			_, err := r.people().Purge(r.t.Context(), dlq.Purge{Entries: []uuid.UUID{id}, Limit: 1, ReleaseKeys: true, Actor: "ada"})
			return err
		},
		"plain SQL": func(id uuid.UUID) error {
			_, err := r.subject.pool.Exec(r.t.Context(), `delete from postrider.dlq_entry where dlq_entry_uuid = $1`, id)
			return err
		},
	}
}

// TestAnotherSourceTouchesNoEventHere: whatever a letter of another source says, and whatever is done with its investigation, the
// event of this outbox with the same id and number stays as it is, and its investigation too; also if the letter came before the
// event's own. Afterwards that is redriven in its place, as it was.
func TestAnotherSourceTouchesNoEventHere(t *testing.T) {
	t.Parallel()
	for name := range forged(0) {
		for _, before := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRedriving(t)
				for n, way := range slices.Sorted(maps.Keys(r.ways())) {
					r.touchNothing(n, forged(n)[name], before, way)
				}
			})
		}
	}
}

// touchNothing records a forged letter about event n, which halts its key, and treats its investigation in a way.
func (r *redriving) touchNothing(n int, l dlq.Letter, before bool, way string) {
	r.t.Helper()
	var entry uuid.UUID
	if before {
		entry = r.record(l)
	}
	own := r.die(n, nil)
	if !before {
		entry = r.record(l)
	}
	r.halt(n)
	was := r.standing(n, own)
	if e, err := r.investigations.Show(r.t.Context(), entry); err != nil || entry == own || e.Source != l.Source || e.KeyHeld != nil && *e.KeyHeld {
		r.t.Fatalf("%s: its investigation is %+v, %v", way, e.Entry, err)
	}
	if err := r.ways()[way](entry); err != nil {
		r.t.Errorf("%s: %v", way, err)
	}
	if ids := r.waiting(100); len(ids) > 0 {
		outboxtest.Settle(r.t, r.subject.pool, outboxtest.Published, ids...)
	}
	r.follow()
	if now := r.standing(n, own); now != was {
		r.t.Errorf("%s, recorded before: %v: the event stands\n%s\nand stood\n%s", way, before, now, was)
	}
	for _, e := range r.sent() {
		if e.EventID == dlqtest.EventID(n) || l.Payload == nil {
			r.t.Errorf("%s: sent was %+v", way, e)
		}
	}
	if r.redrive(own); r.count(`select count(*) from postrider.dlq_redrive where dlq_entry_uuid = $1 and in_place and not edited`, own) != 1 {
		r.t.Errorf("%s: the event itself does not go back to its place", way)
	}
	r.settle(outboxtest.Published, n)
	mustExec(r.t, r.subject.pool, `delete from postrider.outbox_hold`)
}

// TestALetterIsNotBelieved: a forger who may write where relays do says that an event was given up once more, with other content, and
// names an event that is not there. What the outbox has is sent, and nothing else; an event that halts its key goes back to its place.
func TestALetterIsNotBelieved(t *testing.T) {
	t.Parallel()
	for name, halts := range map[string]bool{"in its place": true, "as a new event": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRedriving(t)
			own := r.die(1, nil)
			if halts {
				r.halt(1)
			}
			next := dlqtest.Event(1, 2)
			next.Key, next.Value = []byte("forged"), []byte(`{"n":666}`)
			next.Headers = append(next.Headers, message.Header{Name: "forged", Value: []byte("x")}, message.Header{Name: message.HeaderRedriveOf, Value: []byte("event:" + dlqtest.EventID(9).String())})
			if entry := r.record(from(dlq.MainSource, next, message.HeaderPayloadBytes, "9")); entry != own {
				t.Fatal("it is not the newest letter")
			}
			nowhere := r.record(dlq.Decode(dlqtest.Event(2, 1)))
			for _, req := range []dlq.RedriveRequest{{}, {Target: "elsewhere"}, {Edit: &dlq.Edit{Payload: []byte("x")}}} {
				req.Entries, req.Actor = []uuid.UUID{nowhere}, "ada"
				if done, err := r.Redrive(t.Context(), req); err != nil || len(done.Skipped) != 1 || done.Skipped[0].Reason != dlq.EventGone {
					t.Errorf("an event that is not there: %+v, %v", done, err)
				}
			}
			if would, err := r.Preview(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{own, nowhere}, Actor: "ada"}); err != nil || len(would.Entries) != 1 || len(would.Skipped) != 1 {
				t.Errorf("foreseen: %+v, %v", would, err)
			}
			if done := r.redrive(own); len(done.Entries) != 1 {
				t.Fatalf("%+v", done)
			}
			if halts {
				if got := r.count(`select count(*) from postrider.outbox_exception where state <> 'dead_lettered' and episode = 1 and convert_from(coalesce(payload, '{"n":1}'), 'UTF8') = '{"n":1}'`); got != 1 || len(r.sent()) != 0 {
					t.Errorf("%d events went back to their place, %d were sent", got, len(r.sent()))
				}
				if got := r.count(`select count(*) from postrider.dlq_redrive where in_place and episode = 1`); got != 1 {
					t.Error("it is noted with what its letter says")
				}
				return
			}
			e := r.sent()[0]
			if len(r.sent()) != 1 || string(e.Payload) != `{"n":1}` || string(e.Key) != "key-1" || headerOf(e, "forged") != "" || headerOf(e, "trace") != "x" ||
				headerOf(e, message.HeaderRedriveOf) != "event:"+dlqtest.EventID(1).String() {
				t.Errorf("sent was %+v", e)
			}
		})
	}
}

// TestTheBytesOfAnotherSource: what a letter of another source only refers to is not looked for in this outbox.
func TestTheBytesOfAnotherSource(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.die(7, nil)
	entry := r.record(forged(7)["only a reference"])
	would, err := r.Preview(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry}, Actor: "ada"})
	if err != nil || len(would.Entries) != 1 {
		t.Errorf("foreseen: %+v, %v", would, err)
	}
	if done := r.redrive(entry); len(done.Asked) != 1 || len(r.sent()) != 0 {
		t.Errorf("redriven: %+v, and this outbox sends %d events", done, len(r.sent()))
	}
	l, err := r.investigations.Reveal(t.Context(), dlq.RevealRequest{Entry: entry, Actor: "ada"})
	if err != nil || l.Payload != nil || l.PayloadKind != dlq.Reference || l.Key != nil || l.Source != "stock" || *l.SourceOutboxID != outboxID(7) || l.OutboxID != nil {
		t.Errorf("shown: %+v, %v", l, err)
	}
}

// TestFunctionsKnowAnotherSource: what the functions of the schema are told by hand, and what plain SQL may write.
func TestFunctionsKnowAnotherSource(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	own := r.die(7, nil)
	r.halt(7)
	l := forged(7)["other source"]
	entry := r.record(l)
	mustExec(t, r.subject.pool, `select postrider.outbox_redrive($1)`, outboxID(7))
	for name, sql := range map[string]string{
		"note in place":       `begin; select postrider.outbox_redrive($1); select postrider.dlq_note_redrives(null, 'ada', array[$2::uuid], array[$3], array[$1::bigint], array[$4::uuid], '{true}', '{1}', '{orders}', '{false}')`,
		"amend":               `begin; select postrider.outbox_redrive($1); select postrider.dlq_amend($3, true, 'x', null)`,
		"name an own event":   `update postrider.dlq_letter set outbox_id = $1 where letter_id = $3`,
		"take an own id":      `update postrider.dlq_letter set letter_id = 'event:' || $4 || ':9' where letter_id = $3`,
		"take an own task":    `update postrider.dlq_entry set task_uuid = $4 where dlq_entry_uuid = $2`,
		"take an own event":   `update postrider.dlq_entry set subject_id = $4 where dlq_entry_uuid = $2`,
		"a source of no name": `update postrider.dlq_entry set source = 'Orders', subject_id = 'Orders/x' where dlq_entry_uuid = $2`,
	} {
		conn, err := r.subject.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("$1", "8", "$2", "'"+entry.String()+"'", "$3", "'"+l.ID+"'", "$4", "'"+l.EventID.String()+"'").Replace(sql)
		if _, err := conn.Conn().PgConn().Exec(t.Context(), text).ReadAll(); err == nil {
			t.Errorf("%s: it was done", name)
		}
		if _, err := conn.Exec(t.Context(), "rollback"); err != nil {
			t.Error(err)
		}
		conn.Release()
	}
	if e, err := r.investigations.Show(t.Context(), own); err != nil || e.Source != dlq.MainSource || e.Letters[0].Source != dlq.MainSource {
		t.Errorf("the own one: %+v, %v", e, err)
	}
}

// TestRedrivesOfOthersAreNotEnded: a redrive is on its way, and letters of another source say that it was given up: by its event,
// before the true letter comes, and by the header of its message.
func TestRedrivesOfOthersAreNotEnded(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.die(1, nil)
	r.redrive(entry)
	sent := r.sent()[0]
	event := r.record(from("orders", dlqtest.Event(50, 1), message.HeaderEventID, sent.EventID.String()))
	claim := message.Header{Name: dlq.HeaderReplayID, Value: []byte(entry.String() + ":1")}
	claimed := r.record(from("orders", givenUpBy(t, "billing", 9, dlq.Place{}, claim)))
	inEvent := dlqtest.Event(51, 1)
	inEvent.Headers = append(inEvent.Headers, claim)
	claimedToo := r.record(from("orders", inEvent))
	for name, id := range map[string]uuid.UUID{"its event": event, "a record": claimed, "another event": claimedToo} {
		if e, err := r.investigations.Show(t.Context(), id); err != nil || e.PredecessorUUID != uuid.Nil || e.Status != dlq.Pending {
			t.Errorf("%s: it comes from %s, %v", name, e.PredecessorUUID, err)
		}
	}
	r.dieAgain(1)
	if why := r.skipped(entry); why != dlq.AlreadyQueued {
		t.Errorf("without its true letter: %s", why)
	}
	if err := r.Resolve(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	if again := r.record(letterOf(sent, 60)); r.skipped(entry) != dlq.NotPending || again == event {
		t.Error("its true letter did not open the investigation that goes on")
	}

	// Delivered: nothing that another source writes says that it came back.
	entry = r.die(2, nil)
	r.redrive(entry)
	r.record(from("orders", givenUpBy(t, "billing", 10, dlq.Place{}, message.Header{Name: dlq.HeaderReplayID, Value: []byte(entry.String() + ":1")})))
	r.settleSent(outboxtest.Published, 1)
	if f, err := r.Follow(t.Context(), 10, true); err != nil || f != (dlq.Followed{Delivered: 1}) {
		t.Errorf("delivered: %+v, %v", f, err)
	}

	// A message of the same source says the truth about it, and one of another does not.
	other := r.record(from("orders", dlqtest.Event(52, 1)))
	r.redrive(other)
	for offset, source := range []string{"orders", "billing", dlq.MainSource} {
		id := r.record(from(source, givenUpBy(t, "billing", int64(11+offset), dlq.Place{}, message.Header{Name: dlq.HeaderReplayID, Value: []byte(other.String() + ":1")})))
		if e, err := r.investigations.Show(t.Context(), id); err != nil || (e.PredecessorUUID == other) != (source == "orders") {
			t.Errorf("from %s: it comes from %s, %v", source, e.PredecessorUUID, err)
		}
	}
}

// TestTheDeskSendsRecordsOfSources: a record of a source goes out by the desk's outbox. An event of the source with the same id, as a
// copy of the desk's database has it, says nothing about that.
func TestTheDeskSendsRecordsOfSources(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	record := r.record(from("orders", givenUpBy(t, "billing", 9, dlq.Place{})))
	r.redrive(record)
	sent := r.sent()[0]
	event := r.record(from("orders", dlqtest.Event(53, 1), message.HeaderEventID, sent.EventID.String()))
	if e, err := r.investigations.Show(t.Context(), event); err != nil || e.PredecessorUUID != uuid.Nil {
		t.Errorf("it comes from %s, %v", e.PredecessorUUID, err)
	}
	if why := r.skipped(record); why != dlq.AlreadyQueued {
		t.Errorf("the record on its way: %s", why)
	}
}

// TestTasksOfAnotherSource are not those of this database with the same ids: it is told nothing of them, and shows none.
func TestTasksOfAnotherSource(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	task := dlqtest.EventID(1)
	mustExec(t, r.subject.pool, `insert into postrider.tasker_undelivered_events (event_id, episode, task_uuid, topic, attempts, outcome, detail)
		values ($1, 1, $2, 'orders', 1, 'waiting', '')`, dlqtest.EventID(2), task)
	foreign := r.record(from("orders", dlqtest.Event(2, 1), message.HeaderTaskUUID, task.String()))
	wrapped, inside := dlqtest.Event(2, 1), dlqtest.Task(3, 1) // a task's dead letter that could not be delivered itself
	wrapped.Value, wrapped.Headers = inside.Value, append(wrapped.Headers, inside.Headers[:2]...)
	if l := from("orders", wrapped, message.HeaderPayloadBytes, strconv.Itoa(len(inside.Value))); r.record(l) == foreign || l.Subject.Type != dlq.SubjectTask {
		t.Errorf("%+v", l)
	}
	if n := r.count(`select count(*) from postrider.tasker_letter`); n != 0 {
		t.Errorf("tasks were told of %d letters of another source", n)
	}
	about := r.record(from("orders", dlqtest.Task(1, 1)))
	for _, id := range []uuid.UUID{foreign, about} {
		if e, err := r.investigations.Show(t.Context(), id); err != nil || e.TaskUUID != uuid.Nil || e.Source != "orders" {
			t.Errorf("%+v, %v", e.Entry, err)
		}
		if page, err := r.investigations.GroupTasks(t.Context(), dlq.GroupTasks{Group: groupOf(t, r.subject, id), Limit: 10}); err != nil || len(page.Tasks) != 0 {
			t.Errorf("tasks of its group: %v, %v", page, err)
		}
	}
	if _, err := r.investigations.ShowTask(t.Context(), task); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("the investigation of the task: %v", err)
	}
	if why := r.skipped(about); why != dlq.TaskSubject {
		t.Errorf("redriven: %s", why)
	}
	own := r.record(dlqtest.Letters(dlqtest.Task(1, 1))[0])
	r.record(dlqtest.Letters(dlqtest.Event(2, 1))[0])
	if e, err := r.investigations.ShowTask(t.Context(), task); err != nil || own == about || e.Source != dlq.MainSource {
		t.Errorf("its own: %+v, %v", e.Entry, err)
	}
	if n := r.count(`select count(*) from postrider.tasker_tasks_dlq`); n != 1 {
		t.Errorf("the view shows %d investigations of tasks, want 1", n)
	}
	if letters := pgtest.Column[string](t, r.subject.pool, `select letter_id from postrider.tasker_letter`); !slices.Equal(letters, []string{"event:" + dlqtest.EventID(2).String() + ":1"}) {
		t.Errorf("tasks know the letters %q", letters)
	}
}

// TestEachSourceHasItsOwn: three databases that are copies of one another give up the same events. Each has its investigations and
// its group; a copy of a letter changes nothing. A filter selects a source in lists, groups, operations and purges, and no groups
// of two sources are merged.
func TestEachSourceHasItsOwn(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	sources := []string{dlq.MainSource, "billing", "orders"}
	entries, groups := map[string][]uuid.UUID{}, map[string]uuid.UUID{}
	for _, copies := range []int{1, 2} {
		for _, source := range sources {
			for n := range 3 {
				entry := r.record(from(source, dlqtest.Event(n, 1)))
				if copies == 1 {
					entries[source] = append(entries[source], entry)
				} else if entry != entries[source][n] {
					t.Errorf("%s: a copy opened %s", source, entry)
				}
			}
			groups[source] = groupOf(t, r.subject, entries[source][0])
		}
	}
	if n := r.count(`select count(*) from postrider.dlq_entry`); n != 9 {
		t.Fatalf("%d investigations, want 9", n)
	}
	for _, source := range sources {
		g, err := d.ShowGroup(t.Context(), groups[source])
		if err != nil || g.Source != source || g.Total != 3 || g.Pending != 3 || g.Occurrences != 3 || len(g.Related) != 0 {
			t.Errorf("%s: %+v, %v", source, g.Group, err)
		}
		list, err := d.ListGroups(t.Context(), dlq.GroupSearch{Source: source})
		if err != nil || list.Total != 1 || list.Groups[0].UUID != groups[source] {
			t.Errorf("%s: groups %+v, %v", source, list, err)
		}
		for _, f := range []dlq.Filter{{Source: source}, {Source: source, Topic: "orders", Status: dlq.Pending}, {Source: source, Message: "refused for"}, {Source: source, Word: "invalid_record"}, {Source: source, Group: groups[source]}} {
			page, err := d.Find(t.Context(), dlq.Search{Filter: f})
			if err != nil || page.Total != 3 || !page.TotalExact || len(page.Entries) != 3 {
				t.Errorf("%+v: %+v, %v", f, page, err)
			}
			for _, e := range page.Entries {
				if e.Source != source || !slices.Contains(entries[source], e.UUID) {
					t.Errorf("%+v: it has %s of %s", f, e.UUID, e.Source)
				}
			}
			o := r.plan(dlq.Scope{Filter: &f}, dlq.OperationOptions{})
			items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{}, 0, 10)
			if err != nil || len(items) != 3 || o.Scope.Filter == nil || o.Scope.Filter.Source != source {
				t.Errorf("%+v: in the scope are %+v, %v", f, items, err)
			}
		}
		for _, into := range sources {
			if into == source {
				continue
			}
			if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: groups[source], Into: groups[into], Actor: "ada"}); !errors.Is(err, dlq.ErrRequest) || !strings.Contains(err.Error(), "source") {
				t.Errorf("%s into %s: %v", source, into, err)
			}
			if page, err := d.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Source: source, Group: groups[into]}}); err != nil || len(page.Entries) != 0 {
				t.Errorf("of %s in the group of %s: %+v, %v", source, into, page, err)
			}
		}
		if _, err := r.subject.pool.Exec(t.Context(), `select postrider.dlq_split_group($1, $2, '{1:x}', 1, '{"source": "mail"}', 't', 'w', 'ada')`, groups[source], entries[source][:1]); err == nil {
			t.Errorf("%s: a part of its group went to another source", source)
		}
	}
	if page, err := d.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Source: "mail"}}); err != nil || page.Total != 0 || len(page.Entries) != 0 {
		t.Errorf("a source that wrote nothing: %+v, %v", page, err)
	}
	done, err := d.Purge(t.Context(), dlq.Purge{OlderThan: time.Now().Add(time.Minute), Filter: dlq.Filter{Source: "orders"}, Limit: 10, ReleaseKeys: true, Actor: "ada"})
	if left := r.count(`select count(*) from postrider.dlq_entry where source <> 'orders'`); err != nil || done.Entries != 3 || left != 6 {
		t.Errorf("purged: %+v, %v; %d are left of others", done, err, left)
	}
}

// TestARecordKeepsItsFirstSource: a record is the same, whatever a letter about it says of its source.
func TestARecordKeepsItsFirstSource(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	first := r.record(from("orders", givenUpBy(t, "billing", 1, dlq.Place{})))
	for i, source := range []string{"mail", dlq.MainSource} {
		if again := r.record(from(source, givenUpBy(t, "billing", 1, dlq.Place{Topic: "orders.billing.retry", Offset: int64(i + 1)}))); again != first {
			t.Errorf("%s opened another", source)
		}
	}
	e, err := r.investigations.Show(t.Context(), first)
	if err != nil || e.Source != "orders" || e.Occurrences != 3 || e.Letters[0].Source != dlq.MainSource || e.Letters[2].Source != "orders" {
		t.Errorf("%+v, %v", e, err)
	}
	if g, err := r.investigations.ShowGroup(t.Context(), e.GroupUUID); err != nil || g.Source != "orders" {
		t.Errorf("%+v, %v", g, err)
	}
}
