package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq"
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
	// skim is how many are looked at for a text that the index of messages cannot find; 0 is all.
	skim int
}

var usualBounds = bounds{walk: 5_000, pairs: 800, merge: 100_000, exactly: dlq.ExactTotal, skim: dlq.MaxSkim}

// whole returns the same bounds for a caller that needs all that there is, and cannot go on where a page stopped.
func (b bounds) whole() bounds {
	b.skim = 0
	return b
}

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
	// within are the only groups wanted; nil is all.
	within []uuid.UUID
	// about are the only investigations wanted; nil is all.
	about []uuid.UUID
	// among are the groups that have all that is asked for, if these groups are known and few.
	among []uuid.UUID
	// end is the last that was looked at, where the page is not full and there are others behind.
	end *found
}

// run finds the page, with one investigation more if there is a next, and the total.
func (s *search) run(ctx context.Context) error {
	if !s.WithoutTotal && (s.at.Valid || s.Filter.Offset > 0) {
		return s.later(ctx)
	}
	return s.search(ctx)
}

// later finds a page that is not the first. An estimate that begins where a page does differs from page to page. So the
// first page is found as well, and says the total. It is no less than what is known by now to be there.
func (s *search) later(ctx context.Context) error {
	first := search{Search: s.Search, bounds: s.bounds, tx: s.tx, from: s.from, to: s.to, within: s.within, about: s.about}
	first.After, first.Filter.Offset = "", 0
	if err := first.search(ctx); err != nil {
		return err
	}
	if _, err := s.tx.Exec(ctx, anyPlan); err != nil {
		return err
	}
	s.WithoutTotal = true
	if err := s.search(ctx); err != nil {
		return err
	}
	s.total, s.exact = first.total, first.exact
	if !s.exact && len(s.page) > 0 {
		s.total = max(s.total, int64(s.Filter.Offset+min(len(s.page), s.Filter.Limit)))
	}
	return nil
}

func (s *search) search(ctx context.Context) error {
	f := &s.Filter
	if s.about != nil && len(s.about) == 0 || s.within != nil && len(s.within) == 0 {
		s.exact = true // there are none
		return nil
	}
	if f.Message != "" || f.Assignee != "" || f.Subject.ID != "" || f.ConsumerGroup != "" || f.DLQTopic != "" || s.about != nil {
		return s.sieve(ctx)
	}
	if f.Reason != "" || f.Subject.Type != "" || s.within != nil || f.Topic != "" || f.ErrorCode != "" {
		return s.groups(ctx)
	}
	b := &pgx.Batch{}
	var n int64
	if !s.WithoutTotal {
		queueValue(b, &s.total, searchTotal, f.Status)
		s.exact = !s.timed()
	}
	switch {
	case f.Status == "":
		s.queuePage(b, searchRange, s.from, s.to, s.at, s.id, f.Limit+1, f.Offset)
		s.queueCount(b, &n, searchRangeCount, s.from, s.to)
	case s.OrderBy == dlq.ByUpdated:
		if err := send(ctx, s.tx, b); err != nil {
			return err
		}
		return s.sieve(ctx)
	default:
		s.queuePage(b, searchStatus, f.Status, s.from, s.to, s.at, s.id, f.Limit+1, f.Offset)
		s.queueCount(b, &n, searchStatusCount, f.Status, s.from, s.to)
	}
	if err := send(ctx, s.tx, b); err != nil {
		return err
	}
	return s.counted(ctx, n, nil)
}

// timed reports whether the search is bounded in time, which the counters are not.
func (s *search) timed() bool { return s.from.Valid || s.to.Valid }

// groups searches by conditions that groups can tell: it merges the first investigations of each group.
func (s *search) groups(ctx context.Context) error {
	f := &s.Filter
	if s.within == nil && f.Topic == "" && f.ErrorCode == "" { // nearly all groups may have it
		var counters int64
		err := s.tx.QueryRow(ctx, searchKinds, f.Status, f.Reason, f.Subject.Type).Scan(&s.total, &counters)
		if s.exact = !s.timed(); err != nil {
			return err
		}
		if counters > int64(s.pairs) {
			return s.sieve(ctx)
		}
	}
	ids, statuses, mixed, err := s.locate(ctx)
	if err != nil || len(ids) == 0 {
		return err
	}
	if mixed {
		return s.sieve(ctx)
	}
	most := f.Limit + 1 + f.Offset
	if s.OrderBy == dlq.ByUpdated || len(ids) > s.pairs || min(len(ids), most)*most > s.merge {
		return s.sieve(ctx)
	}
	merged, each := ids, statuses
	if len(ids) > most {
		if merged, each, err = s.firsts(ctx, ids, statuses); err != nil {
			return err
		}
	}
	b := &pgx.Batch{}
	s.queueMerged(b, merged, each)
	var n int64
	s.queueCount(b, &n, searchGroupsCount, ids, statuses, s.from, s.to, f.Reason, f.Subject.Type)
	if err := send(ctx, s.tx, b); err != nil {
		return err
	}
	return s.counted(ctx, n, ids)
}

