package httpapi

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// groupView is a group as the API shows it.
type groupView struct {
	UUID            uuid.UUID  `json:"group_uuid"`
	Fingerprint     string     `json:"fingerprint"`
	Version         int        `json:"fingerprint_version"`
	Parts           dlq.Parts  `json:"parts"`
	Title           string     `json:"title"`
	Topic           *string    `json:"topic"`
	Reason          string     `json:"reason"`
	State           string     `json:"state"`
	MutedUntil      *time.Time `json:"muted_until"`
	Total           int64      `json:"total"`
	Entries         int64      `json:"entries"`
	Pending         int64      `json:"pending"`
	Occurrences     int64      `json:"occurrences"`
	FirstSeenAt     time.Time  `json:"first_seen_at"`
	LastSeenAt      time.Time  `json:"last_seen_at"`
	ResolvedThrough *time.Time `json:"resolved_through"`
	LastEntry       *uuid.UUID `json:"last_entry_uuid"`
	Assignee        *string    `json:"assignee"`
	Note            *string    `json:"note"`
	CreatedAt       time.Time  `json:"created_at"`
	UpdatedAt       time.Time  `json:"updated_at"`
}

func viewGroup(g dlq.Group) groupView {
	return groupView{
		UUID: g.UUID, Fingerprint: g.Fingerprint, Version: g.Version, Parts: g.Parts,
		Title: g.Title, Topic: given(g.Topic), Reason: g.Word, State: string(g.State), MutedUntil: given(g.MutedUntil),
		Total: g.Total, Entries: g.Entries, Pending: g.Pending, Occurrences: g.Occurrences, FirstSeenAt: g.FirstSeenAt, LastSeenAt: g.LastSeenAt,
		ResolvedThrough: given(g.ResolvedThrough), LastEntry: given(g.LastEntryUUID), Assignee: given(g.Assignee), Note: given(g.Note),
		CreatedAt: g.CreatedAt, UpdatedAt: g.UpdatedAt,
	}
}

func (s *Services) listGroups(ctx context.Context, r *Request) (any, error) {
	size, err := s.size(r)
	if err != nil {
		return nil, err
	}
	q := dlq.GroupSearch{Limit: size}
	state, err := r.oneOf("state", words("", dlq.GroupStates())...)
	if err != nil {
		return nil, err
	}
	by, err := r.oneOf("order_by", words("", dlq.GroupOrders())...)
	if err != nil {
		return nil, err
	}
	dir, err := r.oneOf("order_dir", "desc", "asc")
	if err != nil {
		return nil, err
	}
	q.State, q.OrderBy, q.Ascending = dlq.GroupState(state), dlq.GroupOrder(by), dir == "asc"
	for name, to := range map[string]*string{"topic": &q.Topic, "error_code": &q.ErrorCode, "assignee": &q.Assignee, "text": &q.Text, "after": &q.After} {
		if *to, err = r.text(name); err != nil {
			return nil, err
		}
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	found, err := s.Groups.ListGroups(ctx, q)
	if err != nil {
		return nil, err
	}
	items := make([]groupView, len(found.Groups))
	for i, g := range found.Groups {
		items[i] = viewGroup(g)
	}
	return struct {
		list[groupView]
		Total int64 `json:"total"`
	}{list[groupView]{items, given(found.Next)}, found.Total}, nil
}

type hourView struct {
	Hour   time.Time `json:"hour"`
	Opened int64     `json:"opened"`
}

type partitionView struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Letters   int64  `json:"letters"`
}

func (s *Services) getGroup(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	d, err := s.Groups.ShowGroup(ctx, id)
	if err != nil {
		return nil, err
	}
	hours, partitions := make([]hourView, len(d.Hours)), make([]partitionView, len(d.Partitions))
	for i, h := range d.Hours {
		hours[i] = hourView(h)
	}
	for i, p := range d.Partitions {
		partitions[i] = partitionView(p)
	}
	statuses := map[string]int64{}
	for _, status := range dlq.Statuses() {
		statuses[string(status)] = d.Statuses[status]
	}
	return struct {
		groupView
		Why         []string         `json:"why"`
		Recommended *uuid.UUID       `json:"recommended_entry_uuid"`
		Statuses    map[string]int64 `json:"statuses"`
		Hours       []hourView       `json:"hours"`
		Partitions  []partitionView  `json:"partitions"`
		Related     []uuid.UUID      `json:"related"`
	}{viewGroup(d.Group), notNull(d.Why), given(d.Recommended), statuses, hours, partitions, notNull(d.Related)}, nil
}

func (s *Services) changeGroup(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	var b struct {
		Note       *string    `json:"note"`
		Assignee   *string    `json:"assignee"`
		Muted      *bool      `json:"muted"`
		MutedUntil *time.Time `json:"muted_until"`
	}
	if err := r.body(&b); err != nil {
		return nil, err
	}
	c := dlq.GroupChange{Note: b.Note, Assignee: b.Assignee, Muted: b.Muted, Actor: r.Actor.Name}
	if b.MutedUntil != nil {
		c.MutedUntil = *b.MutedUntil
	}
	g, err := s.Groups.ChangeGroup(ctx, id, c)
	return viewGroup(g), err
}

func (s *Services) resolveGroup(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	var b struct {
		Status     dlq.Status      `json:"resolution_status"`
		Notes      string          `json:"resolution_notes"`
		ResolvedBy string          `json:"resolved_by"`
		Until      json.RawMessage `json:"until"`
	}
	if err := r.optional(&b); err != nil {
		return nil, err
	}
	q := dlq.GroupResolution{Status: b.Status, Notes: b.Notes, ResolvedBy: b.ResolvedBy, Actor: r.Actor.Name}
	if until := unlessNull(b.Until); until != nil {
		var text string
		ok := json.Unmarshal(until, &text) == nil
		if ok {
			q.Until, ok = parseTime(text, true)
		}
		if !ok {
			return nil, refuse(Validation, "until must be a date (2026-01-31) or a time (2026-01-31T08:00:00Z)")
		}
	}
	done, err := s.Groups.ResolveGroup(ctx, id, q)
	return struct {
		Closed int       `json:"closed"`
		Left   int64     `json:"left"`
		Until  time.Time `json:"until"`
	}{done.Closed, done.Left, done.Until}, err
}
