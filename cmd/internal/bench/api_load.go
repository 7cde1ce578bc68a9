package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

const (
	// apiGroups are the groups of investigations, of apiTopics topics and templates; a tenth of these are templates.
	apiGroups, apiTopics = 2000, 500
	// apiSlice is how many investigations are loaded in one transaction.
	apiSlice = 100_000
	// outageMessage is that of the old outage, and outageWords a part of it.
	outageMessage, outageWords = "payments database refused the connection: too many clients already", "refused the CONNECTION: too many"
	// absentWords are in no message.
	absentWords = "zebra crossing the network"
)

// apiFault is one way to fail; % in the message is a number of the case.
type apiFault struct {
	code, class, message string
	reason               dlq.Reason
}

var apiFaults = []apiFault{
	{"REQUEST_TIMED_OUT", "infrastructure", "request to the payments service timed out after 5000 ms, order % is open", dlq.MaxRetriesExceeded},
	{"INVALID_RECORD", "permanent", "schema refused order %: field customer.address.zip is required", dlq.Undeliverable},
	{"RECORD_TOO_LARGE", "permanent", "the record of order % has 2097152 bytes, the topic takes 1048588", dlq.Undeliverable},
	{"", "record", "Insufficient stock for order % in warehouse north", dlq.MaxRetriesExceeded},
	{"HTTP_503", "infrastructure", "inventory service answered 503 Service Unavailable to order %", dlq.MaxRetriesExceeded},
	{"SQLSTATE_40001", "record", "could not serialize access due to concurrent update of account %", dlq.MaxRetriesExceeded},
	{"UNKNOWN_TOPIC_OR_PARTITION", "route", "this server does not host this topic-partition", dlq.MaxRetriesExceeded},
	{"CARD_DECLINED", "record", "the bank declined the card of customer %: do not honour", dlq.MaxRetriesExceeded},
}

// staleStates are where tasks got stuck.
var staleStates = []string{"steps_in_process", "waiting_for_retry", "waiting_for_dependencies", "pending"}

// letter is the sample of a group.
func (f apiFault) letter(group int) dlq.Letter {
	at := group % apiTopics
	l := dlq.Letter{ErrorCode: f.code, ErrorClass: f.class, ErrorMessage: f.message, Reason: f.reason, OriginTopic: fmt.Sprintf("shop.topic-%03d", at)}
	if at%10 == 9 {
		l.OriginTopic, l.Template, l.Reason = "", fmt.Sprintf("shop/task_%03d", at), dlq.StalenessTimeout
		l.ErrorCode, l.ErrorMessage = "STALE_STATE", "task % is in "+staleStates[group/apiTopics%len(staleStates)]+" for 47 minutes, the threshold is 30"
	}
	return l
}

// loadAPI writes groups, investigations and letters. The investigations of the old outage are a fifth of all, behind the
// first tenth; the others are spread over 90 days and over the groups. A few groups have many.
func (d *database) loadAPI(ctx context.Context, n int) error {
	if err := d.exec(ctx, "create temporary table fault (g integer primary key, fingerprint text, topic text, code text, class text, message text, reason text, subject text)",
		"select setseed(0.5)"); err != nil {
		return err
	}
	if err := d.loadAPIGroups(ctx); err != nil {
		return err
	}
	err := d.bulk(ctx, func() error {
		for from := 0; from < n; from += apiSlice {
			if _, err := d.conn.Exec(ctx, apiEntriesSQL, from, min(from+apiSlice, n), n, d.rig.o.payload); err != nil {
				return err
			}
		}
		return nil
	}, "postrider.dlq_entry", "postrider.dlq_letter")
	if err != nil {
		return err
	}
	return d.exec(ctx, "drop table fault", "vacuum (analyze) postrider.dlq_entry, postrider.dlq_letter, postrider.dlq_group",
		"select postrider.dlq_recount()", "vacuum (analyze) postrider.dlq_group, postrider.dlq_count, postrider.dlq_hour", "checkpoint")
}

