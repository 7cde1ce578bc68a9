package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// Auditor writes, in the transaction of a change, who made it: the person that ctx names, otherwise actor. If the
// writing fails, the change is not committed.
type Auditor interface {
	Audit(ctx context.Context, tx pgx.Tx, actor, action, targetType, targetID string, details any) error
}

// Exceptions knows which dead-lettered events halt their key, and puts them back in their place.
type Exceptions interface {
	// Halting returns the events that halt their key, and the events whose key is halted by another event.
	Halting(ctx context.Context, tx pgx.Tx, outboxIDs []int64) (halting, behind []int64, err error)
	// RedriveInPlace redrives an event that halts its key, in the transaction of the caller. ErrBusy means that its
	// key is in work, and leaves the transaction as it was.
	RedriveInPlace(ctx context.Context, tx pgx.Tx, outboxID int64) error
	// ReleaseKeys lets the keys go that these events halt.
	ReleaseKeys(ctx context.Context, tx pgx.Tx, outboxIDs []int64) error
}

// ErrBusy is what Exceptions.RedriveInPlace wraps when the relay has the key in work.
var ErrBusy = errors.New("the key is in work")

// RedriverConfig is what a Redriver needs.
type RedriverConfig struct {
	// Pool is the database, at the newest version of the schema. Required.
	Pool *pgxpool.Pool
	// Auditor writes the audit log. Required.
	Auditor Auditor
	// Exceptions redrives events in their place. Required.
	Exceptions Exceptions
	// Timeout bounds each call. Defaults to 30s.
	Timeout time.Duration
	// Redactor hides header values in what an Editor and a Redriver show. Defaults to none.
	Redactor *dlq.Redactor
	// TracerProvider receives a span of each request and of each step of an operation that sends messages again. Their new
	// traces begin with it. Without it they begin with the span of the caller's context, or, where that has none, with
	// one that is nowhere. Defaults to none.
	TracerProvider trace.TracerProvider
}

// Redriver sends dead letters' messages again. It is safe for concurrent use, by any number of processes.
type Redriver struct {
	pool       *pgxpool.Pool
	audit      Auditor
	exceptions Exceptions
	timeout    time.Duration
	// redactor hides header values, nil hides none.
	redactor *dlq.Redactor
	follow   place
	tracer   trace.Tracer // nil makes no spans
}

var _ dlq.Redriver = (*Redriver)(nil)

// NewRedriver returns a redriver on the pool, which stays the caller's.
func NewRedriver(cfg RedriverConfig) (*Redriver, error) {
	switch {
	case cfg.Pool == nil, cfg.Auditor == nil, cfg.Exceptions == nil:
		return nil, errors.New("redriver: Pool, Auditor and Exceptions are required")
	case cfg.Timeout < 0:
		return nil, errors.New("redriver: Timeout is negative")
	case cfg.Timeout == 0:
		cfg.Timeout = DefaultTimeout
	}
	return &Redriver{pool: cfg.Pool, audit: cfg.Auditor, exceptions: cfg.Exceptions, timeout: cfg.Timeout, redactor: cfg.Redactor, tracer: tracerOf(cfg.TracerProvider)}, nil
}

// wanted is an investigation whose message is to be sent again.
type wanted struct {
	entry    uuid.UUID
	subject  dlq.SubjectType
	status   dlq.Status
	underWay bool

	letter          *string
	event           *uuid.UUID
	episode         int32
	outboxID        *int64
	topic           string
	partition       *int32
	offset          *int64
	letterTopic     *string
	letterPartition *int32
	letterOffset    *int64
	retryTopic      *string // nil where the letter names no consumer group
	hops            int
	unreadable      bool   // some of its headers cannot be read
	readable        string // the others, as dlq_letter has them; empty where the letter refers to them
	bytes           int64  // of the message, about

	// What becomes of it.
	target   string
	headers  *string // to be sent instead of its own, as outbox_event has them
	inPlace  bool
	newEvent uuid.UUID
	newID    int64
	skip     dlq.SkipReason
}

