package httpapi

import (
	"context"
	"encoding/json"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

func (s *Services) listGroups(ctx context.Context, r *Request) (any, error) {
	size, err := s.size(r)
	if err != nil {
		return nil, err
	}
	var f api.GroupFilter
	if err := r.texts(api.Fields(&f)); err != nil {
		return nil, err
	}
	q, err := f.Parse()
	if err != nil {
		return nil, refuseField("parameter ", err)
	}
	if q.OrderBy, err = oneOf(r, "order_by", "", dlq.GroupOrders()...); err != nil {
		return nil, err
	}
	dir, err := oneOf(r, "order_dir", "desc", "desc", "asc")
	if err != nil {
		return nil, err
	}
	if q.After, err = r.text("after"); err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	q.Ascending, q.Limit = dir == "asc", size
	found, err := s.Investigations.ListGroups(ctx, q)
	if err != nil {
		return nil, err
	}
	return api.NewGroupList(found), nil
}

func (s *Services) getGroup(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	d, err := s.Investigations.ShowGroup(ctx, id)
	if err != nil {
		return nil, err
	}
	return api.NewGroupDetail(d), nil
}

func (s *Services) changeGroup(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	var b changeGroupBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	c := dlq.GroupChange{Note: b.Note, Assignee: b.Assignee, IfAssignee: b.IfAssignee, Muted: b.Muted, Actor: r.Actor.Name}
	if b.MutedUntil != nil {
		c.MutedUntil = *b.MutedUntil
	}
	g, err := s.Investigations.ChangeGroup(ctx, id, c)
	return api.NewGroup(g), err
}

func (s *Services) resolveGroup(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	var b resolveGroupBody
	if err := r.optional(&b); err != nil {
		return nil, err
	}
	q := dlq.GroupResolution{Status: b.Status, Notes: b.Notes, ResolvedBy: b.ResolvedBy, Actor: r.Actor.Name}
	if until := unlessNull(b.Until); until != nil {
		var text string
		ok := json.Unmarshal(until, &text) == nil
		if ok {
			q.Until, ok = api.ParseTime(text, true)
		}
		if !ok {
			return nil, refuse(Validation, "until must be a date (2026-01-31) or a time (2026-01-31T08:00:00Z)")
		}
	}
	done, err := s.Investigations.ResolveGroup(ctx, id, q)
	return api.NewResolvedGroup(done), err
}

// mergeGroup puts the investigations of a group into another.
func (s *Services) mergeGroup(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	var b mergeGroupBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	into, err := parseID("into", b.Into)
	if err != nil {
		return nil, err
	}
	if err := dlq.CheckSeen(ctx, s.Investigations, dlq.AGroup, into); err != nil {
		return nil, err
	}
	done, err := s.Investigations.MergeGroups(ctx, dlq.GroupMerge{Group: id, Into: into, Actor: r.Actor.Name})
	return api.MergedGroup{UUID: id, Into: into, Moved: done.Moved, Left: done.Left}, err
}

// splitGroup takes investigations out of a group.
func (s *Services) splitGroup(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	var b splitGroupBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	ids, err := s.entryIDs(ctx, b.IDs, dlq.MaxGroupSplit)
	if err != nil {
		return nil, err
	}
	groups, err := s.Investigations.SplitGroup(ctx, dlq.GroupSplit{Group: id, Entries: ids, Actor: r.Actor.Name})
	return api.All(api.NewSplitGroup, groups), err
}
