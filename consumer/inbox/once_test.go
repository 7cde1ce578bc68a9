package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestOnce(t *testing.T) {
	t.Parallel()
	s := newService(t)
	long := strings.Repeat("x", 5000) // more than an index entry can have
	for _, c := range []struct {
		group, id string
		want      bool
	}{
		{"g", "m", true}, {"g", "m", false}, {"h", "m", true}, {"g", "n", true},
		{"g", long, true}, {"g", long, false}, {"g", long + "y", true}, {long, "m", true}, {long, "m", false},
		{"g", "\x00\xff", true}, {"g", "\x00\xff", false}, {"g", "\x00\xfe", true}, {"g", `<"&\u2028>`, true}, {"g", `<"&\u2028>`, false},
		{"g", "M", true}, {"g", "m ", true}, // no folding, no trimming
	} {
		got, err := inbox.Once(t.Context(), s.pool, c.group, c.id)
		if err != nil || got != c.want {
			t.Errorf("group %.10q, id %.10q: %v, %v; want %v", c.group, c.id, got, err, c.want)
		}
	}
	for _, c := range [][2]string{{"", "m"}, {"g", ""}} {
		if _, err := inbox.Once(t.Context(), s.pool, c[0], c[1]); !errors.Is(err, inbox.ErrInvalid) {
			t.Errorf("group %q, id %q: %v", c[0], c[1], err)
		}
	}
}

func TestOnceEach(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var box inbox.Inbox
	got, err := box.OnceEach(t.Context(), s.pool, "g", []string{"b", "a", "b", "c", "a"})
	if want := []bool{true, true, false, true, false}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	got, err = box.OnceEach(t.Context(), s.pool, "g", []string{"d", "a", "e"})
	if want := []bool{true, false, true}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if got, err := box.OnceEach(t.Context(), s.pool, "g", nil); err != nil || len(got) != 0 {
		t.Errorf("none: %v, %v", got, err)
	}
	if _, err := box.OnceEach(t.Context(), s.pool, "g", []string{"f", ""}); !errors.Is(err, inbox.ErrInvalid) || s.count(`select count(*) from inbox_message where message_id = 'f'`) != 0 {
		t.Errorf("an empty id among others: %v", err)
	}
}

// A copy waits for the transaction that handles the message, and goes on only where that one is rolled back.
func TestCopiesWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(pgx.Tx, context.Context) error
		want bool
	}{
		"the first commits":        {pgx.Tx.Commit, false},
		"the first rolls back":     {pgx.Tx.Rollback, true},
		"the first's session ends": {func(tx pgx.Tx, ctx context.Context) error { return tx.Conn().Close(ctx) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			db := &pgtest.DB{URL: s.url}
			winner, err := db.Conn(t).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if first, err := inbox.Once(t.Context(), winner, "g", "m"); err != nil || !first {
				t.Fatal(first, err)
			}
			type answer struct {
				first bool
				err   error
			}
			answers := make(chan answer, 1)
			go func() {
				first, err := inbox.Once(context.WithoutCancel(t.Context()), inbox.SQL(s.sql), "g", "m")
				answers <- answer{first, err}
			}()
			s.eventually("copies that wait", 1, waiting)
			if err := c.end(winner, t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := <-answers; got.err != nil || got.first != c.want {
				t.Errorf("%v, %v; want %v", got.first, got.err, c.want)
			}
		})
	}
}

// Batches that share messages in different orders wait for one another and never in a circle.
func TestBatchesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var box inbox.Inbox
	var wg sync.WaitGroup
	var mu sync.Mutex
	firsts := 0
	for worker := range 6 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 1))
			for round := range 15 {
				ids := make([]string, 40)
				for n := range ids {
					ids[n] = fmt.Sprintf("%d-%d", round, n)
				}
				rng.Shuffle(len(ids), func(a, b int) { ids[a], ids[b] = ids[b], ids[a] })
				first, err := box.OnceEach(t.Context(), s.pool, "g", ids)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, is := range first {
					if is {
						firsts++
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if want := 15 * 40; firsts != want || s.count(`select count(*) from inbox_message`) != want {
		t.Errorf("%d first times, want %d", firsts, want)
	}
}

func TestNoTable(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewEmpty(t).Pool(t)
	if _, err := inbox.Once(t.Context(), pool, "g", "m"); err == nil || !strings.Contains(err.Error(), "inbox.Migrate") {
		t.Errorf("no table: %v", err)
	}
	if _, err := inbox.Purge(t.Context(), pool, 1, 1); err == nil || !strings.Contains(err.Error(), "inbox.Migrate") {
		t.Errorf("no table: %v", err)
	}
}
