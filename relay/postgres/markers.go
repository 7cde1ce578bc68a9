package postgres

import (
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// markers keeps claims from walking over the markers of batches that are done. A marker comes and goes with each
// batch, and beside somebody's long snapshot its dead row stays: after ten minutes hundreds of thousands, which every
// claim would read. All but gone is guarded by water.mu.
type markers struct {
	looked, swept time.Time
	// drawn is the newest marker when it was looked last: by the next look it is committed, or its worker hangs.
	drawn int64
	// gone is up to where no marker is left. One that was committed late is found a minute later (sinkEvery); until
	// then one death over its batch may not be counted, nothing else.
	gone atomic.Int64
}

// queue finds out, now and then, up to where no marker is left, in a round trip that is made anyway.
func (m *markers) queue(b *pgx.Batch, now time.Time) {
	if now.Sub(m.looked) < raiseEvery {
		return
	}
	from, sweep := m.gone.Load(), now.Sub(m.swept) >= sinkEvery
	if sweep {
		from = 0
	}
	b.Queue(passMarkers, from).QueryRow(func(row pgx.Row) error {
		var drawn int64
		var oldest *int64
		if err := row.Scan(&drawn, &oldest); err != nil {
			return err
		}
		gone := m.drawn
		if oldest != nil {
			gone = min(gone, *oldest-1)
		}
		if drawn < m.drawn { // numbered anew after a crash of the database
			gone = 0
		}
		m.gone.Store(gone)
		if m.drawn, m.looked = drawn, now; sweep {
			m.swept = now
		}
		return nil
	})
}
