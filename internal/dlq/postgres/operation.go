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

	"github.com/postrider/postrider/internal/dlq"
)

// maxScope is how many investigations an operation may be about.
const maxScope = 1_000_000

func scanOperation(row pgx.CollectableRow) (o dlq.Operation, err error) {
	var scope, opts, plan []byte
	var started, treated, finished *time.Time
	err = row.Scan(&o.UUID, &o.Kind, &o.Name, &o.Reason, &o.Actor, &o.State, &scope, &opts, &plan, &o.Items, &o.Done, &o.Skipped,
		&o.Failed, &o.Delivered, &o.CameBack, &o.Error, &o.CreatedAt, &started, &treated, &finished, &o.UpdatedAt, &o.Sources)
	if err != nil {
		return o, err
	}
	o.StartedAt, o.TreatedAt, o.FinishedAt = value(started), value(treated), value(finished)
	var options struct { // with what dlq_command_operation adds
		dlq.OperationOptions
		Forgiven          int64 `json:"forgiven"`
		ForgivenDelivered int64 `json:"forgiven_delivered"`
	}
	var whole struct { // with what dlq_plan_operation notes beside the plan
		*dlq.Plan
		Reaches []dlq.Reach `json:"reaches"`
	}
	whole.Plan = &o.Plan
	err = errors.Join(json.Unmarshal(scope, &o.Scope), json.Unmarshal(opts, &options), json.Unmarshal(plan, &whole))
	if o.Kind == dlq.OpRedrive {
		o.Reaches = whole.Reaches
		for i := range o.Reaches {
			o.Reaches[i].Unknown = dlq.NotAsked
		}
	}
	o.Options, o.ForgivenCameBack, o.ForgivenDelivered = options.OperationOptions, options.Forgiven, options.ForgivenDelivered
	return o, err
}

// PlanOperation implements dlq.Redriver.
func (r *Redriver) PlanOperation(ctx context.Context, n dlq.NewOperation) (dlq.Operation, error) {
	const doing = "plan an operation"
	if err := n.Check(); err != nil {
		return dlq.Operation{}, err
	}
	n.Scope.Entries = distinctIDs(n.Scope.Entries)
	if len(n.Scope.Entries) > maxScope {
		return dlq.Operation{}, fmt.Errorf("%w: %d investigations are named, the limit is %d", dlq.ErrRequest, len(n.Scope.Entries), maxScope)
	}
	scope, _ := json.Marshal(n.Scope) // plain values always can be
	opts, _ := json.Marshal(n.Options)
	ctx, cancel := context.WithTimeout(ctx, 4*r.timeout) // the scope may be large
	defer cancel()
	var id uuid.UUID
	err := transact(ctx, r.pool, planning, func(tx pgx.Tx) error {
		sources, err := sourcesOfScope(ctx, tx, n.Scope)
		if err != nil {
			return err
		}
		if err := nameIsFree(ctx, tx, n.Name, sources); err != nil {
			return err
		}
		var now time.Time
		if err := tx.QueryRow(ctx, operationInsert, n.Kind, n.Name, n.Reason, n.Actor, scope, opts, sources).Scan(&id, &now); err != nil {
			return translate(doing, err)
		}
		f := dlq.Filter{}
		if n.Scope.Filter != nil {
			f = *n.Scope.Filter
		}
		if n.Scope.Group != uuid.Nil {
			f.Group = n.Scope.Group
		}
		which := &search{Search: dlq.Search{Filter: f}, tx: tx}
		if err := which.limit(ctx); err != nil {
			return translate(doing, err)
		}
		if f.Word != "" && len(which.within) == 0 {
			return fmt.Errorf("%w: nothing that the filter selects has the reason %q; give one that lists and statistics report, or a text to look for in error messages", dlq.ErrRequest, f.Word)
		}
		var named []uuid.UUID
		if len(n.Scope.Entries) > 0 {
			named = n.Scope.Entries
		}
		var frozen int
		err = tx.QueryRow(ctx, operationFreeze, id, now, named, which.within, string(f.Reason), string(f.Subject.Type), f.Subject.ID, f.Topic,
			f.ErrorCode, f.Assignee, pattern(f.Message), nullTime(f.From), nullTime(f.To), cmp.Or(f.Status, dlq.Pending),
			f.ConsumerGroup, f.DLQTopic, which.about).Scan(&frozen)
		if err != nil {
			return translate(doing, err)
		}
		switch {
		case frozen < len(named):
			return fmt.Errorf("%w: %d of the %d investigations named do not exist", dlq.ErrNotFound, len(named)-frozen, len(named))
		case frozen == 0:
			return fmt.Errorf("%w: nothing is in its scope: no %s investigation is meant by what was given", dlq.ErrRequest,
				cmp.Or(f.Status, dlq.Pending))
		case frozen > maxScope:
			return fmt.Errorf("%w: %d investigations are in its scope, the limit is %d", dlq.ErrRequest, frozen, maxScope)
		case n.Options.Canary > frozen:
			return fmt.Errorf("%w: the canary is %d, and %d investigations are in its scope: nothing would wait for the canary; give a smaller one, or none",
				dlq.ErrRequest, n.Options.Canary, frozen)
		}
		if len(named) > 0 {
			var closed bool
			if err := tx.QueryRow(ctx, entryAllClosed, named).Scan(&closed); err != nil {
				return translate(doing, err)
			}
			if err := n.Kind.RefuseClosed(closed, len(named)); err != nil {
				return err
			}
		}
		if err := targetIsElsewhere(ctx, tx, id, n.Options.Target); err != nil {
			return err
		}
		halting, err := r.halting(ctx, tx, id, n)
		if err != nil {
			return err
		}
		foreseen, texts, err := r.foreseen(ctx, tx, id, n)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, operationPlan, id, halting, foreseen); err != nil {
			return translate(doing, err)
		}
		if n.Kind == dlq.OpRedrive {
			if err := notOnlyTasks(ctx, tx, id, frozen); err != nil {
				return err
			}
		}
		details := map[string]any{"kind": n.Kind, "name": n.Name, "items": frozen, "reason": n.Reason}
		if repair := n.Options.Repair(); repair != nil {
			if details["headers"] = repair.Names(texts); repair.None {
				details["headers"] = "none"
			}
		}
		return r.audit.Audit(ctx, tx, n.Actor, "operation.plan", "operation", id.String(), sources, details)
	})
	if err != nil {
		return dlq.Operation{}, err
	}
	return r.Operation(ctx, id)
}

