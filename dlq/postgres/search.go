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

	"github.com/postrider/postrider/dlq"
)

// How a search goes about it. Which way is the right one depends on how many investigations fit and where they are,
// and statistics know that badly. So each way has a bound, and where it does not come to an end within it, the next
// one is right.
type bounds struct {
	// walk is how many investigations are looked at in their order before they are looked for otherwise. Where their
	// messages are read, it is a fifth.
	walk int
	// pairs is how many groups and statuses are merged.
	pairs int
	// merge is how many investigations are read to merge them.
	merge int
	// exactly is how many are counted one by one.
	exactly int
}

var usualBounds = bounds{walk: 5_000, pairs: 800, merge: 100_000, exactly: dlq.ExactTotal}

// found is an investigation of a page, and the time by which it is ordered.
type found struct {
	ID uuid.UUID
	At time.Time
}

// search is one search in work.
type search struct {
	dlq.Search
	bounds
	tx       pgx.Tx
	at       pgtype.Timestamptz // the cursor
	id       pgtype.UUID
	from, to pgtype.Timestamptz

	page  []found
	total int64
	exact bool
	// among are the groups that have all that is asked for, where these are known and few.
	among []uuid.UUID
}

// run finds the page, with one investigation more if there is a next, and the total.
func (s *search) run(ctx context.Context) error {
	f := &s.Filter
	if f.Message != "" || f.Assignee != "" || f.Subject.ID != "" {
		return s.sieve(ctx)
	}
	if f.Reason != "" || f.Subject.Type != "" || f.Group != uuid.Nil || f.Topic != "" || f.ErrorCode != "" {
		return s.groups(ctx)
	}
	if err := s.tx.QueryRow(ctx, searchTotal, f.Status).Scan(&s.total); err != nil {
		return err
	}
	s.exact = !s.timed()
	switch {
	case f.Status == "":
		err := s.read(ctx, searchRange, s.from, s.to, s.at, s.id, f.Limit+1, f.Offset)
		if err != nil {
			return err
		}
		return s.count(ctx, nil, searchRangeCount, s.from, s.to)
	case s.OrderBy == dlq.ByUpdated:
		return s.sieve(ctx)
	}
	err := s.read(ctx, searchStatus, f.Status, s.from, s.to, s.at, s.id, f.Limit+1, f.Offset)
	if err != nil {
		return err
	}
	return s.count(ctx, nil, searchStatusCount, f.Status, s.from, s.to)
}

// timed reports whether the search is bounded in time, which the counters are not.
func (s *search) timed() bool { return s.from.Valid || s.to.Valid }

// groups lists what is told by groups: it merges the first of each.
func (s *search) groups(ctx context.Context) error {
	f := &s.Filter
	rows, err := s.tx.Query(ctx, searchPairs, f.Status, f.Reason, f.Subject.Type, nullUUID(f.Group), f.Topic, f.ErrorCode, s.pairs+1)
	if err != nil {
		return err
	}
	var ids []uuid.UUID
	var statuses []string
	var id uuid.UUID
	var status string
	_, err = pgx.ForEachRow(rows, []any{&id, &status, &s.total}, func() error {
		ids, statuses = append(ids, id), append(statuses, status)
		return nil
	})
	if s.exact = !s.timed() || len(ids) == 0; err != nil || len(ids) == 0 {
		return err
	}
	if len(ids) <= s.pairs {
		s.among = ids
	}
	if s.OrderBy == dlq.ByUpdated || len(ids) > s.pairs || len(ids)*(f.Limit+1+f.Offset) > s.merge {
		return s.sieve(ctx)
	}
	if err := s.merged(ctx, ids, statuses); err != nil {
		return err
	}
	return s.count(ctx, ids, searchGroupsCount, ids, statuses, s.from, s.to, f.Reason, f.Subject.Type)
}

// merged reads the page by merging the first of each group and status. The order of the index of groups is what makes
// this fast; the planner may think too little of how many fit.
func (s *search) merged(ctx context.Context, ids []uuid.UUID, statuses []string) error {
	f := &s.Filter
	if _, err := s.tx.Exec(ctx, "set local enable_bitmapscan = off; set local enable_sort = off"); err != nil {
		return err
	}
	return s.read(ctx, searchGroups, ids, statuses, s.from, s.to, f.Reason, f.Subject.Type, s.at, s.id, f.Limit+1, f.Offset)
}

// count sets the total of a search that is bounded in time, by counting up to a bound; beyond it the hours tell
// about how many there are.
func (s *search) count(ctx context.Context, groups []uuid.UUID, query string, args ...any) error {
	if s.exact || s.WithoutTotal {
		return nil
	}
	most := s.total
	err := s.tx.QueryRow(ctx, query, append(args, s.exactly+1)...).Scan(&s.total)
	if s.exact = s.total <= int64(s.exactly); s.exact || err != nil {
		return err
	}
	hours, err := s.hours(ctx, groups)
	s.total = max(s.total, min(hours, most))
	return err
}

// hours is about how many were opened in the time of the search, in the groups, if some are given.
func (s *search) hours(ctx context.Context, groups []uuid.UUID) (n int64, err error) {
	return n, s.tx.QueryRow(ctx, searchHours, s.from, s.to, groups).Scan(&n)
}

// opened is about how many were opened in the time of the search.
func (s *search) opened(ctx context.Context) (n int64, err error) {
	if s.timed() {
		return s.hours(ctx, nil)
	}
	return n, s.tx.QueryRow(ctx, searchTotal, "").Scan(&n)
}

