package httpapi

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
)

// maxOperationIDs is how many investigations an operation may name one by one; more are selected by a group or a
// filter.
const maxOperationIDs = 10_000

// operationView is an operation as the API shows it.
type operationView struct {
	UUID       uuid.UUID            `json:"operation_uuid"`
	Kind       string               `json:"kind"`
	Name       string               `json:"name"`
	Reason     *string              `json:"reason"`
	Actor      string               `json:"actor"`
	State      string               `json:"state"`
	Scope      scopeView            `json:"scope"`
	Options    dlq.OperationOptions `json:"options"`
	Plan       dlq.Plan             `json:"plan"`
	Items      int64                `json:"items"`
	Done       int64                `json:"done"`
	Skipped    int64                `json:"skipped"`
	Failed     int64                `json:"failed"`
	Delivered  int64                `json:"delivered"`
	CameBack   int64                `json:"came_back"`
	Error      *string              `json:"error"`
	CreatedAt  time.Time            `json:"created_at"`
	StartedAt  *time.Time           `json:"started_at"`
	TreatedAt  *time.Time           `json:"treated_at"`
	FinishedAt *time.Time           `json:"finished_at"`
	UpdatedAt  time.Time            `json:"updated_at"`
}

// scopeView is what an operation is about. Of ids it says how many: the items have them.
type scopeView struct {
	IDs    int         `json:"ids,omitempty"`
	Group  *uuid.UUID  `json:"group,omitempty"`
	Filter *filterBody `json:"filter,omitempty"`
}

func viewOperation(o dlq.Operation) operationView {
	if o.Plan.Topics == nil {
		o.Plan.Topics = map[string]int64{}
	}
	return operationView{
		UUID: o.UUID, Kind: string(o.Kind), Name: o.Name, Reason: given(o.Reason), Actor: o.Actor, State: string(o.State),
		Scope:   scopeView{len(o.Scope.Entries), given(o.Scope.Group), viewFilter(o.Scope.Filter)},
		Options: o.Options, Plan: o.Plan, Items: o.Items, Done: o.Done, Skipped: o.Skipped, Failed: o.Failed, Delivered: o.Delivered,
		CameBack: o.CameBack, Error: given(o.Error), CreatedAt: o.CreatedAt, StartedAt: given(o.StartedAt), TreatedAt: given(o.TreatedAt),
		FinishedAt: given(o.FinishedAt), UpdatedAt: o.UpdatedAt,
	}
}

// filterBody is the filter of an operation, with the names that the parameters of GET /dlq have. The pending
// investigations that fit are in its scope; a purge may name another status.
type filterBody struct {
	Status      dlq.Status      `json:"resolution_status,omitempty"`
	DLQReason   dlq.Reason      `json:"dlq_reason,omitempty"`
	SubjectType dlq.SubjectType `json:"subject_type,omitempty"`
	SubjectID   string          `json:"subject_id,omitempty"`
	Topic       string          `json:"topic,omitempty"`
	ErrorCode   string          `json:"error_code,omitempty"`
	Group       *uuid.UUID      `json:"group,omitempty"`
	Assignee    string          `json:"assignee,omitempty"`
	Message     string          `json:"reason,omitempty"`
	From        string          `json:"from,omitempty"`
	To          string          `json:"to,omitempty"`
}

func (b filterBody) filter() (*dlq.Filter, error) {
	if !slices.Contains([]dlq.SubjectType{"", dlq.SubjectEvent, dlq.SubjectTask, dlq.SubjectRecord}, b.SubjectType) {
		return nil, refuse(Validation, "scope.filter.subject_type is %q; it must be event, task or record", shown(string(b.SubjectType)))
	}
	f := &dlq.Filter{Status: b.Status, Reason: b.DLQReason, Subject: dlq.Subject{Type: b.SubjectType, ID: b.SubjectID}, Topic: b.Topic,
		ErrorCode: b.ErrorCode, Assignee: b.Assignee, Message: b.Message}
	if b.Group != nil {
		f.Group = *b.Group
	}
	for _, bound := range []struct {
		name, text string
		upper      bool
		to         *time.Time
	}{{"from", b.From, false, &f.From}, {"to", b.To, true, &f.To}} {
		if bound.text == "" {
			continue
		}
		var ok bool
		if *bound.to, ok = parseTime(bound.text, bound.upper); !ok {
			return nil, refuse(Validation, "scope.filter.%s is %q; it must be a date (2026-01-31) or a time (2026-01-31T08:00:00Z)", bound.name, shown(bound.text))
		}
	}
	return f, nil
}