// notOnlyTasks refuses the plan of a redrive that would send nothing, because all that it is about are tasks.
func notOnlyTasks(ctx context.Context, tx pgx.Tx, id uuid.UUID, items int) error {
	var only bool
	if err := tx.QueryRow(ctx, operationOnlyTasks, id).Scan(&only); err != nil {
		return translate("plan an operation", err)
	}
	if only {
		return fmt.Errorf("%w: a redrive sends messages, and all %d in its scope are about tasks: repair the steps of the tasks, or put the tasks back to their beginning", dlq.ErrRequest, items)
	}
	return nil
}

// sourcesOfScope are the sources of all that a scope may have, sorted: dlq.AllSources where it says none, and the person who asks
// sees all. An unknown group is an error that wraps dlq.ErrNotFound.
func sourcesOfScope(ctx context.Context, tx pgx.Tx, scope dlq.Scope) ([]string, error) {
	switch {
	case len(scope.Entries) > 0:
		found, err := sourcesOfEntries(ctx, tx, scope.Entries)
		if len(found) == 0 {
			found = []string{dlq.AllSources} // none of them exists: the plan is refused
		}
		return found, err
	case scope.Group != uuid.Nil:
		g, err := oneGroup(ctx, tx, scope.Group)
		return []string{g.Source}, err
	}
	sources := dlq.OnlySource(ctx, scope.Filter.Source)
	if sources == nil {
		return []string{dlq.AllSources}, nil
	}
	sources = append([]string{}, sources...)
	slices.Sort(sources)
	return sources, nil
}

// nameIsFree refuses the name of an operation of the same sources that has not ended. If two callers get past it at the same time, the index
// dlq_operation_name refuses one of them, and that one meets the other's operation here when transact tries again.
func nameIsFree(ctx context.Context, tx pgx.Tx, name string, sources []string) error {
	var id uuid.UUID
	var state dlq.OperationState
	var actor string
	var at time.Time
	err := tx.QueryRow(ctx, operationNamed, name, sources).Scan(&id, &state, &actor, &at)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return translate("look for operations of a name", err)
	}
	return fmt.Errorf("%w: operation %s is called %q, too; %s planned it at %s, and it is %s. Go on with that one, abort it, or give another name",
		dlq.ErrExists, id, name, actor, at.UTC().Format(time.RFC3339), state)
}

// planning is begin for statements that look at a whole scope, which takes longer.
const planning = begin + "; set local statement_timeout = '120s'; set local jit = off"