// sieve lists what no index has in its order. Where many fit, some of the first do. Where few fit, an index finds
// them all. Where many fit and none of the first does, the whole order is read until the page is full.
func (s *search) sieve(ctx context.Context) error {
	f := &s.Filter
	args := []any{f.Status, f.Reason, f.Subject.Type, f.Subject.ID, nullUUID(f.Group), f.Topic, f.ErrorCode, f.Assignee, pattern(f.Message),
		s.from, s.to, s.at, s.id, f.Limit + 1, f.Offset}
	walk := s.walk
	if f.Message != "" {
		walk = max(walk/5, 1)
	}
	var page []found
	full := false
	if f.Subject.ID == "" && f.Assignee == "" && f.Offset < walk { // of these there are few, and an index has them
		looked, fitting, err := s.bounded(ctx, searchWalk, append(args, walk)...)
		if err != nil {
			return err
		}
		page, full = s.page, looked < int64(walk) || fitting > int64(f.Offset+f.Limit)
		if looked < int64(walk) && s.After == "" { // these are all
			s.total, s.exact = fitting, true
		}
		if full && (s.exact || s.WithoutTotal) {
			return nil
		}
		if !s.exact {
			all, err := s.opened(ctx)
			if err != nil {
				return err
			}
			if s.total = all * fitting / max(looked, 1); full && s.total > 2*int64(s.exactly) {
				return nil
			}
		}
		if !full {
			if found, err := s.window(ctx, args); err != nil || found {
				return err
			}
		}
	}
	n, err := s.gather(ctx, args)
	if err != nil {
		return err
	}
	if !s.exact {
		s.total, s.exact = max(s.total, n), n <= int64(s.exactly)
		if s.exact {
			s.total = n
		}
	}
	switch {
	case full:
		s.page = page
	case n > int64(s.exactly):
		_, err = s.tx.Exec(ctx, "set local enable_indexscan = on; set local enable_bitmapscan = off; set local enable_sort = off")
		if err == nil {
			err = s.read(ctx, searchSift, args...)
		}
	}
	return err
}

// gather finds what fits by what tells it and not by its order, which the planner would like for its limit. It
// returns how many there are, and sets the page if these are no more than bounds.exactly.
func (s *search) gather(ctx context.Context, args []any) (int64, error) {
	if _, err := s.tx.Exec(ctx, "set local enable_indexscan = off; set local enable_bitmapscan = on; set local enable_sort = on"); err != nil {
		return 0, err
	}
	n, _, err := s.bounded(ctx, searchGather, append(args, s.exactly+1, s.among)...)
	return n, err
}

// read reads the page by a query that returns it.
func (s *search) read(ctx context.Context, query string, args ...any) error {
	rows, err := s.tx.Query(ctx, s.directed(query), args...)
	if err != nil {
		return err
	}
	s.page, err = pgx.CollectRows(rows, pgx.RowToStructByPos[found])
	return err
}

// bounded reads the page by a query that also counts what it looked at, and what of that fits.
func (s *search) bounded(ctx context.Context, query string, args ...any) (looked, fitting int64, err error) {
	rows, err := s.tx.Query(ctx, s.directed(query), args...)
	if err != nil {
		return 0, 0, err
	}
	s.page = nil
	var id *uuid.UUID
	var at *time.Time
	_, err = pgx.ForEachRow(rows, []any{&looked, &fitting, &id, &at}, func() error {
		if id != nil {
			s.page = append(s.page, found{*id, *at})
		}
		return nil
	})
	return looked, fitting, err
}

// directed gives a query, which lists the newest by created_at first, the order and the direction of the search.
func (s *search) directed(query string) string {
	if s.OrderBy == dlq.ByUpdated {
		query = strings.ReplaceAll(query, "created_at/*order*/", "updated_at")
	}
	if s.Ascending {
		query = strings.NewReplacer("desc/*way*/", "asc", "</*way*/", ">").Replace(query)
	}
	return query
}

// pattern is the pattern of ilike for a text that is part of another, "" for none.
func pattern(part string) string {
	if part == "" {
		return ""
	}
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(part) + "%"
}

// cursor names the place behind an investigation in the order of a search.
func cursor(s dlq.Search, f found) string {
	text := fmt.Sprintf("%s %t %d %s", s.OrderBy, s.Ascending, f.At.UnixMicro(), f.ID)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// parseCursor reads a cursor of the order of a search.
func parseCursor(s dlq.Search) (f found, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(s.After)
	if err != nil {
		return f, fmt.Errorf("%w: after is not what an answer named as next", dlq.ErrRequest)
	}
	parts := strings.Split(string(raw), " ")
	if len(parts) != 4 {
		return f, fmt.Errorf("%w: after is not what an answer named as next", dlq.ErrRequest)
	}
	if parts[0] != string(s.OrderBy) || parts[1] != strconv.FormatBool(s.Ascending) {
		return f, fmt.Errorf("%w: after is of a list in another order; give the order that it was of", dlq.ErrRequest)
	}
	micros, err := strconv.ParseInt(parts[2], 10, 64)
	id, err2 := uuid.Parse(parts[3])
	if f = (found{id, time.UnixMicro(micros).UTC()}); err != nil || err2 != nil || f.At.Year() < 1 || f.At.Year() > 9999 {
		return f, fmt.Errorf("%w: after is not what an answer named as next", dlq.ErrRequest)
	}
	return f, nil
}