// locate returns the groups and statuses that hold all that is asked for, message and time aside, and sets the total to
// how many investigations they have. mixed says that some may hold others, too: the total is not known then.
func (s *search) locate(ctx context.Context) (ids []uuid.UUID, statuses []string, mixed bool, err error) {
	f := &s.Filter
	rows, err := s.tx.Query(ctx, searchPairs, f.Status, f.Reason, f.Subject.Type, s.within, f.Topic, f.ErrorCode, s.pairs+1)
	if err != nil {
		return nil, nil, false, err
	}
	ids = []uuid.UUID{}
	var id uuid.UUID
	var status string
	_, err = pgx.ForEachRow(rows, []any{&id, &status, &s.total, &mixed}, func() error {
		ids, statuses = append(ids, id), append(statuses, status)
		return nil
	})
	if mixed = mixed && (f.Topic != "" || f.ErrorCode != ""); mixed {
		s.total = 0
	}
	s.exact = (!s.timed() || len(ids) == 0) && !mixed
	if len(ids) <= s.pairs {
		s.among = ids
	}
	return ids, statuses, mixed, err
}

// firsts returns the groups and statuses whose first investigations are the first of all. No other group can be on the
// page: an investigation on the page has at most as many before it as the page has places, and the first of its group is
// one of these or the investigation itself.
func (s *search) firsts(ctx context.Context, ids []uuid.UUID, statuses []string) (first []uuid.UUID, each []string, err error) {
	f := &s.Filter
	b := &pgx.Batch{}
	b.Queue(alongIndex)
	b.Queue(s.directed(searchFirsts), ids, statuses, s.from, s.to, f.Reason, f.Subject.Type, s.at, s.id,
		f.Limit+1+f.Offset).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var status string
		_, err := pgx.ForEachRow(rows, []any{&id, &status}, func() error {
			first, each = append(first, id), append(each, status)
			return nil
		})
		return err
	})
	return first, each, send(ctx, s.tx, b)
}

// Which plans the planner may choose, for what follows in the transaction.
const (
	// alongIndex reads along an index and stops when it has enough; the planner may think too little of how many fit.
	alongIndex = "select set_config('enable_indexscan', 'on', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)"
	// gathering finds all that an index tells, and sorts it.
	gathering = "select set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'on', true), set_config('enable_sort', 'on', true)"
)

// anyPlan takes back what these have set.
const anyPlan = "select set_config('enable_indexscan', 'on', true), set_config('enable_bitmapscan', 'on', true), set_config('enable_sort', 'on', true)"

// queueMerged queues a query that reads the page by merging the first investigations of each group and status.
func (s *search) queueMerged(b *pgx.Batch, ids []uuid.UUID, statuses []string) {
	f := &s.Filter
	b.Queue(alongIndex)
	s.queuePage(b, searchGroups, ids, statuses, s.from, s.to, f.Reason, f.Subject.Type, s.at, s.id, f.Limit+1, f.Offset)
}

// queueCount queues a query that counts up to a bound, if the counters do not have the total and the caller wants it.
func (s *search) queueCount(b *pgx.Batch, n *int64, query string, args ...any) {
	if !s.exact && !s.WithoutTotal {
		queueValue(b, n, query, append(args, s.exactly+1)...)
	}
}

// counted sets the total to the count of queueCount's query. Beyond its bound the hours tell about how many there are, in
// all groups, or in the given ones.
func (s *search) counted(ctx context.Context, n int64, groups []uuid.UUID) error {
	if s.exact || s.WithoutTotal {
		return nil
	}
	most := s.total
	if s.total, s.exact = n, n <= int64(s.exactly); s.exact {
		return nil
	}
	hours, err := s.hours(ctx, groups)
	s.total = max(s.total, min(hours, most))
	return err
}

// hours is about how many were opened in the time of the search, in the groups, if some are given.
func (s *search) hours(ctx context.Context, groups []uuid.UUID) (n int64, err error) {
	return n, s.tx.QueryRow(ctx, searchHours, s.from, s.to, groups).Scan(&n)
}

// queueOpened queues a query that tells about how many investigations were opened in the time of the search.
func (s *search) queueOpened(b *pgx.Batch, n *int64) {
	if s.timed() {
		queueValue(b, n, searchHours, s.from, s.to, []uuid.UUID(nil))
		return
	}
	queueValue(b, n, searchTotal, "")
}

// queuePage queues a query that returns the page.
func (s *search) queuePage(b *pgx.Batch, query string, args ...any) {
	queueRows(b, &s.page, pgx.RowToStructByPos[found], s.directed(query), args...)
}

// queueBounded queues a query that returns the page and counts the investigations that it looked at, and how many fit.
func (s *search) queueBounded(b *pgx.Batch, looked, fitting *int64, query string, args ...any) {
	b.Queue(s.directed(query), args...).Query(func(rows pgx.Rows) error {
		s.page = nil
		var id *uuid.UUID
		var at *time.Time
		_, err := pgx.ForEachRow(rows, []any{looked, fitting, &id, &at}, func() error {
			if id != nil {
				s.page = append(s.page, found{*id, *at})
			}
			return nil
		})
		return err
	})
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
