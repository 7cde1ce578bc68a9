package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/loop"
)

// redriveRate is the set rate of the operation with one.
const redriveRate = 1000

// redrive measures how fast an operation redrives many investigations, each claimed, enqueued, noted and audited, how
// fast their ends are followed, and how well a set rate is kept. An operator works as it does in serve; no relay does.
func redrive(ctx context.Context, r *rig, b *broker, t *table) error {
	var samples []redriveSample
	for range r.o.runs {
		s, err := r.redriveOnce(ctx)
		if err != nil {
			return err
		}
		samples = append(samples, s)
		r.say("redrive: planned in %.1f s, %.0f/s redriven, %.0f/s followed and closed, at %d/s off by %.2f %%", s.plan, s.speed, s.follow, redriveRate, s.off)
	}
	t.add(b, fmt.Sprintf("%d investigations redriven", r.o.redriveEntries), "no rate",
		cell{Name: "investigations/s", Runs: pick(samples, func(s redriveSample) float64 { return s.speed })},
		cell{Name: "planned in s", Runs: pick(samples, func(s redriveSample) float64 { return s.plan })})
	t.add(b, "their ends followed", "1000 in a transaction",
		cell{Name: "investigations/s", Runs: pick(samples, func(s redriveSample) float64 { return s.follow })})
	t.add(b, fmt.Sprintf("%d redriven at a rate", r.o.redriveRated), fmt.Sprintf("%d a second", redriveRate),
		cell{Name: "investigations/s", Runs: pick(samples, func(s redriveSample) float64 { return s.rated })},
		cell{Name: "off the rate %", Runs: pick(samples, func(s redriveSample) float64 { return s.off })})
	t.note("Each investigation is of a dead-lettered event of %d bytes, of one of 1000 keys. Redriving one locks it, writes the new event, notes the redrive, and is in the audit log; following one notes its end, counts it and closes the investigation.", r.o.payload)
	return nil
}

// redriveSample is what one run measured: seconds, investigations a second, and percent.
type redriveSample struct{ plan, speed, follow, rated, off float64 }

