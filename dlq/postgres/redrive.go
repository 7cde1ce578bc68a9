package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/dlq"
	"github.com/postrider/postrider/relay/outbox"
)

// Auditor writes, in the transaction of a change, who made it: whoever ctx says, otherwise actor. The change is
// not committed when that fails.
type Auditor interface {
	Audit(ctx context.Context, tx pgx.Tx, actor, action, targetType, targetID string, details any) error
}

// Keeper knows which dead-lettered events halt their key, and puts them back in their place.
type Keeper interface {
	// Halting returns those of the events that halt their key, and those whose key is halted by another.
	Halting(ctx context.Context, tx pgx.Tx, outboxIDs []int64) (halting, behind []int64, err error)
	// PutBack puts an event that halts its key back, in the transaction of the caller. ErrBusy means that its
	// key is in work, and leaves the transaction as it was.
	PutBack(ctx context.Context, tx pgx.Tx, outboxID int64) error
	// ReleaseKeys lets the keys go that these events halt.
	ReleaseKeys(ctx context.Context, tx pgx.Tx, outboxIDs []int64) error
}

// ErrBusy is what Keeper.PutBack wraps when the relay has the key in work.
var ErrBusy = errors.New("the key is in work")

// RedriverConfig is what a Redriver needs.
type RedriverConfig struct {
	// Pool is the database, at the newest version of the schema. Required.
	Pool *pgxpool.Pool
	// Auditor writes the audit log. Required.
	Auditor Auditor
	// Keeper puts events back in their place. Required.
	Keeper Keeper
	// Timeout bounds each call. Defaults to 30s.
	Timeout time.Duration
	// Redactor hides header values in what a Desk shows. Defaults to none.
	Redactor *dlq.Redactor
}

// Redriver sends dead letters' messages again. It is safe for concurrent use, by any number of processes.
type Redriver struct {
	pool    *pgxpool.Pool
	audit   Auditor
	keeper  Keeper
	timeout time.Duration
}

var _ dlq.Redriver = (*Redriver)(nil)

// NewRedriver returns a redriver on the pool, which stays the caller's.
func NewRedriver(cfg RedriverConfig) (*Redriver, error) {
	switch {
	case cfg.Pool == nil, cfg.Auditor == nil, cfg.Keeper == nil:
		return nil, errors.New("redriver: Pool, Auditor and Keeper are required")
	case cfg.Timeout < 0:
		return nil, errors.New("redriver: Timeout is negative")
	case cfg.Timeout == 0:
		cfg.Timeout = DefaultTimeout
	}
	return &Redriver{cfg.Pool, cfg.Auditor, cfg.Keeper, cfg.Timeout}, nil
}

// wanted is an investigation whose message is to be sent again.
type wanted struct {
	entry      uuid.UUID
	subject    dlq.SubjectType
	status     dlq.Status
	generation int32
	underWay   bool

	letter          *string
	event           *uuid.UUID
	episode         int32
	outboxID        *int64
	topic           string
	partition       *int32
	offset          *int64
	keyed           bool
	letterTopic     *string
	letterPartition *int32
	letterOffset    *int64

	// What becomes of it.
	target   string
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
	err := pgx.BeginTxFunc(ctx, r.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) (err error) {
		done, err = r.redrive(ctx, tx, req)
		return err
	})
	return done, err
}

// redrive is Redrive in a transaction of the caller.
func (r *Redriver) redrive(ctx context.Context, tx pgx.Tx, req dlq.RedriveRequest) (dlq.Requeued, error) {
	ws, err := claimWanted(ctx, tx, req.Entries)
	if err != nil {
		return dlq.Requeued{}, err
	}
	for _, w := range ws {
		w.judge(req)
	}
	if req.Target == "" && req.Edit == nil { // what is sent elsewhere, or changed, is another message
		if err := r.putBack(ctx, tx, ws); err != nil {
			return dlq.Requeued{}, err
		}
	}
	if err := enqueue(ctx, tx, ws, req); err != nil {
		return dlq.Requeued{}, err
	}
	sent := going(ws)
	if err := note(ctx, tx, sent, req); err != nil {
		return dlq.Requeued{}, err
	}
	done := result(ws)
	if len(sent) == 0 {
		return done, nil
	}
	details := map[string]any{"entries": done.Entries, "skipped": len(done.Skipped), "target": req.Target, "edited": req.Edit != nil}
	target, id := "entry", done.Entries[0].String()
	if req.Operation != uuid.Nil {
		target, id = "operation", req.Operation.String()
	} else if len(done.Entries) > 1 {
		id = ""
	}
	return done, r.audit.Audit(ctx, tx, req.Actor, "dlq.requeue", target, id, details)
}

