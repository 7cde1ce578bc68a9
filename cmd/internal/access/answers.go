package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	// ErrOtherRequest: the Idempotency-Key was used for another request before.
	ErrOtherRequest = errors.New("this Idempotency-Key was used with another request; use a new one")
	// ErrInWork: the first request with this Idempotency-Key has not ended.
	ErrInWork = errors.New("the first request with this Idempotency-Key is still in work; ask again")
)

// AnswerPatience is how long a request with an Idempotency-Key may be in work. One that is older was lost with
// its process, and may be made again: what requests change is safe to repeat.
const AnswerPatience = 2 * time.Minute

// Answer is what a request was told.
type Answer struct {
	Status int
	Body   []byte
}

// Begin claims an Idempotency-Key for a request of the actor of ctx. It returns the answer of the first
// request, if that was the same and has ended; nil if this is the first.
func (s *Store) Begin(ctx context.Context, key string, request []byte) (*Answer, error) {
	hash := sha256.Sum256(request)
	owner := ActorOf(ctx).KeyID
	// A row that is found may be purged before it is read.
	for {
		tag, err := s.pool.Exec(ctx, answerBegin, owner, key, hash[:], AnswerPatience.Microseconds())
		if err != nil {
			return nil, err
		}
		if tag.RowsAffected() == 1 {
			return nil, nil
		}
		var same bool
		var status *int
		var body []byte
		err = s.pool.QueryRow(ctx, answerFind, owner, key, hash[:]).Scan(&same, &status, &body)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			continue
		case err != nil:
			return nil, err
		case !same:
			return nil, ErrOtherRequest
		case status == nil:
			return nil, ErrInWork
		}
		return &Answer{*status, body}, nil
	}
}

// End keeps the answer.
func (s *Store) End(ctx context.Context, key string, a Answer) error {
	_, err := s.pool.Exec(ctx, answerEnd, ActorOf(ctx).KeyID, key, a.Status, a.Body)
	return err
}

// Forget gives the key up without an answer, so that the request can be made again.
func (s *Store) Forget(ctx context.Context, key string) error {
	_, err := s.pool.Exec(ctx, answerForget, ActorOf(ctx).KeyID, key)
	return err
}

// PurgeAnswers removes answers older than keep, at most 1000, and returns how many.
func (s *Store) PurgeAnswers(ctx context.Context, keep time.Duration) (int, error) {
	tag, err := s.pool.Exec(ctx, answerPurge, keep.Microseconds())
	return int(tag.RowsAffected()), err
}
