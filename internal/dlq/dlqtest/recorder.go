package dlqtest

import (
	"context"
	"slices"
	"sync"

	"github.com/postrider/postrider/internal/dlq"
)

// Recorder is dlq.Letters without a database, for tests of what hands letters over: it keeps each letter once.
type Recorder struct {
	mu       sync.Mutex
	letters  []dlq.Letter // in the order of their arrival
	known    map[string]bool
	subjects map[dlq.Subject]bool
}

// NewRecorder returns a Recorder without letters.
func NewRecorder() *Recorder {
	return &Recorder{known: map[string]bool{}, subjects: map[dlq.Subject]bool{}}
}

// RecordLetters implements dlq.Letters. No investigation is ever closed: the first letter of a subject opens one, and the
// others are added to it.
func (r *Recorder) RecordLetters(ctx context.Context, letters []dlq.Letter) (dlq.Recorded, error) {
	var recorded dlq.Recorded
	if err := ctx.Err(); err != nil {
		return recorded, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range letters {
		if r.known[l.ID] {
			recorded.Repeated++
			continue
		}
		recorded.New++
		if r.subjects[l.Subject] {
			recorded.Added++
		} else {
			recorded.Opened++
		}
		r.known[l.ID], r.subjects[l.Subject] = true, true
		r.letters = append(r.letters, l)
	}
	return recorded, nil
}

// Letters are the letters that were recorded, in the order of their arrival.
func (r *Recorder) Letters() []dlq.Letter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.letters)
}

// Subjects counts the letters of each subject, which has one investigation.
func (r *Recorder) Subjects() map[dlq.Subject]int {
	counts := map[dlq.Subject]int{}
	for _, l := range r.Letters() {
		counts[l.Subject]++
	}
	return counts
}
