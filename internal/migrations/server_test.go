package migrations_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestServerLosesNoUpdates: where transactions meet in one row, a joined UPDATE still changes the others. PostgreSQL 18.0
// and 18.1 leave them out; see pgserver.Unfit.
func TestServerLosesNoUpdates(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	pgtest.Exec(t, db.Pool(t), `create table counted as select id, 0 as n from generate_series(1, 2) id; alter table counted add primary key (id)`)
	const writers, rounds = 6, 100
	var all sync.WaitGroup
	failed := make([]error, writers)
	for i := range writers {
		conn := db.Conn(t)
		pgtest.Exec(t, conn, `set enable_seqscan = off; set enable_bitmapscan = off; set enable_hashjoin = off; set enable_mergejoin = off`)
		all.Go(func() {
			for range rounds {
				if _, err := conn.Exec(t.Context(), `update counted c set n = n + 1 from unnest($1::int[]) u(id) where c.id = u.id`, []int32{1, 2}); err != nil {
					failed[i] = err
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	if got := pgtest.Column[int](t, db.Pool(t), `select n from counted order by id`); len(got) != 2 || got[0] != writers*rounds || got[1] != writers*rounds {
		t.Errorf("%d updates of two rows each arrived as %v", writers*rounds, got)
	}
}