func viewFilter(f *dlq.Filter) *filterBody {
	if f == nil {
		return nil
	}
	b := &filterBody{Status: f.Status, DLQReason: f.Reason, SubjectType: f.Subject.Type, SubjectID: f.Subject.ID, Topic: f.Topic, ErrorCode: f.ErrorCode,
		Group: given(f.Group), Assignee: f.Assignee, Message: f.Message}
	if !f.From.IsZero() {
		b.From = f.From.Format(time.RFC3339Nano)
	}
	if !f.To.IsZero() {
		b.To = f.To.Format(time.RFC3339Nano)
	}
	return b
}

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
	var b struct {
		Kind   dlq.OperationKind `json:"kind"`
		Name   string            `json:"name"`
		Reason string            `json:"reason"`
		Scope  struct {
			IDs    []string    `json:"ids"`
			Group  *uuid.UUID  `json:"group"`
			Filter *filterBody `json:"filter"`
		} `json:"scope"`
		Options dlq.OperationOptions `json:"options"`
	}
	if err := r.body(&b); err != nil {
		return nil, err
	}
	err := r.saysWhich("scope.group", "scope.filter")
	if err != nil {
		return nil, err
	}
	n := dlq.NewOperation{Kind: b.Kind, Name: b.Name, Reason: b.Reason, Actor: r.Actor.Name, Options: b.Options}
	if b.Scope.IDs != nil {
		if n.Scope.Entries, err = entryIDs(b.Scope.IDs, maxOperationIDs); err != nil {
			return nil, err
		}
	}
	if b.Scope.Group != nil {
		n.Scope.Group = *b.Scope.Group
	}
	if b.Scope.Filter != nil {
		if n.Scope.Filter, err = b.Scope.Filter.filter(); err != nil {
			return nil, err
		}
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
	o, err := s.Operations.PlanOperation(ctx, n)
	return Created{viewOperation(o)}, err
}

func (s *Services) listOperations(ctx context.Context, r *Request) (any, error) {
	size, err := s.size(r)
	if err != nil {
		return nil, err
	}
	open, err := r.oneOf("open", "false", "true")
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
	found, err := s.Operations.ListOperations(ctx, open == "true", after, size+1)
	if err != nil {
		return nil, err
	}
	out := list[operationView]{Items: []operationView{}}
	for i, o := range found {
		if i == size {
			last := found[size-1].UUID.String()
			out.Next = &last
			break
		}
		out.Items = append(out.Items, viewOperation(o))
	}
	return out, nil
}

func (s *Services) getOperation(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	o, err := s.Operations.Operation(ctx, id)
	return viewOperation(o), err
}

type itemView struct {
	Item   int64     `json:"item"`
	Entry  uuid.UUID `json:"dlq_entry_uuid"`
	State  string    `json:"state"`
	Reason *string   `json:"reason"`
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
	state, err := r.oneOf("state", "", "waiting", "done", "skipped", "failed")
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
	if _, err := s.Operations.Operation(ctx, id); err != nil {
		return nil, err
	}
	found, err := s.Operations.Items(ctx, id, state, after, size+1)
	if err != nil {
		return nil, err
	}
	out := list[itemView]{Items: []itemView{}}
	for i, one := range found {
		if i == size {
			place := strconv.FormatInt(found[size-1].Place, 10)
			out.Next = &place
			break
		}
		out.Items = append(out.Items, itemView{one.Place, one.Entry, one.State, given(one.Reason)})
	}
	return out, nil
}

// command changes the state of an operation. Who may plan one of its kind may.
func (s *Services) command(c dlq.Command) func(context.Context, *Request) (any, error) {
	return func(ctx context.Context, r *Request) (any, error) {
		id, err := r.bare("id")
		if err != nil {
			return nil, err
		}
		o, err := s.Operations.Operation(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := mayTreat(r, o.Kind); err != nil {
			return nil, err
		}
		o, err = s.Operations.Command(ctx, id, c)
		return viewOperation(o), err
	}
}
