package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/consumer/inbox"
)

// fate is what becomes of one delivery of a message.
type fate int

const (
	succeeds fate = iota
	fails         // the handler returns an error after it wrote
	panics
	breaks // a statement fails, and the handler returns its error
	fates
)

// TestExactlyOnceProperty delivers copies of messages to two groups at once, in any order, through both faces, while
// handlers fail in every way. Whatever happens, a message whose delivery was ever said to have succeeded took effect
// once in its group, and one whose deliveries all failed not at all.
func TestExactlyOnceProperty(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var checks atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		check := checks.Add(1) // each has groups of its own in the one database
		group := func(n int) string { return fmt.Sprintf("%d-%d", check, n) }
		faces := [2]map[string]face{s.faces(inbox.Options{Group: group(0)}), s.faces(inbox.Options{Group: group(1)})}
		type delivery struct {
			group, message int
			way            string
			fate           fate
			extra          []int // other messages in the same transaction
		}
		deliveries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) delivery {
			return delivery{
				group: rapid.IntRange(0, 1).Draw(t, "group"), message: rapid.IntRange(0, 2).Draw(t, "message"),
				way: rapid.SampledFrom([]string{"pgx", "database/sql"}).Draw(t, "way"), fate: fate(rapid.IntRange(0, int(fates)-1).Draw(t, "fate")),
				extra: rapid.SliceOfN(rapid.IntRange(0, 2), 0, 2).Draw(t, "extra"),
			}
		}), 1, 12).Draw(t, "deliveries")

		var mu sync.Mutex
		said := map[string]bool{} // group and message of deliveries that succeeded
		var wg sync.WaitGroup
		for _, d := range deliveries {
			wg.Go(func() {
				ids := []string{fmt.Sprint(d.message)}
				for _, m := range d.extra {
					ids = append(ids, fmt.Sprint(m))
				}
				defer func() { _ = recover() }() // of a handler
				_, err := faces[d.group][d.way].each(context.Background(), ids, func(_ context.Context, exec execFunc, fresh []int) error {
					for _, n := range fresh {
						if err := exec(putEffect, group(d.group), ids[n]); err != nil {
							return err
						}
					}
					switch d.fate {
					case fails:
						return errors.New("no")
					case panics:
						panic("no")
					case breaks:
						return exec(`select 1/0`)
					}
					return nil
				})
				if err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for _, id := range ids {
					said[group(d.group)+" "+id] = true
				}
			})
		}
		wg.Wait()
		for n := range 2 {
			for message := range 3 {
				want := 0
				if said[group(n)+" "+fmt.Sprint(message)] {
					want = 1
				}
				var effects, noted int
				if err := s.pool.QueryRow(context.Background(), `select (select count(*) from effect where consumer_group = $1 and message = $2),
					(select count(*) from inbox_message where consumer_group = $1 and message_id = $2)`, group(n), fmt.Sprint(message)).Scan(&effects, &noted); err != nil {
					t.Fatal(err)
				}
				if effects != want || noted != want {
					t.Fatalf("group %d, message %d: %d effects and %d rows, want %d", n, message, effects, noted, want)
				}
			}
		}
	})
	if s.count(`select count(*) from effect`) == 0 {
		t.Error("nothing took effect: nothing was tested")
	}
}