func (r *rig) redriveOnce(ctx context.Context) (s redriveSample, err error) {
	d, err := r.newDatabase(ctx, "bench_redrive", true)
	if err != nil {
		return s, err
	}
	defer d.drop()
	r.say("redrive: preparing %d investigations", r.o.redriveEntries+r.o.redriveRated)
	if err := d.loadDead(ctx, "fast", 0, r.o.redriveEntries); err != nil {
		return s, err
	}
	if err := d.loadDead(ctx, "rated", r.o.redriveEntries, r.o.redriveRated); err != nil {
		return s, err
	}
	pool, err := pgxpool.New(ctx, d.url)
	if err != nil {
		return s, err
	}
	defer pool.Close()
	services, err := app.NewServices(pool, config.Config{})
	if err != nil {
		return s, err
	}
	operator, err := dlq.NewOperator(dlq.OperatorConfig{Operations: services.Redriver, ResolveDelivered: true})
	if err != nil {
		return s, err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- operator.Run(working) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()

	var took float64
	if s.plan, took, err = d.operation(ctx, services.Redriver, "fast", 0); err != nil {
		return s, err
	}
	s.speed = float64(r.o.redriveEntries) / took
	// A relay's receipt, for all that was redriven so far.
	if err := d.exec(ctx, `insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps)
		select p.number + 1, p.term, max(e.id), min(e.id), range_agg(int8range(e.id, e.id + 1)), '{}'
		from postrider.outbox_progress p join postrider.outbox_event e on e.id > p.position group by p.number, p.term`); err != nil {
		return s, err
	}
	began := time.Now()
	// The operation counts the deliveries: looking through all redrives would take CPU from the processes that follow them.
	if err := d.until(ctx, `select not exists (select from postrider.dlq_operation where delivered + came_back < done)`); err != nil {
		return s, err
	}
	s.follow = float64(r.o.redriveEntries) / time.Since(began).Seconds()
	if _, took, err = d.operation(ctx, services.Redriver, "rated", redriveRate); err != nil {
		return s, err
	}
	// From the first batch to the last: what the last one redrives is for the time after it.
	s.rated = float64(r.o.redriveRated-redriveRate/10) / took
	s.off = 100 * max(s.rated/redriveRate-1, 1-s.rated/redriveRate)
	return s, nil
}

// operation redrives all of a topic, and returns in seconds how long it took to plan, and then until all was enqueued.
func (d *database) operation(ctx context.Context, redriver *dlqpostgres.Redriver, topic string, rate float64) (plan, took float64, err error) {
	began := time.Now()
	o, err := redriver.PlanOperation(ctx, dlq.NewOperation{Kind: dlq.OpRedrive, Name: topic, Actor: "bench",
		Scope: dlq.Scope{Filter: &dlq.Filter{Topic: topic}}, Options: dlq.OperationOptions{Rate: rate}})
	if err != nil {
		return 0, 0, err
	}
	plan = time.Since(began).Seconds()
	ctx = access.WithActor(ctx, access.Actor{Name: "bench"})
	if _, err := redriver.Command(ctx, o.UUID, dlq.Start, ""); err != nil {
		return 0, 0, err
	}
	if err := d.until(ctx, `select treated_at is not null from postrider.dlq_operation where dlq_operation_uuid = $1`, o.UUID); err != nil {
		return 0, 0, err
	}
	// The times of the first and the last redrive, because the operator begins a second after the start at the latest.
	var done int64
	err = d.conn.QueryRow(ctx, `select extract(epoch from max(created_at) - min(created_at))::float8, count(*) from postrider.dlq_redrive where dlq_operation_uuid = $1`, o.UUID).Scan(&took, &done)
	if err == nil && done != o.Items {
		err = fmt.Errorf("redrove %d of %d", done, o.Items)
	}
	return plan, took, err
}

// until waits for a condition.
func (d *database) until(ctx context.Context, condition string, args ...any) error {
	for {
		var done bool
		if err := d.conn.QueryRow(ctx, condition, args...).Scan(&done); err != nil || done {
			return err
		}
		if err := loop.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// loadDead writes dead-lettered events of a topic, their letters and investigations.
func (d *database) loadDead(ctx context.Context, topic string, from, n int) error {
	if _, err := d.conn.Exec(ctx, `insert into postrider.dlq_group (fingerprint, fingerprint_version, parts, title, topic, error_code, word, first_seen_at, last_seen_at)
		values ('1:' || $1, 1, '{}', 'refused by the broker', $1, 'INVALID_RECORD', 'invalid_record', now(), now())`, topic); err != nil {
		return err
	}
	_, err := d.conn.Exec(ctx, `with fresh as materialized (
			select i, gen_random_uuid() as event_id, convert_to('key-' || i % 1000, 'UTF8') as key from generate_series($2::bigint + 1, $2 + $3) i
		), events as (
			insert into postrider.outbox_exception (id, event_id, topic, kind, key, payload, headers, created_at, copied, state, episode, attempts, sent_at)
			select i, event_id, $1, 'event', key, decode(repeat('61', $4), 'hex'), '[["trace", "x"]]', now(), true, 'dead_lettered', 1, 5, now() from fresh order by i
		), entries as (
			insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, topic, error_code, error_message, snapshot, occurrences, last_occurred_at, dlq_timestamp, dlq_group_uuid)
			select 'event', event_id::text, 'failed', 'max_retries_exceeded', $1, 'INVALID_RECORD', 'refused by the broker', '{"payload": "x"}', 1, now(), now(),
				(select g.dlq_group_uuid from postrider.dlq_group g where g.topic = $1) from fresh order by i
			returning dlq_entry_uuid, subject_id
		)
		insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, origin_topic, event_id, episode, outbox_id,
			key, key_kind, payload, payload_kind, payload_bytes, headers, error_class, error_code, error_message, attempts)
		select 'event:' || f.event_id || ':1', e.dlq_entry_uuid, 'postrider', 'postrider.dlq', 0, f.i, $1, f.event_id, 1, f.i,
			f.key, 'inline', decode(repeat('61', $4), 'hex'), 'inline', $4, '[["trace", "x"]]', 'record', 'INVALID_RECORD', 'refused by the broker', 5
		from fresh f join entries e on e.subject_id = f.event_id::text`, topic, from, n, d.rig.o.payload)
	if err != nil {
		return err
	}
	_, err = d.conn.Exec(ctx, `select setval('postrider.outbox_event_id_seq', $1)`, from+n)
	return err
}
