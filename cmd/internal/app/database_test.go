package app

import (
	"testing"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestSessionsOfPeopleCompileNothing: a statement that the planner takes for a large one is not compiled, unless the address
// of the database says so.
func TestSessionsOfPeopleCompileNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	pgtest.Compile(t, db.Conn(t))
	for address, want := range map[string]string{db.URL: "off", db.With("jit", "on"): "on"} {
		pool, err := OpenPool(t.Context(), config.Database{URL: config.DatabaseURL(address)}, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		if got := pgtest.Value[string](t, pool, `show jit`); got != want {
			t.Errorf("jit is %s, want %s", got, want)
		}
	}
}
