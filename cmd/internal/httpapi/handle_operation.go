package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// maxOperationIDs is how many investigations an operation may name one by one; more are selected by a group or a
// filter.
const maxOperationIDs = 10_000

// scopeOf is what a key needs for an operation of a kind.
func scopeOf(kind dlq.OperationKind) access.Scope {
	switch kind {
	case dlq.OpRedrive:
		return access.Redrive
	case dlq.OpResolve:
		return access.Resolve
	}
	return access.Purge
}

func mayTreat(r *Request, kind dlq.OperationKind) error {
	if scope := scopeOf(kind); !r.Actor.May(scope) {
		return refuse(Forbidden, "an operation of the kind %s needs the scope %s, which the key %q does not have", kind, scope, r.Actor.Name)
	}
	return nil
}

func (s *Services) planOperation(ctx context.Context, r *Request) (any, error) {
	var b planBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	err := r.saysWhich("scope.group", "scope.filter")
	if err != nil {
		return nil, err
	}
	n := dlq.NewOperation{Kind: b.Kind, Name: b.Name, Reason: b.Reason, Actor: r.Actor.Name, Options: b.Options}
	if b.Scope.IDs != nil {
		if n.Scope.Entries, err = s.entryIDs(ctx, b.Scope.IDs, maxOperationIDs); err != nil {
			return nil, err
		}
	}
	if b.Scope.Group != nil {
		n.Scope.Group = *b.Scope.Group
		if err := dlq.CheckSeen(ctx, s.Investigations, dlq.AGroup, n.Scope.Group); err != nil {
			return nil, err
		}
	}
	if b.Scope.Filter != nil {
		f, err := b.Scope.Filter.Parse()
		if err != nil {
			return nil, refuseField("scope.filter.", err)
		}
		n.Scope.Filter = &f
	}
	if err := mayTarget(r, n.Options.Target); err != nil {
		return nil, err
	}
	if err := n.Check(); err != nil {
		return nil, err
	}
	if err := mayTreat(r, n.Kind); err != nil {
		return nil, err
	}
	if n.Options.Repair() != nil && !r.Actor.May(access.Edit) {
		return nil, refuse(Forbidden, "giving messages other headers needs the scope %s, which the key %q does not have", access.Edit, r.Actor.Name)
	}
	o, err := s.Redriver.PlanOperation(ctx, n)
	return Created{api.NewOperation(o)}, err
}

func (s *Services) listOperations(ctx context.Context, r *Request) (any, error) {
	size, err := s.size(r)
	if err != nil {
		return nil, err
	}
	open, err := oneOf(r, "open", "false", "false", "true")
	if err != nil {
		return nil, err
	}
	group, err := r.uuid("group")
	if err != nil {
		return nil, err
	}
	after, err := r.uuid("after")
	if err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	found, err := s.Redriver.ListOperations(ctx, dlq.OperationFilter{Open: open == "true", Group: group}, after, size+1)
	if err != nil {
		return nil, err
	}
	return api.NewOperationList(found, size), nil
}

func (s *Services) getOperation(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	o, err := s.Redriver.Operation(ctx, id)
	if err != nil {
		return nil, err
	}
	done, err := s.Access.OperationHistory(ctx, id.String())
	if err != nil {
		return nil, err
	}
	return api.NewOperationDetail(o, done), nil
}

func (s *Services) operationItems(ctx context.Context, r *Request) (any, error) {
	id, err := r.id("id")
	if err != nil {
		return nil, err
	}
	size, err := s.size(r)
	if err != nil {
		return nil, err
	}
	state, err := oneOf(r, "state", "", api.ItemStates()...)
	if err != nil {
		return nil, err
	}
	outcome, err := oneOf(r, "outcome", "", api.ItemOutcomes()...)
	if err != nil {
		return nil, err
	}
	after, err := r.place("after")
	if err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	if _, err := s.Redriver.Operation(ctx, id); err != nil {
		return nil, err
	}
	found, err := s.Redriver.Items(ctx, id, dlq.ItemFilter{State: state, Outcome: outcome}, after, size+1)
	if err != nil {
		return nil, err
	}
	return api.NewItemList(found, size), nil
}

// command changes the state of an operation.
func (s *Services) command(c dlq.Command) func(context.Context, *Request) (any, error) {
	return func(ctx context.Context, r *Request) (any, error) {
		id, err := r.only("id")
		if err != nil {
			return nil, err
		}
		var b commandBody
		if err := r.optional(&b); err != nil {
			return nil, err
		}
		return s.commanded(ctx, r, id, c, b.Reason)
	}
}

func (s *Services) abortOperation(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	var b abortBody
	if err := r.optional(&b); err != nil {
		return nil, err
	}
	c := dlq.Abort
	if b.OnlyPlanned {
		c = dlq.Withdraw
	}
	return s.commanded(ctx, r, id, c, b.Reason)
}

// commanded gives a command to an operation. It needs the scope that planning one of its kind needs.
func (s *Services) commanded(ctx context.Context, r *Request, id uuid.UUID, c dlq.Command, reason string) (any, error) {
	o, err := s.Redriver.Operation(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := mayTreat(r, o.Kind); err != nil {
		return nil, err
	}
	o, err = s.Redriver.Command(ctx, id, c, reason)
	return api.NewOperation(o), err
}
