package postgres

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// count returns how many rows a query counts.
func (r *redriving) count(sql string, args ...any) int {
	r.t.Helper()
	return pgtest.Value[int](r.t, r.subject.pool, sql, args...)
}

// TestRedrivesGoWithTheirInvestigation: redrives that ended go at once, and a redrive on its way goes when it ends. Its
// operation does not wait for it in vain.
func TestRedrivesGoWithTheirInvestigation(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	ended, underWay, other := r.die(1, nil), r.die(2, nil), r.die(3, nil)
	r.redrive(ended)
	r.deliver(1)
	r.redrive(other)
	o := r.plan(dlq.Scope{Entries: []uuid.UUID{underWay}}, dlq.OperationOptions{})
	r.command(o.UUID, dlq.Start)
	r.step()
	for _, entry := range []uuid.UUID{ended, underWay} {
		if err := r.Purge(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.count(`select count(*) from postrider.dlq_redrive where dlq_entry_uuid = $1`, ended); n != 0 {
		t.Errorf("%d redrives of a purged investigation are left", n)
	}
	if n := r.count(`select count(*) from postrider.dlq_redrive where dlq_entry_uuid = $1`, underWay); n != 1 {
		t.Errorf("%d redrives are on their way, want 1", n)
	}
	r.deliver(2)
	r.step()
	if got := r.operation(o.UUID); got.State != dlq.Completed || got.Delivered != 1 {
		t.Errorf("the operation: %+v", got)
	}
	if n := r.count(`select count(*) from postrider.dlq_redrive where dlq_entry_uuid = $1`, underWay); n != 0 {
		t.Errorf("%d redrives that ended after the purge are left", n)
	}
	if n := r.count(`select count(*) from postrider.dlq_redrive where dlq_entry_uuid = $1 and outcome = 'delivered'`, other); n != 1 {
		t.Errorf("%d redrives of what was not purged, want 1", n)
	}
}

// TestOldOperationsAreRemoved, part by part; operations that did not end, or ended lately, stay, and so do redrives.
func TestOldOperationsAreRemoved(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(25)
	run := func(end bool) uuid.UUID {
		o := r.plan(dlq.Scope{Entries: entries}, dlq.OperationOptions{})
		r.command(o.UUID, dlq.Start)
		r.step()
		if end {
			r.deliver(len(entries))
			r.step()
		}
		return o.UUID
	}
	aborted, open := r.plan(dlq.Scope{Entries: entries[:3]}, dlq.OperationOptions{}).UUID, r.plan(dlq.Scope{Entries: entries[:3]}, dlq.OperationOptions{}).UUID
	first := run(true)
	r.command(aborted, dlq.Abort)
	const keep = 90 * 24 * time.Hour
	if n, more, err := r.ForgetOperations(t.Context(), keep, 10); err != nil || n != 0 || more {
		t.Fatalf("what ended lately: %d, %v, %v", n, more, err)
	}
	mustExec(t, r.subject.pool, `update postrider.dlq_operation set finished_at = now() - interval '91 days', created_at = now() - interval '91 days', updated_at = now() where dlq_operation_uuid <> $1 and finished_at is not null`, open)
	mustExec(t, r.subject.pool, `update postrider.dlq_operation set created_at = now() - interval '900 days', updated_at = now() where dlq_operation_uuid = $1`, open)
	gone, calls := 0, 0
	for more := true; more; calls++ {
		n, again, err := r.ForgetOperations(t.Context(), keep, 10)
		if err != nil || calls > 20 {
			t.Fatalf("call %d: %v", calls, err)
		}
		gone, more = gone+n, again
	}
	if gone != 2 || calls < 5 { // 25 items and 25 redrives, ten at a time
		t.Errorf("%d operations were removed in %d calls", gone, calls)
	}
	for id, want := range map[uuid.UUID]int{first: 0, aborted: 0, open: 1} {
		if n := r.count(`select count(*) from postrider.dlq_operation where dlq_operation_uuid = $1`, id); n != want {
			t.Errorf("operation %s: %d rows, want %d", id, n, want)
		}
	}
	if n := r.count(`select count(*) from postrider.dlq_operation_item`); n != 3 {
		t.Errorf("%d items are left, want the items of the open one", n)
	}
	if n := r.count(`select count(*) from postrider.dlq_redrive where dlq_operation_uuid is null and outcome = 'delivered'`); n != 25 {
		t.Errorf("%d redrives are left, want 25", n)
	}
}

// TestGoneMeansGone: however an investigation is removed, the database has nothing of its message any more, and a late copy
// of its dead letter opens nothing.
func TestGoneMeansGone(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(r *redriving, entry uuid.UUID) error{
		"purged by id": func(r *redriving, entry uuid.UUID) error {
			_, err := r.investigations.Purge(t.Context(), dlq.Purge{Entries: []uuid.UUID{entry}, Limit: 1, Actor: "ada"})
			return err
		},
		"purged by age": func(r *redriving, _ uuid.UUID) error {
			done, err := r.investigations.Purge(t.Context(), dlq.Purge{OlderThan: time.Now().Add(time.Minute), Limit: 10, Actor: "ada"})
			if done.Entries != 1 {
				err = fmt.Errorf("%+v, %w", done, err)
			}
			return err
		},
		"purged by an operation": func(r *redriving, entry uuid.UUID) error {
			o, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpPurge, Name: "leak", Actor: "ada", Scope: dlq.Scope{Entries: []uuid.UUID{entry}}})
			if err == nil {
				r.command(o.UUID, dlq.Start)
				r.step()
			}
			return err
		},
		"retention": func(r *redriving, entry uuid.UUID) error {
			mustExec(t, r.subject.pool, `update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now() - interval '91 days'`)
			_, _, err := r.ForgetClosed(t.Context(), 90*24*time.Hour, 10)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRedriving(t)
			l := dlqtest.Letters(dlqtest.Event(1, 1))[0]
			l.Key, l.Payload, l.ErrorMessage = []byte("SECRET key"), []byte("SECRET payload"), "SECRET message"
			l.Headers = []message.Header{{Name: "x-user", Value: []byte("SECRET header")}}
			entry := r.record(l)
			if n := r.count(`select count(*) from postrider.dlq_letter where content_hash is null and payload = 'SECRET payload'`); n != 1 {
				t.Fatalf("%d letters have the message before, want 1", n)
			}
			if err := remove(r, entry); err != nil {
				t.Fatal(err)
			}
			for _, table := range []string{"dlq_entry", "dlq_letter", "dlq_redrive", "access_audit"} {
				if n := r.count(`select count(*) from postrider.` + table + ` t where t::text like '%SECRET%' or t::text like '%' || encode('SECRET', 'hex') || '%'`); n != 0 {
					t.Errorf("%d rows of %s have something of the message", n, table)
				}
			}
			if n := r.count(`select count(*) from postrider.dlq_letter where letter_id = $1 and dlq_entry_uuid is null and key_kind = 'removed' and payload_kind = 'removed'
				and content_hash = sha256(sha256('SECRET key') || sha256('SECRET payload') || sha256(convert_to('[["x-user", "SECRET header"]]', 'UTF8')))`, l.ID); n != 1 {
				t.Error("the letter's id and hash are not there")
			}
			if got, err := r.RecordLetters(t.Context(), []dlq.Letter{l}); err != nil || got.Repeated != 1 || got.New != 0 {
				t.Errorf("a late copy: %+v, %v", got, err)
			}
		})
	}
}

