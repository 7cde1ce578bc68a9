package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// likelyPairs is how many groups and statuses are asked where the page of a search is likely to be.
const likelyPairs = 50

// window looks for a page of investigations with a text in their message, if many have it, but none of the first. An
// index that finds all of them would take long. So the groups whose message has the text tell until when the page is full:
// there are at least that many. Then the index of messages and eras finds all investigations that are as new as that, also
// of other groups. The groups give only a guess at the time, so a wrong one costs time and nothing else. window reports
// whether that found the page.
func (s *search) window(ctx context.Context, args []any) (bool, error) {
	f := &s.Filter
	if f.Message == "" || f.Subject.ID != "" || f.Assignee != "" || f.ConsumerGroup != "" || f.DLQTopic != "" || s.about != nil ||
		s.OrderBy != dlq.ByCreated {
		return false, nil
	}
	b := &pgx.Batch{}
	var g guess
	s.queueLikely(b, &g)
	var near time.Time
	var indexed bool
	s.queueEdge(b, &near, &indexed)
	if err := send(ctx, s.tx, b); err != nil || !indexed || g.all <= int64(s.exactly) || len(g.ids)*(f.Limit+1+f.Offset) > s.merge {
		return false, err
	}
	b = &pgx.Batch{}
	s.queueMerged(b, g.ids, g.statuses)
	if err := send(ctx, s.tx, b); err != nil || len(s.page) <= f.Limit {
		return false, err
	}
	if !s.exact {
		if s.timed() {
			var err error
			if g.fitting, err = s.hours(ctx, g.ids); err != nil {
				return false, err
			}
		}
		s.total = max(s.total, g.fitting)
	}
	far := s.page[f.Limit].At
	from, to := far, near
	if s.Ascending {
		from, to = near, far
	}
	if to.Before(from) {
		return false, nil
	}
	narrow := with(args, s.exactly+1, eras(from, to))
	narrow[9], narrow[10] = from, to
	b = &pgx.Batch{}
	b.Queue(gathering)
	var n int64
	s.queueBounded(b, &n, &n, searchWindow, narrow...)
	if err := send(ctx, s.tx, b); err != nil {
		return false, err
	}
	s.total = max(s.total, n)
	return n <= int64(s.exactly) && len(s.page) > f.Limit, nil
}

// guess is what groups tell about a text.
type guess struct {
	// ids and statuses are the groups and statuses that are likely to have the investigations of a search.
	ids      []uuid.UUID
	statuses []string
	// all is how many investigations these groups have, fitting how many of these meet the other conditions.
	all, fitting int64
}

// queueLikely queues the query that asks the groups.
func (s *search) queueLikely(b *pgx.Batch, g *guess) {
	f := &s.Filter
	b.Queue(searchLikely, f.Status, f.Reason, f.Subject.Type, s.within, f.Topic, f.ErrorCode, pattern(f.Message),
		likelyPairs).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var status string
		_, err := pgx.ForEachRow(rows, []any{&id, &status, &g.all, &g.fitting}, func() error {
			g.ids, g.statuses = append(g.ids, id), append(g.statuses, status)
			return nil
		})
		return err
	})
}

// queueEdge queues the query that tells where the order of the search begins, and whether the index of messages exists.
func (s *search) queueEdge(b *pgx.Batch, at *time.Time, indexed *bool) {
	b.Queue(s.directed(searchEdge)).QueryRow(func(row pgx.Row) error {
		if err := row.Scan(at, indexed); errors.Is(err, pgx.ErrNoRows) {
			return nil
		} else if err != nil {
			return err
		}
		bound := s.to
		if s.Ascending {
			bound = s.from
		}
		if bound.Valid && bound.Time.Before(*at) != s.Ascending {
			*at = bound.Time
		}
		if s.at.Valid && s.at.Time.Before(*at) != s.Ascending {
			*at = s.at.Time
		}
		return nil
	})
}

// eraBits: an era of each level has 64 of the level before; the eras of the first level are 64 seconds long. The index
// dlq_entry_message has for each investigation its three eras, so that few eras name a long time.
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
