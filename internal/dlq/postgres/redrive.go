package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// Auditor writes, in the transaction of a change, who made it, and the sources of the changed things: the person that ctx
// names, otherwise actor. If the writing fails, the change is not committed.
type Auditor interface {
	Audit(ctx context.Context, tx pgx.Tx, actor, action, targetType, targetID string, sources []string, details any) error
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
	// Owners returns the named sources that may write to a topic. A record of a source is sent to topics of that alone. Defaults to
	// none: records may go everywhere.
	Owners func(topic string) []string
	// Named reports whether the settings name a source. An event of such a source is sent to topics of that alone. Defaults to no
	// source.
	Named func(source string) bool
	// Timeout bounds each call. Defaults to 30s.
	Timeout time.Duration
	// Redactor hides header values in answers of Investigations and of a Redriver. Defaults to none.
	Redactor *dlq.Redactor
	// TracerProvider receives a span of each request and of each step of an operation that sends messages again. Their new
	// traces begin with it. Without it they begin with the span of the caller's context, or, where that has none, with
	// one that is nowhere. Defaults to none.
	TracerProvider trace.TracerProvider
}

// check reports why a configuration of who is invalid, and sets the defaults.
func (c *RedriverConfig) check(who string) error {
	switch {
	case c.Pool == nil, c.Auditor == nil, c.Exceptions == nil:
		return errors.New(who + ": Pool, Auditor and Exceptions are required")
	case c.Timeout < 0:
		return errors.New(who + ": Timeout is negative")
	case c.Timeout == 0:
		c.Timeout = DefaultTimeout
	}
	return nil
}

// Redriver sends dead letters' messages again. It is safe for concurrent use, by any number of processes.
type Redriver struct {
	pool       *pgxpool.Pool
	audit      Auditor
	exceptions Exceptions
	owners     func(topic string) []string
	named      func(source string) bool
	timeout    time.Duration
	// redactor hides header values, nil hides none.
	redactor *dlq.Redactor
	// follow is how far Follow has come.
	follow redriveCursor
	// followed is that for each other source, by its name.
	followed sync.Map
	// commanded is told the sources for which commands were written.
	commanded func(sources []string)
	// patience is how long a request waits for what sources answer.
	patience time.Duration
	// pause is the first pause between two looks for it, and noted rings when this process has noted answers.
	pause  time.Duration
	noted  bell
	tracer trace.Tracer // nil makes no spans
}

var (
	_ dlq.Redriver   = (*Redriver)(nil)
	_ dlq.Operations = (*Redriver)(nil)
)

// NewRedriver returns a redriver on the pool, which stays the caller's.
func NewRedriver(cfg RedriverConfig) (*Redriver, error) {
	if err := cfg.check("redriver"); err != nil {
		return nil, err
	}
	return &Redriver{pool: cfg.Pool, audit: cfg.Auditor, exceptions: cfg.Exceptions, owners: cfg.Owners, named: cfg.Named, timeout: cfg.Timeout, redactor: cfg.Redactor,
		tracer: tracerOf(cfg.TracerProvider), patience: answerPatience, pause: answerPause}, nil
}

// OnCommands has f told the sources for which a person's request has written commands. It is called before the first request.
func (r *Redriver) OnCommands(f func(sources []string)) { r.commanded = f }

// KnowSources replaces RedriverConfig.Owners and Named, where the sources may change. It is called before the first request.
func (r *Redriver) KnowSources(owners func(topic string) []string, named func(source string) bool) {
	r.owners, r.named = owners, named
}

