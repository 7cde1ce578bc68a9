package relay

import (
	"slices"
	"testing"
	"time"
)

// TestReceiptsOfManyRowsAreWrittenApart: a transaction has a time, and a receipt may have as many exceptions as a batch has
// events.
func TestReceiptsOfManyRowsAreWrittenApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows []int // of each receipt
		want []int // receipts of each transaction
	}{
		"few":                 {[]int{1, 1, 1, 1}, []int{4}},
		"more than at once":   {slices.Repeat([]int{1}, settleAtOnce+1), []int{settleAtOnce, 1}},
		"up to the bound":     {[]int{settleRows - 1, 1, 1}, []int{2, 1}},
		"large ones":          {[]int{5 * settleRows, 5 * settleRows, 1}, []int{1, 1, 1}},
		"a large one at last": {[]int{1, 5 * settleRows, 1}, []int{2, 1}},
	} {
		term := &term{receipts: make(chan *settlement, 2*settleAtOnce), room: make(chan struct{}, 2*settleAtOnce)}
		for _, n := range c.rows {
			r := &Receipt{Exceptions: make([]Exception, n/2), Gone: make([]int64, n/4), Trying: 1} // not plain: it waits for no other
			r.Putback = make([]int64, n-len(r.Exceptions)-len(r.Gone))
			term.room <- struct{}{}
			term.receipts <- &settlement{receipt: r}
		}
		var got []int
		for len(term.receipts) > 0 {
			s := <-term.receipts
			<-term.room
			got = append(got, len(term.gather(t.Context(), s, time.Time{})))
		}
		if !slices.Equal(got, c.want) || len(term.room) != 0 {
			t.Errorf("%s: transactions of %v receipts, want %v; %d have room", name, got, c.want, len(term.room))
		}
	}
}