// claimWanted locks and reads the investigations.
func claimWanted(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) ([]*wanted, error) {
	rows, err := tx.Query(ctx, redriveLock, ids)
	if err != nil {
		return nil, translate("lock investigations", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, translate("lock investigations", err)
	}
	for _, id := range ids {
		if !slices.Contains(found, id) {
			return nil, fmt.Errorf("investigation %s: %w", id, dlq.ErrNotFound)
		}
	}
	// With the snapshot of a statement after the locks: what the last to hold them did is seen.
	rows, err = tx.Query(ctx, redriveRead, ids)
	if err != nil {
		return nil, translate("read investigations", err)
	}
	ws, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*wanted, error) {
		w := &wanted{}
		return w, row.Scan(&w.entry, &w.subject, &w.status, &w.generation, &w.underWay, &w.letter, &w.event, &w.episode,
			&w.outboxID, &w.topic, &w.partition, &w.offset, &w.keyed, &w.letterTopic, &w.letterPartition, &w.letterOffset)
	})
	if err != nil {
		return nil, translate("read investigations", err)
	}
	slices.SortFunc(ws, inPlaceOfOrigin)
	return ws, nil
}

// inPlaceOfOrigin is the order in which messages were written, as far as it is known: what is of one key goes
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
	switch {
	case w.subject == dlq.SubjectTask:
		w.skip = dlq.TaskSubject
	case w.underWay:
		w.skip = dlq.AlreadyQueued
	case w.status != dlq.Pending:
		w.skip = dlq.NotPending
	case w.letter == nil:
		w.skip = dlq.PayloadGone
	case w.target == "":
		w.skip = dlq.NoTarget
	}
}

// putBack puts those that halt their key back in their place.
func (r *Redriver) putBack(ctx context.Context, tx pgx.Tx, ws []*wanted) error {
	byID := map[int64]*wanted{}
	for _, w := range ws {
		if w.skip == "" && w.outboxID != nil {
			byID[*w.outboxID] = w
		}
	}
	if len(byID) == 0 {
		return nil
	}
	ids := make([]int64, 0, len(byID))
	for id := range byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	halting, behind, err := r.keeper.Halting(ctx, tx, ids)
	if err != nil {
		return err
	}
	for _, id := range behind {
		byID[id].skip = dlq.KeyHalted
	}
	for _, id := range halting {
		w := byID[id]
		switch err := r.keeper.PutBack(ctx, tx, id); {
		case errors.Is(err, ErrBusy):
			w.skip = dlq.Busy
		case err != nil:
			return err
		default:
			w.inPlace, w.newID, w.newEvent = true, id, *w.event
		}
	}
	return nil
}

// enqueue writes the others as new events.
func enqueue(ctx context.Context, tx pgx.Tx, ws []*wanted, req dlq.RedriveRequest) error {
	var fresh []*wanted
	for _, w := range ws {
		if w.skip == "" && !w.inPlace {
			w.newEvent = uuid.New()
			fresh = append(fresh, w)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	var payload []byte
	var headers *string
	edited := false
	if e := req.Edit; e != nil {
		payload, edited = e.Payload, e.Payload != nil || e.Tombstone
		if e.Headers != nil {
			text := string(outbox.MarshalHeaders(e.Headers))
			headers = &text
		}
	}
	rows, err := tx.Query(ctx, redriveEnqueue,
		column(fresh, func(w *wanted) string { return *w.letter }),
		column(fresh, func(w *wanted) uuid.UUID { return w.newEvent }),
		column(fresh, func(w *wanted) string { return w.target }),
		column(fresh, (*wanted).added),
		column(fresh, func(*wanted) bool { return edited }),
		column(fresh, func(*wanted) []byte { return payload }),
		column(fresh, func(*wanted) *string { return headers }))
	if err != nil {
		return translate("enqueue redriven messages", err)
	}
	var place int
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&place, &id}, func() error {
		w := fresh[place-1]
		switch id {
		case 0:
			w.skip = dlq.PayloadGone
		case -1:
			w.skip = dlq.PayloadTooLarge
		default:
			w.newID, w.episode = id, 0
		}
		return nil
	})
	return translate("enqueue redriven messages", err)
}

