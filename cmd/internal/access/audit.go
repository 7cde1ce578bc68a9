package access

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// Audit writes, in the transaction of a change, that the actor of ctx made it, to things of these sources; AllSources is the whole
// installation. The change must not be committed when this fails. details are JSON: before and after, or counts; never payloads or secrets. Under an
// Idempotency-Key (WithClaim) the same transaction notes there that something was changed.
func (s *Store) Audit(ctx context.Context, tx pgx.Tx, action, targetType, targetID string, sources Sources, details any) error {
	a := ActorOf(ctx)
	if a.Name == "" {
		return fmt.Errorf("audit log: %s on %s %q has no actor", action, targetType, targetID)
	}
	text, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("audit log: details of %s: %w", action, err)
	}
	if _, err := tx.Exec(ctx, auditInsert, a.Name, a.KeyID, action, targetType, targetID, a.RequestID, text, sources); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return s.note(ctx, tx, action, targetID)
}

// Look writes that the actor of ctx was shown something that is guarded, before it is shown.
func (s *Store) Look(ctx context.Context, action, targetType, targetID string, sources Sources, details any) error {
	return s.change(ctx, func(tx pgx.Tx) error { return s.Audit(ctx, tx, action, targetType, targetID, sources, details) })
}

// Done is a row of the audit log.
type Done struct {
	// ID is its number.
	ID int64 `json:"id,string"`
	// At is when it was written.
	At time.Time `json:"at"`
	// Actor is who made the change.
	Actor string `json:"actor"`
	// KeyID is the key of the API that the change was made with; left out where there was none.
	KeyID string `json:"key_id,omitempty"`
	// Action is what was done.
	Action string `json:"action"`
	// TargetType is what kind of thing it was done to.
	TargetType string `json:"target_type"`
	// TargetID is the id of what it was done to; left out for what has none, such as the detector.
	TargetID string `json:"target_id,omitempty"`
	// RequestID is the id of the request to the API; left out where there was none.
	RequestID string `json:"request_id,omitempty"`
	// Sources are the sources of what it was done to; ["*"] is the whole installation.
	Sources Sources `json:"sources"`
	// Details are more about the change: before and after, or counts.
	Details json.RawMessage `json:"details"`
	// SessionUser is the login of the database that wrote the row; a caller cannot choose it. For a change by the API it
	// is the login of postrider serve. Actor is the name that this login gave.
	SessionUser string `json:"session_user_name"`
	// Batches counts the rows that the batches of the operation have, where a list leaves these out: on the row of its start. It
	// is 1001 where there are more than 1,000, and is left out otherwise.
	Batches int64 `json:"batches,omitempty"`
}

// DoneFilter selects rows of the audit log. Its zero value selects all.
type DoneFilter struct {
	// Actor, Action, TargetType and TargetID, where not empty, are the only ones wanted. The Actor cli:LOGIN stands for
	// everybody who used that login of the database: cli:LOGIN (PERSON), too.
	Actor, Action, TargetType, TargetID string
	// From and To bound the time, both inclusive, where not zero.
	From, To time.Time
	// NoBatches leaves out the rows of batches of operations. The row of an operation's start counts them.
	NoBatches bool
	// Before, if not 0, is the id before which to go on.
	Before int64
	// Limit is how many to return, 1 to MaxHistory + 1: a page, and the row that says whether there is a next one.
	// Defaults to 100.
	Limit int
}

// MaxHistory is how many rows a page of the audit log may have.
const MaxHistory = 1000

// History returns what was done, newest first. In a context that is limited to sources (Limited) it leaves out what was also done to
// others, or to the whole installation.
func (s *Store) History(ctx context.Context, f DoneFilter) ([]Done, error) {
	if f.Limit < 1 || f.Limit > MaxHistory+1 {
		f.Limit = 100
	}
	// The query is planned anew for its filters: one plan for all filters would walk the table.
	rows, err := s.pool.Query(ctx, auditList, pgx.QueryExecModeExec, f.Actor, f.Action, f.TargetType, f.TargetID, orNull(f.From), orNull(f.To), f.Before, f.Limit, !f.NoBatches, dlq.SourcesOf(ctx))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Done, err error) {
		return d, row.Scan(append(d.columns(), &d.Batches)...)
	})
}

// EntryHistory returns what was done to an investigation, newest first, 100 at most: to it alone, to it among others (the
// row lists all of them as entries in its details; here it shows this one and their number), and with the operations given,
// which it is in. Of a row that is also about other sources than the ones that ctx limits to, the details are left out.
func (s *Store) EntryHistory(ctx context.Context, entry string, operations []string) ([]Done, error) {
	return s.done(ctx, auditEntry, pgx.QueryExecModeExec, entry, operations, dlq.SourcesOf(ctx))
}

// OperationHistory returns what people did with an operation, newest first, 100 at most: who planned it, and who started,
// paused, resumed and aborted it.
func (s *Store) OperationHistory(ctx context.Context, operation string) ([]Done, error) {
	return s.done(ctx, auditOperation, pgx.QueryExecModeExec, operation)
}

func (s *Store) done(ctx context.Context, query string, args ...any) ([]Done, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Done, err error) {
		return d, row.Scan(d.columns()...)
	})
}

// columns are where the columns of a row of the log go.
func (d *Done) columns() []any {
	return []any{&d.ID, &d.At, &d.Actor, &d.KeyID, &d.Action, &d.TargetType, &d.TargetID, &d.RequestID, &d.Sources, &d.Details, &d.SessionUser}
}

// PurgeAudit removes the oldest rows of the audit log that are older than keep, which is 30 days at least: limit of them at
// most. It returns how many are gone, and whether another call may find more.
func (s *Store) PurgeAudit(ctx context.Context, keep time.Duration, limit int) (gone int, more bool, err error) {
	err = s.pool.QueryRow(ctx, auditPurge, keep.Microseconds(), limit).Scan(&gone)
	return gone, gone == limit, err
}

// orNull is null for a zero value.
func orNull[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}