// TestOldInvestigationsAreRemoved in portions, once they have been closed for long enough. Pending ones stay, however old.
func TestOldInvestigationsAreRemoved(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := r.many(12)
	mustExec(t, r.subject.pool, `update postrider.dlq_entry set created_at = now() - interval '900 days'`)
	mustExec(t, r.subject.pool, `update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now() - interval '91 days' where dlq_entry_uuid = any ($1)`, entries[:7])
	mustExec(t, r.subject.pool, `update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now() - interval '89 days' where dlq_entry_uuid = any ($1)`, entries[7:10])
	var got []int
	for more := true; more; {
		n, again, err := r.ForgetClosed(t.Context(), 90*24*time.Hour, 3)
		if err != nil || len(got) > 9 {
			t.Fatalf("calls removed %v; %v", got, err)
		}
		got, more = append(got, n), again
	}
	if fmt.Sprint(got) != "[3 3 1]" {
		t.Errorf("the calls removed %v", got)
	}
	if n := r.count(`select count(*) from postrider.dlq_entry where dlq_entry_uuid = any ($1)`, entries[7:]); n != 5 {
		t.Errorf("%d are left, want 5", n)
	}
	if n := r.count(`select sum(entries) from postrider.dlq_count`); n != 5 {
		t.Errorf("%d are counted, want 5", n)
	}
}

// TestOnlyLettersOfInvestigationsAreSent: functions that people may call with their own rights write only the message of
// a pending investigation, marked as redriven, and no second one while the first is on its way.
func TestOnlyLettersOfInvestigationsAreSent(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	closed, purged, underWay, pending := r.die(1, nil), r.die(2, nil), r.die(3, nil), r.die(4, nil)
	if err := errors.Join(r.Resolve(t.Context(), closed), r.Purge(t.Context(), purged)); err != nil {
		t.Fatal(err)
	}
	r.redrive(underWay)
	before := len(r.sent())
	redrive := func(letter string) error {
		var id int64
		return r.subject.pool.QueryRow(t.Context(), `select r.id from postrider.dlq_redrive_letters(array[$1], array[gen_random_uuid()], array['orders'], array['[["replay_id", "mine"], ["postrider-event-id", "mine"], ["h", "v"]]'::jsonb], true, 'anything') r`, letter).Scan(&id)
	}
	letterOf := func(n int) (id string) {
		if err := r.subject.pool.QueryRow(t.Context(), `select letter_id from postrider.dlq_letter where outbox_id = (select id from postrider.outbox_event order by id limit 1 offset $1)`, n-1).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	for name, letter := range map[string]string{"of no event": "event:none:1", "closed": letterOf(1), "purged": letterOf(2), "on its way": letterOf(3)} {
		var refused *pgconn.PgError
		if err := redrive(letter); !errors.As(err, &refused) || refused.Code != "55000" || refused.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(r.sent()); n != before {
		t.Errorf("%d events were written", n-before)
	}
	if err := redrive(letterOf(4)); err != nil {
		t.Fatal(err)
	}
	out := r.sent()
	if got := fmt.Sprint(out[len(out)-1].Headers); got != fmt.Sprintf("[[h v] [replay_of event:%s] [replay_id %s:1] [postrider-hops 1] [postrider-redrive-of event:%[1]s]]", eventOf(t, r, pending), pending) {
		t.Errorf("the headers are %s", got)
	}
}

func eventOf(t *testing.T, r *redriving, entry uuid.UUID) (id string) {
	t.Helper()
	if err := r.subject.pool.QueryRow(t.Context(), `select subject_id from postrider.dlq_entry where dlq_entry_uuid = $1`, entry).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}