// Redrive implements dlq.Redriver.
func (r *Redriver) Redrive(ctx context.Context, req dlq.RedriveRequest) (dlq.Requeued, error) {
	if err := req.Check(); err != nil {
		return dlq.Requeued{}, err
	}
	waiting := ctx
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var done dlq.Requeued
	var span redriveSpan
	var commands []uuid.UUID
	var sources []string
	ctx = span.begin(ctx, r.tracer, len(req.Entries), req.Target, req.Operation)
	err := transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		locked, err := lockEntries(ctx, tx, redriveLock, req.Entries)
		if err != nil {
			return err
		}
		if err := allThere(req.Entries, locked); err != nil {
			return err
		}
		plan, err := r.planRedrive(ctx, tx, req)
		if err != nil {
			return err
		}
		if err := plan.Refusal(); err != nil {
			return err
		}
		if commands, err = r.carryOut(ctx, tx, plan); err != nil {
			return err
		}
		if err := span.treated(ctx, tx, plan.Sent()); err != nil {
			return err
		}
		done, sources = plan.Result(), plan.Sources()
		if len(done.Entries) == 0 {
			return nil
		}
		if done.Stopped, err = stoppedTasks(ctx, tx, column(plan.Sent(), func(c *dlq.Candidate) uuid.UUID { return c.Task })); err != nil {
			return err
		}
		id := ""
		if len(done.Entries) == 1 {
			id = done.Entries[0].String()
		}
		return r.audit.Audit(ctx, tx, req.Actor, "dlq.requeue", "entry", id, sources, auditEvents(map[string]any{
			"entries": done.Entries, "skipped": len(done.Skipped), "target": req.Target, "edited": req.Edit != nil || req.Repair != nil}, plan.InPlace()))
	})
	span.end(err)
	if err != nil {
		return dlq.Requeued{}, err
	}
	if req.Written != nil {
		req.Written(done)
	}
	r.awaitCommands(waiting, req.Wait, sources, commands, &done)
	return done, nil
}

// stoppedTasks returns the tasks among these that only a retry moves.
func stoppedTasks(ctx context.Context, tx pgx.Tx, tasks []uuid.UUID) ([]dlq.StoppedTask, error) {
	return askAboutTasks[dlq.StoppedTask](ctx, tx, tasksOnlyRetryMoves, tasks)
}

// Preview implements dlq.Redriver.
func (r *Redriver) Preview(ctx context.Context, req dlq.RedriveRequest) (dlq.Requeued, error) {
	if err := req.Check(); err != nil {
		return dlq.Requeued{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var would dlq.Requeued
	err := transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		plan, err := r.foresee(ctx, tx, req)
		if err != nil {
			return err
		}
		found := column(plan.Candidates, func(c *dlq.Candidate) uuid.UUID { return c.Entry })
		if err := errors.Join(allThere(req.Entries, found), plan.Refusal()); err != nil {
			return err
		}
		would = plan.Result()
		would.Stopped, err = stoppedTasks(ctx, tx, column(plan.Sent(), func(c *dlq.Candidate) uuid.UUID { return c.Task }))
		return err
	})
	if err != nil {
		return dlq.Requeued{}, err
	}
	return would, nil
}

// foresee plans for the investigations of a request as carryOut would treat them now, and changes nothing.
func (r *Redriver) foresee(ctx context.Context, tx pgx.Tx, req dlq.RedriveRequest) (*dlq.RedrivePlan, error) {
	plan, err := r.planRedrive(ctx, tx, req)
	if err != nil {
		return nil, err
	}
	if err := checkOutbox(ctx, tx, plan); err != nil {
		return nil, err
	}
	halting, behind, err := r.exceptions.Halting(ctx, tx, column(plan.Events(), idInOutbox))
	if err != nil {
		return nil, err
	}
	for _, c := range plan.CheckKeys(halting, behind) {
		c.RedrivenInPlace()
	}
	if err := skipAway(ctx, tx, plan); err != nil {
		return nil, err
	}
	return plan, checkContents(ctx, tx, req, plan.NewEvents())
}

