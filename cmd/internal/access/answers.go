package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	// ErrOtherRequest: the Idempotency-Key was used for another request before.
	ErrOtherRequest = errors.New("this Idempotency-Key was used with another request; use a new one")
	// ErrInWork: the first request with this Idempotency-Key has not ended.
	ErrInWork = errors.New("the first request with this Idempotency-Key is still in work; ask again")
	// errGivenUp: a later request has the Idempotency-Key by now, or the key was forgotten.
	errGivenUp = errors.New("the Idempotency-Key of this request was taken over by a later one, or forgotten: nothing is changed under it any more")
)

// AnswerPatience is how long a request with an Idempotency-Key may be in work; no operation takes so long. When an
// older request has committed nothing, it was lost with its process and may be made again.
const AnswerPatience = 3 * time.Minute

// Answer is what a request was told.
type Answer struct {
	Status int
	Body   []byte
}

// Claim is an Idempotency-Key in the hands of one request. Its zero value is none.
type Claim struct {
	owner, key string
	// at tells this claim from earlier and later claims of the same key.
	at time.Time
}

// LostError says that the first request with an Idempotency-Key was carried out, and that its answer is not kept: not
// yet, or it was lost on the way.
type LostError struct {
	// Claim is that of the first request.
	Claim Claim
	// Action, TargetID and RequestID are from the newest row of that request in the audit log.
	Action, TargetID, RequestID string
}

func (e *LostError) Error() string {
	on := e.Action
	if e.TargetID != "" {
		on += " " + e.TargetID
	}
	return fmt.Sprintf("the first request with this Idempotency-Key was carried out, or a part of it (%s), and its answer was lost or is on its way; the audit log has it under request id %s", on, e.RequestID)
}

type claimKey struct{}

// WithClaim returns a context whose changes are made under an Idempotency-Key: Audit notes in their transactions that
// something was changed under it.
func WithClaim(ctx context.Context, c Claim) context.Context {
	return context.WithValue(ctx, claimKey{}, c)
}

// WithoutClaim returns a context whose changes leave the Idempotency-Key as it is: they are no part of the request.
func WithoutClaim(ctx context.Context) context.Context {
	return context.WithValue(ctx, claimKey{}, nil)
}

// Begin claims an Idempotency-Key for a request of the actor of ctx. It returns the answer of the first
// request, if that was the same and has ended; nil if this is the first, or the first left nothing. It fails with a
// *LostError if the first changed something and no answer is known.
func (s *Store) Begin(ctx context.Context, key string, request []byte) (Claim, *Answer, error) {
	hash := sha256.Sum256(request)
	c := Claim{owner: ActorOf(ctx).KeyID, key: key}
	// A row that is found may be purged before it is read.
	for {
		err := s.pool.QueryRow(ctx, answerBegin, c.owner, key, hash[:], AnswerPatience.Microseconds()).Scan(&c.at)
		if err == nil {
			return c, nil, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return Claim{}, nil, err
		}
		var same, changed bool
		var status *int
		var body []byte
		lost := LostError{Claim: c}
		err = s.pool.QueryRow(ctx, answerFind, c.owner, key, hash[:]).
			Scan(&same, &status, &body, &changed, &lost.Claim.at, &lost.Action, &lost.TargetID, &lost.RequestID)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			continue
		case err != nil:
			return Claim{}, nil, err
		case !same:
			return Claim{}, nil, ErrOtherRequest
		case status != nil:
			return Claim{}, &Answer{*status, body}, nil
		case changed:
			return Claim{}, nil, &lost
		}
		return Claim{}, nil, ErrInWork
	}
}

// note writes into the claim of ctx, if there is one, that the transaction changes something. The row stays locked
// until the transaction ends, so a request that asks meanwhile waits for the outcome.
func (s *Store) note(ctx context.Context, tx pgx.Tx, action, targetID string) error {
	c, claimed := ctx.Value(claimKey{}).(Claim)
	if !claimed {
		return nil
	}
	tag, err := tx.Exec(ctx, answerChanged, c.owner, c.key, c.at, action, targetID, ActorOf(ctx).RequestID)
	if err == nil && tag.RowsAffected() != 1 {
		err = errGivenUp
	}
	return err
}

// End keeps the answer.
func (s *Store) End(ctx context.Context, c Claim, a Answer) error {
	_, err := s.pool.Exec(ctx, answerEnd, c.owner, c.key, c.at, a.Status, a.Body)
	return err
}

// Forget gives the key up without an answer, so that the request can be made again; unless something was changed under
// it. A commit that is on its way is waited for.
func (s *Store) Forget(ctx context.Context, c Claim) error {
	_, err := s.pool.Exec(ctx, answerForget, c.owner, c.key, c.at)
	return err
}

// PurgeAnswers removes answers older than keep, limit of them at most. It returns how many are gone, and whether another
// call may find more.
func (s *Store) PurgeAnswers(ctx context.Context, keep time.Duration, limit int) (gone int, more bool, err error) {
	tag, err := s.pool.Exec(ctx, answerPurge, keep.Microseconds(), limit)
	gone = int(tag.RowsAffected())
	return gone, gone == limit, err
}
