package postgres

import (
	"context"
	"unicode"

	"github.com/jackc/pgx/v5"
)

// fewTimes is how many times the places of a page are looked at first, where nothing but the page is wanted.
const fewTimes = 8

// sieve searches where no index has the order. If many investigations fit, some of the first do. If few fit, an index
// finds them all. If many fit and none of the first does, the whole order is read until the page is full.
func (s *search) sieve(ctx context.Context) error {
	f := &s.Filter
	args := s.conditions()
	walk := s.walk
	if f.Message != "" {
		walk = max(walk/5, 1)
	}
	indexed := f.Subject.ID != "" || f.Assignee != "" || s.about != nil // of these there are few, and an index has them
	if s.skim > 0 && !indexed && unindexed(f.Message) {
		return s.skimmed(ctx, args)
	}
	var page []found
	full := false
	if !indexed && f.Offset < walk {
		if few := fewTimes * (f.Offset + f.Limit + 1); few < walk && (s.exact || s.WithoutTotal) {
			looked, fitting, err := s.walked(ctx, args, few, nil)
			if err != nil || looked < int64(few) || fitting > int64(f.Offset+f.Limit) {
				return err
			}
		}
		if s.among != nil && s.exact && s.total <= int64(min(walk, s.exactly)) {
			_, err := s.gather(ctx, args) // these are no more than would be looked at
			return err
		}
		var all int64
		looked, fitting, err := s.walked(ctx, args, walk, &all)
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
		b := &pgx.Batch{}
		b.Queue(alongIndex)
		s.queuePage(b, searchSift, args...)
		err = send(ctx, s.tx, b)
	}
	return err
}

// conditions are the parameters that all queries of a sieve begin with.
func (s *search) conditions() []any {
	f := &s.Filter
	return []any{f.Status, f.Reason, f.Subject.Type, f.Subject.ID, s.within, f.Topic, f.ErrorCode, f.Assignee, pattern(f.Message),
		s.from, s.to, s.at, s.id, f.Limit + 1, f.Offset, f.ConsumerGroup, f.DLQTopic, s.about}
}

// walked looks at most at so many of the first investigations, for the page, and returns how many there were and how many
// of them fit. If all is given, and the total is not known, all becomes about how many there are.
func (s *search) walked(ctx context.Context, args []any, most int, all *int64) (looked, fitting int64, err error) {
	b := &pgx.Batch{}
	s.queueBounded(b, &looked, &fitting, searchWalk, with(args, most)...)
	if all != nil && !s.exact && !s.WithoutTotal {
		s.queueOpened(b, all)
	}
	return looked, fitting, send(ctx, s.tx, b)
}

// gather finds the investigations that fit by an index of the conditions and not of the order, which the planner would
// like for its limit. It returns how many there are, and sets the page if they are no more than bounds.exactly.
func (s *search) gather(ctx context.Context, args []any) (n int64, err error) {
	b := &pgx.Batch{}
	b.Queue(gathering)
	s.queueBounded(b, &n, &n, searchGather, with(args, s.exactly+1, s.among)...)
	return n, send(ctx, s.tx, b)
}

// with is a copy of a query's parameters with more behind them.
func with(args []any, more ...any) []any { return append(args[:len(args):len(args)], more...) }

// skimmed searches for a text that the index of messages cannot find. If groups tell that few investigations can have it,
// these are looked at. Otherwise the first bounds.skim investigations are looked at. If that does not fill the page, the
// search ends there and says so: to read all messages takes seconds if there are a million.
func (s *search) skimmed(ctx context.Context, args []any) error {
	f := &s.Filter
	if s.within != nil || f.Topic != "" || f.ErrorCode != "" {
		_, _, mixed, err := s.locate(ctx)
		if err != nil {
			return err
		}
		few := !mixed && s.among != nil && s.total <= int64(s.exactly)
		s.total, s.exact = 0, false // counted without a look at their messages
		if few {
			n, err := s.gather(ctx, args)
			s.total, s.exact = n, true
			return err
		}
	}
	var looked, fitting, all int64
	var last []found
	b := &pgx.Batch{}
	s.queueBounded(b, &looked, &fitting, searchWalk, with(args, s.skim)...)
	queueRows(b, &last, pgx.RowToStructByPos[found], s.directed(searchRange), s.from, s.to, s.at, s.id, 1, s.skim-1)
	if !s.WithoutTotal {
		s.queueOpened(b, &all)
	}
	if err := send(ctx, s.tx, b); err != nil {
		return err
	}
	s.total = max(fitting, all*fitting/max(looked, 1))
	switch {
	case looked < int64(s.skim) && s.After == "":
		s.total, s.exact = fitting, true
	case len(last) > 0 && fitting <= int64(f.Offset+f.Limit):
		s.end = &last[0]
	}
	return nil
}

// unindexed reports whether a text has no three letters or digits in a row, which the index of messages needs.
func unindexed(text string) bool {
	if text == "" {
		return false
	}
	run := 0
	for _, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			run = 0
		} else if run++; run == 3 {
			return false
		}
	}
	return true
}
