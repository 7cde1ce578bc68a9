package postgres

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq"
)

// scanGroup reads a group.
func scanGroup(row pgx.CollectableRow) (g dlq.Group, err error) {
	var parts []byte
	var topic, assignee, note *string
	var muted, resolved pgtype.Timestamptz
	var last, merged pgtype.UUID
	err = row.Scan(&g.UUID, &g.Fingerprint, &g.Version, &parts, &g.Title, &topic, &g.Word, &g.State, &muted, &g.Total, &g.Entries,
		&g.Pending, &g.Occurrences, &g.FirstSeenAt, &g.LastSeenAt, &resolved, &last, &assignee, &note, &g.CreatedAt, &g.UpdatedAt, &merged, &g.Source)
	if err != nil {
		return g, err
	}
	g.Topic, g.Assignee, g.Note = value(topic), value(assignee), value(note)
	g.MutedUntil, g.ResolvedThrough, g.LastEntryUUID = muted.Time, resolved.Time, last.Bytes
	g.MergedInto = merged.Bytes
	return g, json.Unmarshal(parts, &g.Parts)
}

// ListGroups implements dlq.Investigations.
func (d *Investigations) ListGroups(ctx context.Context, q dlq.GroupSearch) (dlq.GroupPage, error) {
	if err := q.Check(); err != nil {
		return dlq.GroupPage{}, err
	}
	place, after, err := parseGroupCursor(q)
	if err != nil {
		return dlq.GroupPage{}, err
	}
	var page dlq.GroupPage
	return page, d.readPlanned(ctx, "list groups", func(ctx context.Context, tx pgx.Tx) (err error) {
		page, err = listGroups(ctx, tx, q, place, after)
		return err
	})
}

// listGroups reads a page of groups behind a place.
func listGroups(ctx context.Context, tx pgx.Tx, q dlq.GroupSearch, place pgtype.Int8, after pgtype.UUID) (page dlq.GroupPage, err error) {
	list := (&search{Search: dlq.Search{Ascending: q.Ascending}}).directed(groupList)
	rows, err := tx.Query(ctx, list, q.State, q.Topic, q.ErrorCode, q.Assignee, pattern(q.Text), q.OrderBy, place, after, q.Limit+1, dlq.OnlySource(ctx, q.Source))
	if err != nil {
		return page, err
	}
	var ids []uuid.UUID
	var places []int64
	var id pgtype.UUID
	var at pgtype.Int8
	if _, err := pgx.ForEachRow(rows, []any{&page.Total, &id, &at}, func() error {
		if id.Valid { // else there is only the total
			ids, places = append(ids, id.Bytes), append(places, at.Int64)
		}
		return nil
	}); err != nil || len(ids) == 0 {
		return page, err
	}
	if len(ids) > q.Limit {
		page.Next = groupCursor(q, places[q.Limit-1], ids[q.Limit-1])
		ids = ids[:q.Limit]
	}
	b := &pgx.Batch{}
	b.Queue(known)
	queueRows(b, &page.Groups, scanGroup, groupGet, ids)
	return page, send(ctx, tx, b)
}

func groupCursor(q dlq.GroupSearch, place int64, id uuid.UUID) string {
	return base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf("%s %t %d %s", q.OrderBy, q.Ascending, place, id)))
}

func parseGroupCursor(q dlq.GroupSearch) (place pgtype.Int8, id pgtype.UUID, err error) {
	if q.After == "" {
		return place, id, nil
	}
	raw, _ := base64.RawURLEncoding.DecodeString(q.After) // an invalid one does not have four parts
	parts := strings.Split(string(raw), " ")
	if len(parts) != 4 {
		return place, id, fmt.Errorf("%w: after is not what an answer named as next", dlq.ErrRequest)
	}
	if parts[0] != string(q.OrderBy) || parts[1] != strconv.FormatBool(q.Ascending) {
		return place, id, fmt.Errorf("%w: after is of a list in another order; give the order that it was of", dlq.ErrRequest)
	}
	n, err := strconv.ParseInt(parts[2], 10, 64)
	after, err2 := uuid.Parse(parts[3])
	if err != nil || err2 != nil {
		return place, id, fmt.Errorf("%w: after is not what an answer named as next", dlq.ErrRequest)
	}
	return pgtype.Int8{Int64: n, Valid: true}, pgtype.UUID{Bytes: after, Valid: true}, nil
}

// ShowGroup implements dlq.Investigations.
func (d *Investigations) ShowGroup(ctx context.Context, id uuid.UUID) (dlq.GroupDetail, error) {
	var detail dlq.GroupDetail
	return detail, d.readPlanned(ctx, fmt.Sprintf("group %s", id), func(ctx context.Context, tx pgx.Tx) error {
		var one []dlq.Group
		var related []uuid.UUID
		var recommended pgtype.UUID
		detail.Statuses = map[dlq.Status]int64{}
		b := &pgx.Batch{}
		queueRows(b, &one, scanGroup, groupGet, []uuid.UUID{id})
		queueValue(b, &recommended, groupRecommend, id)
		b.Queue(groupStatuses, id).Query(func(rows pgx.Rows) error {
			var status dlq.Status
			var n int64
			_, err := pgx.ForEachRow(rows, []any{&status, &n}, func() error { detail.Statuses[status] = n; return nil })
			return err
		})
		queueRows(b, &detail.Hours, pgx.RowToStructByPos[dlq.HourCount], groupHours, id, dlq.GroupHours)
		queueRows(b, &detail.Partitions, pgx.RowToStructByPos[dlq.PartitionCount], groupPartitions, id, dlq.GroupSample)
		queueRows(b, &detail.Variants, pgx.RowToStructByPos[dlq.GroupVariant], groupVariants, id, dlq.GroupSample, dlq.GroupVariants)
		queueRows(b, &related, pgx.RowTo[uuid.UUID], groupRelated, id, dlq.GroupRelated)
		if err := send(ctx, tx, b); err != nil {
			return err
		}
		if len(one) == 0 {
			return fmt.Errorf("group %s: %w", id, dlq.ErrNotFound)
		}
		detail.Group, detail.Recommended = one[0], recommended.Bytes
		detail.Why = detail.Parts.Explain()
		if len(related) == 0 {
			return nil
		}
		var err error
		detail.Related, err = readGroups(ctx, tx, related)
		return err
	})
}

