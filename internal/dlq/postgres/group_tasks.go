package postgres

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq"
)

// GroupTasks implements dlq.Investigations.
func (d *Investigations) GroupTasks(ctx context.Context, g dlq.GroupTasks) (dlq.GroupTasksPage, error) {
	if g.Limit < 1 || g.Limit > dlq.MaxGroupTasks {
		return dlq.GroupTasksPage{}, fmt.Errorf("%w: the limit is %d, it must be 1 to %d", dlq.ErrRequest, g.Limit, dlq.MaxGroupTasks)
	}
	var until time.Time
	var after found
	opened := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	if g.After != "" {
		var err error
		if until, after, err = parseGroupTasksCursor(g.After); err != nil {
			return dlq.GroupTasksPage{}, err
		}
		opened = pgtype.Timestamptz{Time: after.At, Valid: true}
	}
	var page dlq.GroupTasksPage
	return page, d.readByKey(ctx, fmt.Sprintf("the tasks of group %s", g.Group), func(ctx context.Context, tx pgx.Tx) error {
		page = dlq.GroupTasksPage{}
		if _, err := oneGroup(ctx, tx, g.Group); err != nil {
			return err
		}
		if g.After == "" {
			if err := tx.QueryRow(ctx, "select now()").Scan(&until); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, alongIndex); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, groupTasks, g.Group, until, opened, after.ID, g.Limit+1)
		if err != nil {
			return err
		}
		type entry struct {
			UUID   uuid.UUID
			Opened time.Time
			Task   *uuid.UUID
		}
		entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
		if len(entries) > g.Limit {
			entries = entries[:g.Limit]
			last := entries[g.Limit-1]
			page.Next = groupTasksCursor(until, found{last.UUID, last.Opened})
		}
		seen := map[uuid.UUID]bool{}
		for _, e := range entries {
			if e.Task != nil && !seen[*e.Task] {
				seen[*e.Task] = true
				page.Tasks = append(page.Tasks, *e.Task)
			}
		}
		return err
	})
}

// groupTasksCursor names the place behind an investigation, and until when the investigations of all pages were opened.
func groupTasksCursor(until time.Time, f found) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d %s", until.UnixMicro(), f.At.UnixMicro(), f.ID))
}

// parseGroupTasksCursor reads a cursor of the tasks of a group.
func parseGroupTasksCursor(after string) (until time.Time, f found, err error) {
	raw, _ := base64.RawURLEncoding.DecodeString(after) // an invalid one does not have three parts
	if parts := strings.Split(string(raw), " "); len(parts) == 3 {
		micros, err := strconv.ParseInt(parts[0], 10, 64)
		opened, err2 := strconv.ParseInt(parts[1], 10, 64)
		id, err3 := uuid.Parse(parts[2])
		until, f = time.UnixMicro(micros).UTC(), found{id, time.UnixMicro(opened).UTC()}
		if err == nil && err2 == nil && err3 == nil && inYears(until) && inYears(f.At) {
			return until, f, nil
		}
	}
	return time.Time{}, found{}, fmt.Errorf("%w: after is not what an answer about the same group named as next", dlq.ErrRequest)
}
