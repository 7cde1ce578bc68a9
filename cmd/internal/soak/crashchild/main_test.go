package main

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// What the soak wishes for its relays' transactions holds in their sessions, and the relay's own settings
// beside it.
func TestSessionsHaveTheWish(t *testing.T) {
	db := pgtest.New(t)
	pgtest.Compile(t, db.Conn(t))
	t.Setenv("DATABASE_URL", db.URL)
	t.Setenv("CRASHCHILD_PUBLISH_TIMEOUT_MS", "1000")
	for wish, want := range map[string]string{"2345": "2345ms", "": postgres.IdleInTransactionLimit(time.Second).String()} {
		t.Setenv("CRASHCHILD_IDLE_TRANSACTION_MS", wish)
		pool, err := openPool(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		var idle, jit string
		if err := pool.QueryRow(t.Context(), "select current_setting('idle_in_transaction_session_timeout'), current_setting('jit')").Scan(&idle, &jit); err != nil {
			t.Fatal(err)
		}
		if idle != want || jit != "off" {
			t.Errorf("with the wish %q: idle_in_transaction_session_timeout is %s, want %s, and jit is %s", wish, idle, want, jit)
		}
	}
}