// added are the headers that a redriven message gets, as pairs.
func (w *wanted) added() string {
	of := "record:" + value(w.letterTopic) + "/" + fmt.Sprint(value(w.letterPartition)) + "/" + fmt.Sprint(value(w.letterOffset))
	switch {
	case w.event != nil:
		of = "event:" + w.event.String()
	case w.topic != "" && w.partition != nil && w.offset != nil:
		of = fmt.Sprintf("record:%s/%d/%d", w.topic, *w.partition, *w.offset)
	}
	text, _ := json.Marshal([][2]string{{dlq.HeaderReplayOf, of}, {dlq.HeaderReplayID, w.replayID()}}) // strings always can be
	return string(text)
}

func (w *wanted) replayID() string { return fmt.Sprintf("%s:%d", w.entry, w.generation+1) }

// going are those that were not skipped.
func going(ws []*wanted) []*wanted {
	return slices.DeleteFunc(slices.Clone(ws), func(w *wanted) bool { return w.skip != "" })
}

// note records the redrives.
func note(ctx context.Context, tx pgx.Tx, sent []*wanted, req dlq.RedriveRequest) error {
	if len(sent) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, redriveNote, nullUUID(req.Operation), req.Edit != nil, req.Actor,
		column(sent, func(w *wanted) uuid.UUID { return w.entry }),
		column(sent, func(w *wanted) int32 { return w.generation + 1 }),
		column(sent, func(w *wanted) string { return *w.letter }),
		column(sent, func(w *wanted) int64 { return w.newID }),
		column(sent, func(w *wanted) uuid.UUID { return w.newEvent }),
		column(sent, func(w *wanted) bool { return w.inPlace }),
		column(sent, func(w *wanted) int32 { return w.episode }),
		column(sent, func(w *wanted) string { return w.target }))
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

// Follow implements dlq.Redriver. It goes through all open redrives, limit of them in a transaction.
func (r *Redriver) Follow(ctx context.Context, limit int, resolve bool) (dlq.Followed, error) {
	var all dlq.Followed
	after := int64(0)
	for {
		f, seen, last, err := r.follow(ctx, after, limit, resolve)
		all.Delivered += f.Delivered
		all.CameBack += f.CameBack
		if err != nil || seen < limit {
			return all, err
		}
		after = last
	}
}

func (r *Redriver) follow(ctx context.Context, after int64, limit int, resolve bool) (f dlq.Followed, seen int, last int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = pgx.BeginTxFunc(ctx, r.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
		var delivered []uuid.UUID
		if err := tx.QueryRow(ctx, redriveFollow, after, limit).Scan(&delivered, &f.CameBack, &seen, &last); err != nil {
			return translate("follow redrives", err)
		}
		f.Delivered = len(delivered)
		if !resolve || len(delivered) == 0 {
			return nil
		}
		closed, err := closeEntries(ctx, tx, delivered, dlq.ManuallyResolved, "redriven, and delivered", "postrider")
		if err != nil || len(closed) == 0 {
			return err
		}
		return r.audit.Audit(ctx, tx, "postrider", "dlq.resolve", "entry", "", map[string]any{"entries": closed, "because": "redriven, and delivered"})
	})
	if err != nil {
		return dlq.Followed{}, 0, 0, err
	}
	return f, seen, last, nil
}

// closeEntries closes those of the investigations that are pending, and returns them.
func closeEntries(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, status dlq.Status, notes, by string) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, entryClose, ids, string(status), notes, by)
	if err != nil {
		return nil, translate("close investigations", err)
	}
	closed, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return closed, translate("close investigations", err)
}

// succeed lets investigations of redriven events that died again name the ones that they come from, and closes
// those: the work goes on in the new ones.
func succeed(ctx context.Context, tx pgx.Tx, opened []*candidate) error {
	var entries []uuid.UUID
	var events []pgtype.UUID
	for _, c := range opened {
		if c.first.EventID != uuid.Nil {
			entries = append(entries, c.entry)
			events = append(events, nullUUID(c.first.EventID))
		}
	}
	if len(entries) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, entrySucceed, entries, events)
	if err != nil {
		return translate("find predecessors", err)
	}
	type pair struct{ Entry, Predecessor uuid.UUID }
	pairs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pair])
	if err != nil {
		return translate("find predecessors", err)
	}
	for _, p := range pairs {
		if _, err := closeEntries(ctx, tx, []uuid.UUID{p.Predecessor}, dlq.Cancelled,
			"its redrive was given up again: investigation "+p.Entry.String()+" goes on", "postrider"); err != nil {
			return err
		}
	}
	return nil
}
