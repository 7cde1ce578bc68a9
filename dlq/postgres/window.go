package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dlq"
)

// likelyPairs is how many groups and statuses are asked where the page of a search is likely to be.
const likelyPairs = 50

// window looks for a page of what has a text in its message where much has, but nothing of the first. An index that
// finds all of that would take long. So the groups whose message has the text tell until when the page is full: there
// are at least that many. Then the index of messages and eras finds all that is as new as that, also of other groups.
// What groups say is only a guess at the time, so a wrong one costs time and nothing else. It reports whether that
// found the page.
func (s *search) window(ctx context.Context, args []any) (bool, error) {
	f := &s.Filter
	if f.Message == "" || f.Subject.ID != "" || f.Assignee != "" || s.OrderBy != dlq.ByCreated {
		return false, nil
	}
	ids, statuses, likely, fitting, err := s.likely(ctx)
	if err != nil || likely <= int64(s.exactly) || len(ids)*(f.Limit+1+f.Offset) > s.merge {
		return false, err
	}
	near, indexed, err := s.edge(ctx)
	if err != nil || !indexed {
		return false, err
	}
	if err := s.merged(ctx, ids, statuses); err != nil || len(s.page) <= f.Limit {
		return false, err
	}
	if !s.exact {
		if s.timed() {
			if fitting, err = s.hours(ctx, ids); err != nil {
				return false, err
			}
		}
		s.total = max(s.total, fitting)
	}
	far := s.page[f.Limit].At
	from, to := far, near
	if s.Ascending {
		from, to = near, far
	}
	if to.Before(from) {
		return false, nil
	}
	if _, err := s.tx.Exec(ctx, "set local enable_bitmapscan = on; set local enable_sort = on; set local enable_indexscan = off"); err != nil {
		return false, err
	}
	narrow := append([]any(nil), args...)
	narrow[9], narrow[10] = from, to
	n, _, err := s.bounded(ctx, searchWindow, append(narrow, s.exactly+1, eras(from, to))...)
	if err != nil {
		return false, err
	}
	s.total = max(s.total, n)
	return n <= int64(s.exactly) && len(s.page) > f.Limit, nil
}

// likely returns the groups and statuses in which what a search asks for is likely to be, how many investigations
// these groups have, and how many of these have what else is asked for.
func (s *search) likely(ctx context.Context) (ids []uuid.UUID, statuses []string, all, fitting int64, err error) {
	f := &s.Filter
	rows, err := s.tx.Query(ctx, searchLikely, f.Status, f.Reason, f.Subject.Type, nullUUID(f.Group), f.Topic, f.ErrorCode, pattern(f.Message), likelyPairs)
	if err != nil {
		return nil, nil, 0, 0, err
	}
	var id uuid.UUID
	var status string
	_, err = pgx.ForEachRow(rows, []any{&id, &status, &all, &fitting}, func() error {
		ids, statuses = append(ids, id), append(statuses, status)
		return nil
	})
	return ids, statuses, all, fitting, err
}

// edge returns where the order of a search begins, and whether the index of messages is there.
func (s *search) edge(ctx context.Context) (at time.Time, indexed bool, err error) {
	err = s.tx.QueryRow(ctx, s.directed(searchEdge)).Scan(&at, &indexed)
	if errors.Is(err, pgx.ErrNoRows) {
		return at, false, nil
	}
	bound := s.to
	if s.Ascending {
		bound = s.from
	}
	if bound.Valid && bound.Time.Before(at) != s.Ascending {
		at = bound.Time
	}
	if s.at.Valid && s.at.Time.Before(at) != s.Ascending {
		at = s.at.Time
	}
	return at, indexed, err
}

// eraBits: an era of each level has 64 of the level before; those of the first are 64 seconds long. The index
// dlq_entry_message has for each investigation its three eras, so that few name a long time.
const eraBits, eraLevels = 6, 3

// eras returns the fewest eras that have all times from one to another, both included, as the index has them: the
// number of the era times four, and the level.
func eras(from, to time.Time) []int64 {
	var out []int64
	low, high := from.Unix()>>eraBits, to.Unix()>>eraBits+1
	for level := range int64(eraLevels) {
		last := level == eraLevels-1
		for ; low < high && (last || low&(1<<eraBits-1) != 0); low++ {
			out = append(out, low*4+level)
		}
		for low < high && high&(1<<eraBits-1) != 0 {
			high--
			out = append(out, high*4+level)
		}
		low, high = low>>eraBits, high>>eraBits
	}
	return out
}
