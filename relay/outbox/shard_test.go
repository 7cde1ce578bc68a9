package outbox_test

import (
	"crypto/sha256"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/migrations/pgtest"
	"github.com/postrider/postrider/relay/outbox"
)

// TestShardNeverChanges: events of a key that are waiting while the schema or the server is upgraded
// must stay in the shard of those written after.
func TestShardNeverChanges(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	rapid.Check(t, func(t *rapid.T) {
		topic := rapid.StringMatching(`[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,20}`).Draw(t, "topic")
		var key []byte
		if rapid.IntRange(0, 3).Draw(t, "has key") > 0 {
			key = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "key")
		}
		var id int64
		var shard int16
		if err := pool.QueryRow(t.Context(), `insert into postrider.outbox_event (topic, key) values ($1, $2) returning id, shard`,
			topic, key).Scan(&id, &shard); err != nil {
			t.Fatal(err)
		}
		want := int16(id % outbox.Shards)
		if key != nil {
			sum := sha256.Sum256(append([]byte(topic+"\x00"), key...))
			want = int16(sum[0] % outbox.Shards)
		}
		if shard != want {
			t.Fatalf("topic %q, key %q, id %d: shard %d, want %d", topic, key, id, shard, want)
		}
	})
}

func TestEveryShardHasItsLock(t *testing.T) {
	t.Parallel()
	var n, lowest, highest int
	err := pgtest.New(t).Pool(t).QueryRow(t.Context(), `select count(*), min(shard), max(shard) from postrider.outbox_shard`).Scan(&n, &lowest, &highest)
	if err != nil || n != outbox.Shards || lowest != 0 || highest != outbox.Shards-1 {
		t.Errorf("outbox_shard has %d rows from %d to %d, %v", n, lowest, highest, err)
	}
}