// checkContents skips the new events that the outbox would not be given: their payload is gone, or is too large.
func checkContents(ctx context.Context, tx pgx.Tx, req dlq.RedriveRequest, fresh []*dlq.Candidate) error {
	const doing = "look for the payloads of letters"
	if len(fresh) == 0 {
		return nil
	}
	payload, edited := req.Edit.Replacement()
	rows, err := tx.Query(ctx, redriveContents, column(fresh, func(c *dlq.Candidate) string { return c.Letter }), edited, len(payload))
	if err != nil {
		return translate(doing, err)
	}
	contents, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return translate(doing, err)
	}
	for i, c := range fresh {
		c.Skip = refusalOf(contents[i])
	}
	return nil
}

// refusalOf is why dlq_redrive_letters did not write a message, for the number that it returned in place of an id.
func refusalOf(id int64) dlq.SkipReason {
	switch id {
	case 0:
		return dlq.PayloadGone
	case -1:
		return dlq.PayloadTooLarge
	}
	return ""
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

// planRedrive plans for the investigations of a request, which the caller has locked. It reads them with the snapshot of
// a statement after the locks: it sees what the session that held them last did.
func (r *Redriver) planRedrive(ctx context.Context, tx pgx.Tx, req dlq.RedriveRequest) (*dlq.RedrivePlan, error) {
	candidates, err := readCandidates(ctx, tx, req.Entries)
	if err != nil {
		return nil, err
	}
	own, err := readOwnTopics(ctx, tx)
	if err != nil {
		return nil, err
	}
	return dlq.PlanRedrive(req, own, r.owners, r.named, candidates), nil
}

// readCandidates reads investigations with their newest letters.
func readCandidates(ctx context.Context, tx pgx.Tx, entries []uuid.UUID) ([]*dlq.Candidate, error) {
	const doing = "read investigations"
	rows, err := tx.Query(ctx, redriveRead, entries, message.HeaderInvalidHeaders)
	if err != nil {
		return nil, translate(doing, err)
	}
	candidates, err := pgx.CollectRows(rows, scanCandidate)
	return candidates, translate(doing, err)
}

// readOwnTopics returns the topics that Postrider itself writes.
func readOwnTopics(ctx context.Context, tx pgx.Tx) ([]string, error) {
	const doing = "read Postrider's own topics"
	rows, err := tx.Query(ctx, ownTopics)
	if err != nil {
		return nil, translate(doing, err)
	}
	own, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return own, translate(doing, err)
}

func scanCandidate(row pgx.CollectableRow) (*dlq.Candidate, error) {
	c := &dlq.Candidate{}
	var letter, letterTopic, group, retryTopic *string
	var event, task *uuid.UUID
	var partition, letterPartition *int32
	var offset, letterOffset *int64
	var readable string
	err := row.Scan(&c.Entry, &c.Subject, &c.Status, &c.UnderWay, &letter, &event, &c.Episode,
		&c.OutboxID, &c.Origin.Topic, &partition, &offset, &letterTopic, &letterPartition, &letterOffset, &group, &retryTopic, &c.Misplaced, &c.NotAllowed, &c.Hops,
		&c.Unreadable, &readable, &c.Bytes, &task, &c.Source, &c.SourceOutboxID)
	if err != nil {
		return nil, err
	}
	c.Letter, c.Event, c.Task, c.Group, c.RetryTopic = value(letter), value(event), value(task), value(group), value(retryTopic)
	c.Origin.Partition, c.Origin.Offset = value(partition), value(offset)
	c.ReadAt = dlq.Place{Topic: value(letterTopic), Partition: value(letterPartition), Offset: value(letterOffset)}
	if readable == "" {
		return c, nil
	}
	hs, err := parseHeaders([]byte(readable))
	if err != nil {
		return nil, fmt.Errorf("letter %s: %w", c.Letter, err)
	}
	c.Readable = append([]message.Header{}, hs...) // not nil: that would say that the letter only refers to them
	return c, nil
}

// carryOut sends the messages of a plan in the transaction of the caller, who writes the audit log. What other sources are asked to
// send it writes down: it returns these commands.
func (r *Redriver) carryOut(ctx context.Context, tx pgx.Tx, p *dlq.RedrivePlan) ([]uuid.UUID, error) {
	if err := checkOutbox(ctx, tx, p); err != nil {
		return nil, err
	}
	if err := r.redriveInPlace(ctx, tx, p); err != nil {
		return nil, err
	}
	fresh := p.NewEvents()
	for _, c := range fresh {
		c.NewEvent = newUUID()
	}
	for _, portion := range portions(fresh, statementBytes, (*dlq.Candidate).Size) {
		if err := enqueueByHalves(ctx, tx, p, portion); err != nil {
			return nil, err
		}
	}
	if err := insertRedrives(ctx, tx, p); err != nil {
		return nil, err
	}
	return askSources(ctx, tx, p)
}

// checkOutbox tells a plan how its events stand in the outbox.
func checkOutbox(ctx context.Context, tx pgx.Tx, p *dlq.RedrivePlan) error {
	events := p.Events()
	if len(events) == 0 {
		return nil
	}
	standings, err := eventStandings(ctx, tx, column(events, idInOutbox), column(events, func(c *dlq.Candidate) uuid.UUID { return c.Event }))
	if err != nil {
		return err
	}
	p.CheckOutbox(standings)
	return nil
}

func idInOutbox(c *dlq.Candidate) int64 { return *c.OutboxID }

// redrivePatience is how long redriving in place may take in one transaction: it keeps the relay from the keys
// that it locked until it ends.
const redrivePatience = time.Second

// redriveInPlace redrives the events that halt their key.
func (r *Redriver) redriveInPlace(ctx context.Context, tx pgx.Tx, p *dlq.RedrivePlan) error {
	events := p.Events()
	if len(events) == 0 {
		return nil
	}
	halting, behind, err := r.exceptions.Halting(ctx, tx, column(events, idInOutbox))
	if err != nil {
		return err
	}
	began, busy := time.Now(), false
	for _, c := range p.CheckKeys(halting, behind) {
		// An event that was waited for in vain cost a second, and the events after it may cost one, too.
		if busy = busy || time.Since(began) > redrivePatience; busy {
			c.Skip = dlq.Busy
			continue
		}
		switch err := r.redriveAs(ctx, tx, p, c); {
		case errors.Is(err, ErrBusy):
			c.Skip, busy = dlq.Busy, true
		case errors.Is(err, errNotAmended): // c says why
		case err != nil:
			return err
		default:
			c.RedrivenInPlace()
		}
	}
	return nil
}

// errNotAmended rolls back the savepoint of redriveAs.
var errNotAmended = errors.New("the event is not changed in its place")

// redriveAs redrives an event in its place, changed where that was asked for; all of it, or nothing.
func (r *Redriver) redriveAs(ctx context.Context, tx pgx.Tx, p *dlq.RedrivePlan, c *dlq.Candidate) error {
	if !p.Edited(c) {
		return r.exceptions.RedriveInPlace(ctx, tx, *c.OutboxID)
	}
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint
		if err := r.exceptions.RedriveInPlace(ctx, tx, *c.OutboxID); err != nil {
			return err
		}
		payload, edited := p.Request.Edit.Replacement()
		var done int
		if err := tx.QueryRow(ctx, redriveAmend, c.Letter, edited, payload, headersJSON(c)).Scan(&done); err != nil {
			return translate("change an event in its place", err)
		}
		switch done {
		case -1:
			c.Skip = dlq.PayloadTooLarge
		case -2:
			c.Skip = dlq.OnlyCopy
		default:
			return nil
		}
		return errNotAmended
	})
}

// headersJSON are the headers that a message is sent with, as outbox_event has them; nil where it keeps its own.
func headersJSON(c *dlq.Candidate) *string {
	if c.Headers == nil {
		return nil
	}
	text := string(message.MarshalHeaders(c.Headers))
	return &text
}