// Redrive implements dlq.Redriver.
func (r *Redriver) Redrive(ctx context.Context, req dlq.RedriveRequest) (dlq.Requeued, error) {
	if err := req.Check(); err != nil {
		return dlq.Requeued{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var done dlq.Requeued
	var span redriveSpan
	ctx = span.begin(ctx, r.tracer, len(req.Entries), req.Target, req.Operation)
	err := transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		locked, err := lockEntries(ctx, tx, redriveLock, req.Entries)
		if err != nil {
			return err
		}
		if err := allThere(req.Entries, locked); err != nil {
			return err
		}
		ws, err := r.redrive(ctx, tx, req, func([]*wanted) {}) // all, or none
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(ws, func(w *wanted) bool { return w.skip == dlq.DeadLetterTopic }); i >= 0 && req.Target == ws[i].target {
			return toItsDeadLetters(req.Target, 1, ws[i].entry)
		}
		if err := span.treated(ctx, tx, ws); err != nil {
			return err
		}
		if done = result(ws); len(done.Entries) == 0 {
			return nil
		}
		id := ""
		if len(done.Entries) == 1 {
			id = done.Entries[0].String()
		}
		return r.audit.Audit(ctx, tx, req.Actor, "dlq.requeue", "entry", id, map[string]any{
			"entries": done.Entries, "skipped": len(done.Skipped), "target": req.Target, "edited": req.Edit != nil || req.Repair != nil})
	})
	span.end(err)
	if err != nil {
		return dlq.Requeued{}, err
	}
	return done, nil
}

// redrive sends messages again in a transaction of the caller, who has locked the investigations and writes the audit
// log. bound may leave some for later.
func (r *Redriver) redrive(ctx context.Context, tx pgx.Tx, req dlq.RedriveRequest, bound func([]*wanted)) ([]*wanted, error) {
	ws, err := readWanted(ctx, tx, req.Entries)
	if err != nil {
		return nil, err
	}
	for _, w := range ws {
		w.judge(req)
		if err := w.repair(req); err != nil {
			return nil, err
		}
	}
	bound(ws)
	if err := look(ctx, tx, ws, req); err != nil {
		return nil, err
	}
	if err := r.redriveInPlace(ctx, tx, ws, req); err != nil {
		return nil, err
	}
	if err := enqueue(ctx, tx, ws, req); err != nil {
		return nil, err
	}
	return ws, note(ctx, tx, going(ws), req)
}

// lockEntries locks investigations with redriveLock, or with purgeLock if they are to be purged, and returns the ones
// that exist.
func lockEntries(ctx context.Context, tx pgx.Tx, lock string, ids []uuid.UUID) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, lock, ids)
	if err != nil {
		return nil, translate("lock investigations", err)
	}
	locked, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return locked, translate("lock investigations", err)
}

// readWanted reads locked investigations, with the snapshot of a statement after the locks: it sees what the session
// that held them last did.
func readWanted(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) ([]*wanted, error) {
	rows, err := tx.Query(ctx, redriveRead, ids, message.HeaderRetryTopic, message.HeaderInvalidHeaders)
	if err != nil {
		return nil, translate("read investigations", err)
	}
	ws, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*wanted, error) {
		w := &wanted{}
		return w, row.Scan(&w.entry, &w.subject, &w.status, &w.underWay, &w.letter, &w.event, &w.episode,
			&w.outboxID, &w.topic, &w.partition, &w.offset, &w.letterTopic, &w.letterPartition, &w.letterOffset, &w.retryTopic, &w.hops,
			&w.unreadable, &w.readable, &w.bytes)
	})
	if err != nil {
		return nil, translate("read investigations", err)
	}
	slices.SortFunc(ws, inPlaceOfOrigin)
	return ws, nil
}

// allThere names the first of the investigations that was not found.
func allThere(ids, found []uuid.UUID) error {
	there := make(map[uuid.UUID]bool, len(found))
	for _, id := range found {
		there[id] = true
	}
	for _, id := range ids {
		if !there[id] {
			return fmt.Errorf("investigation %s: %w", id, dlq.ErrNotFound)
		}
	}
	return nil
}

// inPlaceOfOrigin is the order in which messages were written, as far as it is known: the messages of one key go
// out in this order again.
func inPlaceOfOrigin(a, b *wanted) int {
	return cmp.Or(
		cmp.Compare(a.topic, b.topic),
		cmp.Compare(value(a.outboxID), value(b.outboxID)),
		cmp.Compare(value(a.partition), value(b.partition)),
		cmp.Compare(value(a.offset), value(b.offset)),
		cmp.Compare(value(a.letterTopic), value(b.letterTopic)),
		cmp.Compare(value(a.letterPartition), value(b.letterPartition)),
		cmp.Compare(value(a.letterOffset), value(b.letterOffset)),
		slices.Compare(a.entry[:], b.entry[:]))
}

