package dlq_test

import (
	"context"
	"slices"
	"sync"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// topic is a partition of a dead-letter topic with the offset its group has committed.
type topic struct {
	mu        sync.Mutex
	records   []dlq.Record
	committed int
}

// source reads a topic from the committed offset on, as a new member of the group does.
type source struct {
	*topic
	max  int
	next int
	// pollErrs and commitErrs are returned by the calls to come, nil for success.
	pollErrs, commitErrs []error
	// trace receives every call in order; shared with the store.
	trace  *[]string
	polled chan struct{} // a token for each Poll that finds nothing and waits; nil for none
	closed bool
}

func (t *topic) reader(max int, trace *[]string) *source {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &source{topic: t, max: max, next: t.committed, trace: trace}
}

func (s *source) Poll(ctx context.Context) ([]dlq.Record, error) {
	*s.trace = append(*s.trace, "poll")
	err := next(&s.pollErrs)
	s.mu.Lock()
	end := min(s.next+s.max, len(s.records))
	records := slices.Clone(s.records[s.next:end])
	s.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if len(records) == 0 && err == nil {
		if s.polled != nil {
			s.polled <- struct{}{}
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil && err != errBeside {
		return nil, err
	}
	s.next = end
	return records, err
}

func (s *source) Commit(ctx context.Context, records []dlq.Record) error {
	*s.trace = append(*s.trace, "commit")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := next(&s.commitErrs); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed = int(records[len(records)-1].Offset) + 1
	return nil
}

func (s *source) Close() { s.closed = true }

// next takes the first of scripted errors.
func next(errs *[]error) error {
	if len(*errs) == 0 {
		return nil
	}
	err := (*errs)[0]
	*errs = (*errs)[1:]
	return err
}

// store is a dlqtest.Recorder with faults.
type store struct {
	*dlqtest.Recorder
	trace *[]string
	// refuse, where not nil, returns an error for a letter that the store does not take.
	refuse func(dlq.Letter) error
	// called is called before anything is stored, with the number of the call, from 1.
	called func(ctx context.Context, call int)

	mu sync.Mutex // for what follows, and for the trace
	// errs are returned by the calls to come, nil for success.
	errs  []error
	sizes []int // letters per call
}

func newStore(trace *[]string) *store { return &store{Recorder: dlqtest.NewRecorder(), trace: trace} }

// fail makes the calls to come fail with these.
func (s *store) fail(errs ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = errs
}

func (s *store) RecordLetters(ctx context.Context, letters []dlq.Letter) (dlq.Recorded, error) {
	s.mu.Lock()
	*s.trace = append(*s.trace, "store")
	s.sizes = append(s.sizes, len(letters))
	call := len(s.sizes)
	s.mu.Unlock()
	if s.called != nil {
		s.called(ctx, call)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := next(&s.errs); err != nil {
		return dlq.Recorded{}, err
	}
	for _, l := range letters {
		if s.refuse != nil {
			if err := s.refuse(l); err != nil {
				return dlq.Recorded{}, err
			}
		}
	}
	return s.Recorder.RecordLetters(ctx, letters)
}