// readGroups reads groups by their ids, in the order of the ids. One that is not there is left out.
func readGroups(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) ([]dlq.Group, error) {
	rows, err := tx.Query(ctx, groupGet, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanGroup)
}

func oneGroup(ctx context.Context, tx pgx.Tx, id uuid.UUID) (dlq.Group, error) {
	found, err := readGroups(ctx, tx, []uuid.UUID{id})
	if err != nil {
		return dlq.Group{}, err
	}
	if len(found) == 0 {
		return dlq.Group{}, fmt.Errorf("group %s: %w", id, dlq.ErrNotFound)
	}
	return found[0], nil
}

// ChangeGroup implements dlq.Investigations.
func (d *Investigations) ChangeGroup(ctx context.Context, id uuid.UUID, c dlq.GroupChange) (dlq.Group, error) {
	if err := c.Check(); err != nil {
		return dlq.Group{}, err
	}
	var g dlq.Group
	return g, d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		before, pending, err := lockGroup(ctx, tx, id)
		if err != nil {
			return err
		}
		if g, err = oneGroup(ctx, tx, id); err != nil {
			return err
		}
		if err := dlq.NotTaken(g.Assignee, c.IfAssignee, c.Assignee); err != nil {
			return fmt.Errorf("group %s: %w", id, err)
		}
		after := before
		if before == dlq.GroupNew {
			after = dlq.GroupOngoing
		}
		var until pgtype.Timestamptz
		switch {
		case c.Muted != nil && *c.Muted:
			after, until = dlq.GroupMuted, nullTime(c.MutedUntil)
		case c.Muted != nil && before == dlq.GroupMuted:
			if after = dlq.GroupOngoing; pending == 0 {
				after = dlq.GroupResolved
			}
		case before == dlq.GroupMuted:
			until = nullTime(g.MutedUntil)
		}
		if _, err := tx.Exec(ctx, groupChange, id, c.Note, c.Assignee, after, until); err != nil {
			return translate("change a group", err)
		}
		action := "group.note"
		switch {
		case c.Muted != nil && *c.Muted:
			action = "group.mute"
		case c.Muted != nil:
			action = "group.unmute"
		case c.Assignee != nil:
			action = "group.assign"
		}
		details := map[string]any{"before": before, "after": after, "note": c.Note != nil, "assignee": c.Assignee}
		if until.Valid {
			details["muted_until"] = until.Time.UTC().Format(time.RFC3339)
		}
		if err := d.audit.Audit(ctx, tx, c.Actor, action, "group", id.String(), []string{g.Source}, details); err != nil {
			return err
		}
		g, err = oneGroup(ctx, tx, id)
		return err
	})
}

// lockGroup locks a group, and returns its state and how many of its investigations are pending.
func lockGroup(ctx context.Context, tx pgx.Tx, id uuid.UUID) (state dlq.GroupState, pending int64, err error) {
	err = tx.QueryRow(ctx, groupLock, id).Scan(&state, &pending)
	if errors.Is(err, pgx.ErrNoRows) {
		return state, 0, fmt.Errorf("group %s: %w", id, dlq.ErrNotFound)
	}
	return state, pending, translate("lock a group", err)
}

// ResolveGroup implements dlq.Investigations. The group is not locked before its investigations, because all other
// transactions lock the investigations first.
func (d *Investigations) ResolveGroup(ctx context.Context, id uuid.UUID, r dlq.GroupResolution) (dlq.ResolvedGroup, error) {
	if err := r.Check(); err != nil {
		return dlq.ResolvedGroup{}, err
	}
	var done dlq.ResolvedGroup
	return done, d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		done = dlq.ResolvedGroup{Until: r.Until}
		g, err := oneGroup(ctx, tx, id)
		if err != nil {
			return err
		}
		if r.Until.IsZero() {
			if err := tx.QueryRow(ctx, "select now()").Scan(&done.Until); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, groupResolve, id, done.Until, dlq.MaxGroupResolve, r.Status, r.Notes, r.ResolvedBy)
		if err != nil {
			return translate("close the investigations of a group", err)
		}
		closed, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil {
			return translate("close the investigations of a group", err)
		}
		released, err := releaseKeys(ctx, tx, d.exceptions, closed)
		if err != nil {
			return err
		}
		done.Closed = len(closed)
		if err := tx.QueryRow(ctx, groupLeft, id, done.Until).Scan(&done.Left); err != nil {
			return err
		}
		if done.Closed == 0 {
			return nil
		}
		return d.audit.Audit(ctx, tx, r.Actor, "group.resolve", "group", id.String(), []string{g.Source}, auditEvents(map[string]any{
			"closed": done.Closed, "entries": closed, "left": done.Left, "status": r.Status, "until": done.Until.UTC().Format(time.RFC3339Nano)}, released))
	})
}