// judge decides what can be told without looking at the outbox.
func (w *wanted) judge(req dlq.RedriveRequest) {
	w.target = cmp.Or(req.Target, w.topic)
	if req.Target == dlq.TargetGroup {
		w.target = value(w.retryTopic)
	}
	switch {
	case w.subject == dlq.SubjectTask:
		w.skip = dlq.TaskSubject
	case w.underWay:
		w.skip = dlq.AlreadyQueued
	case w.status != dlq.Pending:
		w.skip = dlq.NotPending
	case w.letter == nil:
		w.skip = dlq.PayloadGone
	case w.target == value(w.letterTopic):
		w.skip = dlq.DeadLetterTopic
	case message.ValidTopic(w.target) == nil:
	case req.Target == dlq.TargetGroup:
		w.skip = dlq.NoRetryTopic
	default:
		w.skip = dlq.NoTarget
	}
}

// changed reports whether the message that is sent differs from the one that was given up, or goes elsewhere.
func (w *wanted) changed(req dlq.RedriveRequest) bool { return w.edited(req) || w.target != w.topic }

// ofOutbox returns the investigations of outbox events that were not skipped, by the event's id, and the ids in order.
func ofOutbox(ws []*wanted) (map[int64]*wanted, []int64) {
	byID := map[int64]*wanted{}
	for _, w := range ws {
		if w.skip == "" && w.outboxID != nil && w.event != nil {
			byID[*w.outboxID] = w
		}
	}
	return byID, slices.Sorted(maps.Keys(byID))
}

// look skips events that a person already redrove in the outbox by hand: they are on their way, or have arrived.
func look(ctx context.Context, tx pgx.Tx, ws []*wanted, req dlq.RedriveRequest) error {
	byID, ids := ofOutbox(ws)
	if len(ids) == 0 {
		return nil
	}
	now, err := standing(ctx, tx, ids, column(ids, func(id int64) uuid.UUID { return *byID[id].event }))
	if err != nil {
		return err
	}
	for i, id := range ids {
		w := byID[id]
		switch s := now[i]; {
		case s.waits():
			w.skip = dlq.AlreadyQueued
		case s.state == published && !w.changed(req):
			w.skip = dlq.Arrived
		default:
			w.episode = max(w.episode, s.episode)
		}
	}
	return nil
}

// redrivePatience is how long redriving in place may take in one transaction: it keeps the relay from the keys
// that it locked until it ends.
const redrivePatience = time.Second

// redriveInPlace redrives the events that halt their key.
func (r *Redriver) redriveInPlace(ctx context.Context, tx pgx.Tx, ws []*wanted, req dlq.RedriveRequest) error {
	byID, ids := ofOutbox(ws)
	if len(ids) == 0 {
		return nil
	}
	halting, behind, err := r.exceptions.Halting(ctx, tx, ids)
	if err != nil {
		return err
	}
	for _, id := range behind {
		if w := byID[id]; w.target == w.topic {
			w.skip = dlq.KeyHalted
		}
	}
	began, busy := time.Now(), false
	for _, id := range halting {
		w := byID[id]
		if w.target != w.topic {
			w.skip = dlq.HaltsKey
			continue
		}
		// An event that was waited for in vain cost a second, and the events after it may cost one, too.
		if busy = busy || time.Since(began) > redrivePatience; busy {
			w.skip = dlq.Busy
			continue
		}
		switch err := r.redriveAs(ctx, tx, w, req); {
		case errors.Is(err, ErrBusy):
			w.skip, busy = dlq.Busy, true
		case errors.Is(err, errNotAmended): // w says why
		case err != nil:
			return err
		default:
			w.inPlace, w.newID, w.newEvent = true, id, *w.event
		}
	}
	return nil
}

// going returns the investigations that were not skipped.
func going(ws []*wanted) []*wanted {
	return slices.DeleteFunc(slices.Clone(ws), func(w *wanted) bool { return w.skip != "" })
}

// note records the redrives.
func note(ctx context.Context, tx pgx.Tx, sent []*wanted, req dlq.RedriveRequest) error {
	if len(sent) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, redriveNote, nullUUID(req.Operation), req.Actor,
		column(sent, func(w *wanted) uuid.UUID { return w.entry }),
		column(sent, func(w *wanted) string { return *w.letter }),
		column(sent, func(w *wanted) int64 { return w.newID }),
		column(sent, func(w *wanted) uuid.UUID { return w.newEvent }),
		column(sent, func(w *wanted) bool { return w.inPlace }),
		column(sent, func(w *wanted) int32 { return w.episode }),
		column(sent, func(w *wanted) string { return w.target }),
		column(sent, func(w *wanted) bool { return w.edited(req) }))
	return translate("note redrives", err)
}

func result(ws []*wanted) dlq.Requeued {
	var done dlq.Requeued
	for _, w := range ws {
		if w.skip != "" {
			done.Skipped = append(done.Skipped, dlq.Skip{Entry: w.entry, Reason: w.skip})
		} else {
			done.Entries = append(done.Entries, w.entry)
		}
	}
	return done
}
