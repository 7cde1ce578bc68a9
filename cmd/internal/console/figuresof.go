package console

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
)

// maxSome is how many sets of sources figures are kept for.
const maxSome = 1000

// someFigures are the figures of people who see some sources alone, by the names of these. They are read when they are asked for,
// and are shared as those of all sources are. Its zero value is empty.
type someFigures struct {
	mu  sync.Mutex
	all map[string]*ownFigures
}

// ownFigures are those of one set of sources.
type ownFigures struct {
	mu  sync.Mutex // one caller reads
	now *figures
}

// of returns the newest figures of sources, nil where there were none yet, and why there are no newer ones, since when.
func (s *sampler) of(ctx context.Context, sources access.Sources) (f *figures, since time.Time, failed error) {
	f, since, failed = s.latest()
	if sources.All() {
		return f, since, failed
	}
	own := s.some.of(sources)
	own.mu.Lock()
	defer own.mu.Unlock()
	if failed != nil || own.now != nil && time.Since(own.now.At) < s.every {
		return own.now, since, failed
	}
	reading, done := s.whileItAnswers(ctx)
	defer done()
	reading, cancel := context.WithTimeout(reading, readLimit)
	defer cancel()
	read, err := s.read(reading, sources)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("figures of some sources could not be read; pages show the last ones", "err", err)
		}
		return own.now, time.Now(), ifSilent(reading, err)
	}
	own.now = read
	return read, since, nil
}

// of is the place of the figures of sources.
func (f *someFigures) of(sources access.Sources) *ownFigures {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := strings.Join(sources, " ")
	own := f.all[names]
	if own == nil {
		if len(f.all) >= maxSome || f.all == nil {
			f.all = map[string]*ownFigures{}
		}
		own = &ownFigures{}
		f.all[names] = own
	}
	return own
}