func (d *database) loadAPIGroups(ctx context.Context) error {
	var groups, faults [][]any
	then := time.Now().Add(-90 * 24 * time.Hour)
	for g := range apiGroups {
		fault := apiFaults[g/apiTopics*2+g%2]
		l := fault.letter(g)
		if g == 0 {
			l.ErrorCode, l.ErrorMessage = "SQLSTATE_53300", outageMessage
		}
		f := dlq.FingerprintOf(&l)
		subject := "event"
		if l.Template != "" {
			subject = "task"
		}
		groups = append(groups, []any{f.ID, dlq.FingerprintVersion, f.Parts, f.Parts.Title(), orNull(l.OriginTopic), orNull(l.ErrorCode), dlq.Word(l.ErrorCode, l.ErrorMessage), then, then})
		faults = append(faults, []any{g, f.ID, orNull(l.OriginTopic), orNull(l.ErrorCode), l.ErrorClass, l.ErrorMessage, string(l.Reason), subject})
	}
	if _, err := d.conn.CopyFrom(ctx, pgx.Identifier{"postrider", "dlq_group"}, strings.Fields("fingerprint fingerprint_version parts title topic error_code word first_seen_at last_seen_at"),
		pgx.CopyFromRows(groups)); err != nil {
		return err
	}
	_, err := d.conn.CopyFrom(ctx, pgx.Identifier{"fault"}, strings.Fields("g fingerprint topic code class message reason subject"), pgx.CopyFromRows(faults))
	return err
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// apiEntriesSQL writes the investigations from $1 up to $2 of $3, with letters of $4 bytes.
const apiEntriesSQL = `
with numbered as materialized (
	select n, n >= $3 / 10 and n < $3 / 10 + $3 / 5 as outage, random() as luck, random() as fate, random() as share
	from generate_series($1::bigint, $2::bigint - 1) n
), placed as materialized (
	select n, luck, fate, outage, case when outage then 0 else 1 + floor(share ^ 3 * 1999)::integer end as g,
		now() - interval '90 days' + case
			when n < $3 / 10 then n * (interval '9 days' / greatest($3 / 10, 1))
			when outage then interval '9 days' + (n - $3 / 10) * (interval '3 hours' / greatest($3 / 5, 1))
			else interval '9 days 3 hours' + (n - $3 / 10 - $3 / 5) * (interval '80 days 21 hours' / ($3 - $3 / 10 - $3 / 5)) end as at
	from numbered
), settled as (
	select p.*, f.*, gen_random_uuid() as subject_id,
		case when p.outage and fate < 0.99 or not p.outage and fate < case when at > now() - interval '2 days' then 0.4 else 0.85 end
			then (array['manually_resolved', 'manually_resolved', 'manually_resolved', 'permanently_failed', 'cancelled'])[1 + floor(luck * 5)::integer]
			else 'pending' end as status,
		least(at + luck * interval '30 hours', now()) as ended
	from placed p join fault f using (g)
), entries as (
	insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, dlq_group_uuid, topic, error_code,
		error_message, resolution_status, resolution_timestamp, resolved_by, created_at, updated_at, assignee, attempts)
	select s.subject, s.subject_id::text, 'failed', s.reason::postrider.dlq_reason, s.at, s.at,
		jsonb_build_object('payload', jsonb_build_object('order', s.n, 'text', repeat('x', $4)), 'attempts', 5), x.dlq_group_uuid, s.topic, s.code,
		replace(s.message, '%', s.n::text), s.status::postrider.dlq_resolution_status, case when s.status <> 'pending' then s.ended end,
		case when s.status <> 'pending' then 'ada' end, s.at, case when s.status <> 'pending' then s.ended else s.at end, case when luck < 0.001 then 'ada' end, 5
	from settled s join postrider.dlq_group x on x.fingerprint = s.fingerprint order by s.n
	returning dlq_entry_uuid, subject_type, subject_id, topic, error_code, error_message, created_at
)
insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, origin_topic, event_id, episode, outbox_id,
	key, key_kind, payload, payload_kind, payload_bytes, headers, error_class, error_code, error_message, attempts, recorded_at)
select subject_type || ':' || subject_id || ':1', dlq_entry_uuid, 'postrider', 'postrider.dlq', 0, row_number() over () + $1, topic, subject_id::uuid, 1,
	row_number() over () + $1, 'key', 'inline', decode(repeat('61', $4), 'hex'), 'inline', $4, '[["traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]]',
	'record', error_code, error_message, 5, created_at
from entries order by created_at`