// distinctIDs returns each id once, in the order given.
func distinctIDs(ids []uuid.UUID) []uuid.UUID {
	seen := make(map[uuid.UUID]bool, len(ids))
	return slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool {
		twice := seen[id]
		seen[id] = true
		return twice
	})
}

// targetIsElsewhere refuses to send messages to the dead-letter topic that they came from, and to Postrider's own topics.
func targetIsElsewhere(ctx context.Context, tx pgx.Tx, id uuid.UUID, target string) error {
	if target == "" || target == dlq.TargetGroup || target == dlq.TargetOrigin {
		return nil
	}
	own, err := readOwnTopics(ctx, tx)
	if err != nil {
		return err
	}
	var n int64
	var entry uuid.UUID
	switch err := tx.QueryRow(ctx, operationOwnTopic, id, target).Scan(&n, &entry); {
	case errors.Is(err, pgx.ErrNoRows) && slices.Contains(own, target):
		return dlq.RefuseOwnTopic(target)
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return translate("look where letters came from", err)
	}
	return dlq.RefuseOwnDeadLetters(target, n, entry)
}

// halting are the events in the scope that halt their key, and go back to their place.
func (r *Redriver) halting(ctx context.Context, tx pgx.Tx, id uuid.UUID, n dlq.NewOperation) ([]int64, error) {
	if n.Kind != dlq.OpRedrive || n.Options.Target != "" && n.Options.Target != dlq.TargetOrigin {
		return []int64{}, nil
	}
	rows, err := tx.Query(ctx, operationEvents, id)
	if err != nil {
		return nil, translate("read the events of an operation", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, translate("read the events of an operation", err)
	}
	halting, _, err := r.exceptions.Halting(ctx, tx, events)
	return halting, err
}

// foreseen is the part of a plan that is found item by item, as the plan has it in the database: what would be skipped,
// and what other operations have yet to treat. texts are the names of headers that are sent as the texts of their own values.
func (r *Redriver) foreseen(ctx context.Context, tx pgx.Tx, id uuid.UUID, n dlq.NewOperation) (plan []byte, texts []string, err error) {
	const doing = "look for operations on the same investigations"
	var found struct {
		LeftOut     map[dlq.SkipReason]int64 `json:"left_out"`
		Foreseen    int64                    `json:"foreseen"`
		Overlapping int64                    `json:"overlapping"`
		Overlaps    []dlq.Overlap            `json:"overlaps"`
	}
	found.LeftOut, found.Overlaps = map[dlq.SkipReason]int64{}, []dlq.Overlap{}
	rows, err := tx.Query(ctx, operationOverlaps, id)
	if err != nil {
		return nil, nil, translate(doing, err)
	}
	var o dlq.Overlap
	if _, err = pgx.ForEachRow(rows, []any{&o.UUID, &o.Name, &o.State, &o.Items, &found.Overlapping}, func() error {
		found.Overlaps = append(found.Overlaps, o)
		return nil
	}); err != nil {
		return nil, nil, translate(doing, err)
	}
	if n.Kind == dlq.OpRedrive {
		if found.Foreseen, texts, err = r.foreseeItems(ctx, tx, id, n, found.LeftOut); err != nil {
			return nil, nil, err
		}
	}
	text, _ := json.Marshal(found) // plain values always can be
	return text, texts, nil
}

// foreseeItems counts the first items of a planned redrive that would be skipped, by reason, and returns how many it
// looked at. It refuses a plan that has two values for one header, and returns the names of headers that are sent as texts.
func (r *Redriver) foreseeItems(ctx context.Context, tx pgx.Tx, id uuid.UUID, n dlq.NewOperation,
	left map[dlq.SkipReason]int64) (looked int64, texts []string, err error) {
	items, err := waitingItems(ctx, tx, id, dlq.MaxForeseen)
	if err != nil {
		return 0, nil, err
	}
	const doing = "foresee the items of an operation"
	// The settings end with the savepoint: the rest of the plan looks at the whole scope.
	keyed, err := tx.Begin(ctx)
	if err != nil {
		return 0, nil, translate(doing, err)
	}
	defer func() {
		if rollback := keyed.Rollback(ctx); err == nil {
			err = translate(doing, rollback)
		}
	}()
	if _, err := keyed.Exec(ctx, perStatement+"; "+byKeys); err != nil {
		return 0, nil, translate(doing, err)
	}
	repair := n.Options.Repair()
	for portion := range slices.Chunk(items, foreseenAtOnce) {
		plan, err := r.foresee(ctx, keyed, operationRequest(id, n.Actor, n.Options, column(portion, func(i dlq.Item) uuid.UUID { return i.Entry })))
		if err != nil {
			return 0, nil, err
		}
		for _, c := range plan.Candidates {
			if repair != nil && c.Unreadable {
				texts = append(texts, repair.Texts(c.Readable)...)
			}
			if c.Skip != "" {
				left[c.Skip]++
			}
		}
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	if repair != nil {
		if err := repair.CheckTexts(texts); err != nil {
			return 0, nil, err
		}
	}
	return int64(len(items)), texts, nil
}

// foreseenAtOnce is how many items are foreseen with one round of statements.
const foreseenAtOnce = 1000

// operationRequest is the redrive of items of an operation.
func operationRequest(id uuid.UUID, actor string, o dlq.OperationOptions, entries []uuid.UUID) dlq.RedriveRequest {
	return dlq.RedriveRequest{Entries: entries, Target: o.Target, MaxHops: o.MaxHops, Repair: o.Repair(), Operation: id, Actor: actor}
}

// Operation implements dlq.Redriver.
func (r *Redriver) Operation(ctx context.Context, id uuid.UUID) (dlq.Operation, error) {
	o, err := oneOperation(ctx, r.pool, operationGet, id)
	if err != nil {
		return dlq.Operation{}, err
	}
	one := []dlq.Operation{r.redactor.Operation(o)}
	err = translate("read an operation", r.hideOverlaps(ctx, one))
	return one[0], err
}

func oneOperation(ctx context.Context, q interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}, query string, id uuid.UUID) (dlq.Operation, error) {
	rows, err := q.Query(ctx, query, id)
	if err != nil {
		return dlq.Operation{}, translate("read an operation", err)
	}
	o, err := pgx.CollectExactlyOneRow(rows, scanOperation)
	if errors.Is(err, pgx.ErrNoRows) {
		return o, fmt.Errorf("operation %s: %w", id, dlq.ErrNotFound)
	}
	return o, translate("read an operation", err)
}

// ListOperations implements dlq.Redriver.
func (r *Redriver) ListOperations(ctx context.Context, f dlq.OperationFilter, after uuid.UUID, limit int) ([]dlq.Operation, error) {
	rows, err := r.pool.Query(ctx, operationList, f.Open, limit, nullUUID(after), nullUUID(f.Group), dlq.SourcesOf(ctx))
	if err != nil {
		return nil, translate("list operations", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (dlq.Operation, error) {
		o, err := scanOperation(row)
		return r.redactor.Operation(o), err
	})
	if err == nil {
		err = r.hideOverlaps(ctx, found)
	}
	if err != nil || len(found) > 0 || after == uuid.Nil {
		return found, translate("list operations", err)
	}
	// A cursor to a deleted operation is refused: its sort position is unknown. The end of the list would be a wrong answer.
	if o, err := oneOperation(ctx, r.pool, operationGet, after); errors.Is(err, dlq.ErrNotFound) || err == nil && !o.SeenWith(dlq.SourcesOf(ctx)) {
		return nil, fmt.Errorf("%w: the list goes on after operation %s, which is not there, or not any more; begin at its first page",
			dlq.ErrRequest, after)
	}
	return nil, nil
}

// Command implements dlq.Redriver.
func (r *Redriver) Command(ctx context.Context, id uuid.UUID, c dlq.Command, reason string) (dlq.Operation, error) {
	if err := dlq.CheckCommandReason(reason); err != nil {
		return dlq.Operation{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err := transact(ctx, r.pool, begin, func(tx pgx.Tx) error {
		o, err := oneOperation(ctx, tx, operationLock, id)
		if err != nil {
			return err
		}
		next, err := o.State.Next(c, o.InCanary())
		if err != nil || next == o.State {
			return err
		}
		if _, err := tx.Exec(ctx, operationCommand, id, next, o.State == dlq.Halted && c == dlq.Resume); err != nil {
			return translate("change an operation", err)
		}
		details := map[string]any{"before": o.State, "after": next, "reason": reason}
		if o.State == dlq.Halted {
			details["halted"] = o.Error // the operation forgets it when it goes on
		}
		return r.audit.Audit(ctx, tx, "", c.Action(), "operation", id.String(), o.Sources, details)
	})
	if err != nil {
		return dlq.Operation{}, err
	}
	return r.Operation(ctx, id)
}
