package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq"
)

// Stats is Investigations.Stats for a process that has only a Store: it needs nothing but the database, and the rights of
// postrider_relay or postrider_operator.
func (s *Store) Stats(ctx context.Context) (dlq.Stats, error) {
	return (&Investigations{pool: s.pool, timeout: s.timeout}).Stats(ctx)
}

// Stats implements dlq.Investigations. All of it comes from counters, but for one hour and the ends of an order.
func (d *Investigations) Stats(ctx context.Context) (dlq.Stats, error) {
	s := dlq.Stats{}
	sources := dlq.SourcesOf(ctx)
	return s, d.readPlanned(ctx, "count investigations", func(ctx context.Context, tx pgx.Tx) error {
		words, codes := map[string]int64{}, map[string]int64{}
		b := &pgx.Batch{}
		b.Queue(statsGroups, sources).Query(func(rows pgx.Rows) error {
			var word, code string
			var entries, pending int64
			_, err := pgx.ForEachRow(rows, []any{&word, &code, &entries, &pending}, func() error {
				words[word] += entries
				codes[code] += pending
				return nil
			})
			return err
		})
		open := []any{dlq.RecentSamples}
		if sources == nil {
			queueRows(b, &s.Reasons, scanReason, statsReasons)
			queueValue(b, &s.Last24h, statsDay)
		} else { // all sources have counters and indexes of their own
			queueRows(b, &s.Reasons, scanReason, statsReasonsOf, sources)
			queueValue(b, &s.Last24h, statsDayOf, sources)
			open = append(open, sources)
		}
		b.Queue(statsOpenFor(sources), open...).QueryRow(func(row pgx.Row) error {
			var oldest pgtype.Timestamptz
			err := row.Scan(&oldest, &s.Recent)
			s.OldestPending = oldest.Time
			return err
		})
		if err := send(ctx, tx, b); err != nil {
			return err
		}
		s.ByReason, s.ByErrorCode = most(words), most(codes)
		for _, r := range s.Reasons {
			s.Total, s.Pending = s.Total+r.Total, s.Pending+r.Pending
		}
		return nil
	})
}

// statsOpenFor is the statement about open investigations, for the sources that are counted; nil is all.
func statsOpenFor(sources []string) string {
	if sources == nil {
		return statsOpen
	}
	return statsOpenOf
}

func scanReason(row pgx.CollectableRow) (r dlq.ReasonStats, err error) {
	var oldest, newest pgtype.Timestamptz
	err = row.Scan(&r.Reason, &r.Total, &r.Pending, &r.ManuallyResolved, &r.PermanentFailures, &r.Cancelled, &oldest, &newest)
	r.Oldest, r.Newest = oldest.Time, newest.Time
	return r, err
}

// most returns the counts that are not 0: the largest dlq.MaxWords of them, and the others added up as one.
func most(counts map[string]int64) map[string]int64 {
	words := make([]string, 0, len(counts))
	for word, n := range counts {
		if n > 0 {
			words = append(words, word)
		}
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	out := make(map[string]int64, min(len(words), dlq.MaxWords+1))
	for _, word := range words {
		name := word
		if len(out) >= dlq.MaxWords && out[word] == 0 {
			name = dlq.OtherWord
		}
		out[name] += counts[word]
	}
	return out
}
