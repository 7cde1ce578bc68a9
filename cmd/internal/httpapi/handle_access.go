package httpapi

import (
	"context"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
)

func (s *Services) getMe(_ context.Context, r *Request) (any, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	return api.Me{ID: r.Actor.KeyID, Name: r.Actor.Name, Scopes: r.Actor.Scopes, Sources: append(access.Sources{}, r.Actor.Sources...)}, nil
}

func (s *Services) listKeys(ctx context.Context, r *Request) (any, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	keys, err := s.Access.List(ctx)
	return api.All(api.KeyOf, keys), err
}

func (s *Services) createKey(ctx context.Context, r *Request) (any, error) {
	var b createKeyBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	if r.Header.Get("Idempotency-Key") != "" {
		return nil, refuse(Validation, "a key is shown once and kept nowhere, so its answer cannot be repeated: leave the Idempotency-Key out")
	}
	const century = 100 * 365 * 24 * 60 * 60
	if b.ExpiresIn < 0 || b.ExpiresIn > century {
		return nil, refuse(Validation, "expires_in_seconds is %d; it must be 0 (for good) to %d", b.ExpiresIn, int64(century))
	}
	k, token, err := s.Access.Create(ctx, access.NewKey{Name: b.Name, Scopes: b.Scopes, Sources: b.Sources, ExpiresIn: time.Duration(b.ExpiresIn) * time.Second})
	if err != nil {
		return nil, err
	}
	return Created{api.CreatedKey{Key: api.KeyOf(k), Token: token}}, nil
}

func (s *Services) revokeKey(ctx context.Context, r *Request) (any, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	id, err := r.part("id")
	if err != nil {
		return nil, err
	}
	k, err := s.Access.Revoke(ctx, id)
	return api.KeyOf(k), err
}

func (s *Services) listAudit(ctx context.Context, r *Request) (any, error) {
	size, err := s.size(r)
	if err != nil {
		return nil, err
	}
	f := access.DoneFilter{Limit: size + 1}
	for name, to := range map[string]*string{"actor": &f.Actor, "action": &f.Action, "target_type": &f.TargetType, "target_id": &f.TargetID} {
		if *to, err = r.text(name); err != nil {
			return nil, err
		}
	}
	if f.From, err = r.when("from", false); err != nil {
		return nil, err
	}
	if f.To, err = r.when("to", true); err != nil {
		return nil, err
	}
	batches, err := oneOf(r, "batches", "true", "true", "false")
	if err != nil {
		return nil, err
	}
	f.NoBatches = batches == "false"
	if f.Before, err = r.place("after"); err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	done, err := s.Access.History(ctx, f)
	if err != nil {
		return nil, err
	}
	return api.NewAuditList(done, size), nil
}
