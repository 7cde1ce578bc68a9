package postgres

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// TestVanishedRelays: locks outlast whatever a relay does in silence, and not by much.
func TestVanishedRelays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for publish, want := range map[time.Duration]string{
		100 * time.Millisecond:  "13100ms 1 1 3 4000",
		time.Second:             "14s 1 1 3 4000",
		7500 * time.Millisecond: "20500ms 5 1 3 8000",
		10 * time.Second:        "23s 4 2 3 10000",
		12 * time.Second:        "25s 6 2 3 12000",
		time.Minute:             "73s 24 12 3 60000",
	} {
		_, pool := f.open(Options{PublishTimeout: publish, MaxConns: 1}, StoreOptions{})
		var got string
		err := pool.QueryRow(t.Context(), `select concat_ws(' ', current_setting('idle_in_transaction_session_timeout'), current_setting('tcp_keepalives_idle'),
			current_setting('tcp_keepalives_interval'), current_setting('tcp_keepalives_count'), current_setting('tcp_user_timeout'))`).Scan(&got)
		if err != nil || got != want {
			t.Errorf("publishing for %v: %s, %v, want %s", publish, got, err, want)
		}
		k := keepaliveFor(publish)
		if limit := IdleInTransactionLimit(publish); k.limit() < publish || k.limit() > limit || limit <= relay.LongestSilence(publish) {
			t.Errorf("publishing for %v: keepalives end a session after %v, silence after %v", publish, k.limit(), limit)
		}
	}
}
