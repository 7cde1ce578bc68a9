package app

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/kafkawire"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestBacklogThroughABrokerThatCutsRequests: with default settings a backlog of 4 kB events goes through brokers that close the
// connection on requests over the limit of Azure Event Hubs, each event once and in the order of its key, and the log says by
// how much requests are smaller. With the setting that it advises no request is cut.
func TestBacklogThroughABrokerThatCutsRequests(t *testing.T) {
	t.Parallel()
	const (
		events, keys, hub = 3000, 97, 1046528
		least             = 1 << 20 * 98 / 100 // requests become no smaller: saferRequest
	)
	for _, setting := range []int{0, hub} {
		t.Run(fmt.Sprint(setting), func(t *testing.T) {
			t.Parallel()
			var cut atomic.Int64
			manner := kafkawire.Manner{MaxRequest: hub, Cut: func(int) { cut.Add(1) }}
			db, broker := pgtest.New(t), kafkatest.Kfake(t, kfake.ListenFn(manner.Over(net.Listen)))
			broker.CreateTopic(t, "orders", 3, nil)
			broker.CreateTopic(t, "postrider.dlq", 1, nil)
			conn := db.Conn(t)
			if _, err := conn.Exec(t.Context(), `insert into postrider.outbox_event (topic, key, payload)
				select 'orders', convert_to((n % $2::int)::text, 'UTF8'), convert_to(n || ' ' || repeat('.', 4096), 'UTF8')
				from generate_series(1, $1::int) n`, events, keys); err != nil {
				t.Fatal(err)
			}
			c := settings(t, db.URL, broker.Addrs...)
			if setting > 0 {
				c.Kafka.MaxRequestBytes = setting
			}
			var log logtest.Buffer
			run(t, Options{Config: c, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			waitRow(t, conn, "the backlog", `select count(*) = 0 from postrider.v_outbox_event where state <> 'published'`)
			last := map[string]int{}
			records := broker.ReadAll(t, "orders", 0)
			for _, r := range records {
				var n int
				if _, err := fmt.Sscan(string(r.Value), &n); err != nil || n <= last[string(r.Key)] {
					t.Fatalf("key %s: %.10s after %d (%v)", r.Key, r.Value, last[string(r.Key)], err)
				}
				last[string(r.Key)] = n
			}
			if len(records) != events {
				t.Errorf("%d records of %d events", len(records), events)
			}
			if letters := broker.ReadAll(t, "postrider.dlq", 0); len(letters) > 0 {
				t.Errorf("%d dead letters", len(letters))
			}
			smaller := smallerRequests(t, log.String())
			switch {
			case setting > 0 && (cut.Load() > 0 || len(smaller) > 0):
				t.Errorf("with the setting %d requests were cut, and the log says %v", cut.Load(), smaller)
			case setting == 0 && (cut.Load() == 0 || len(smaller) == 0):
				t.Errorf("%d requests were cut, and the log says nothing", cut.Load())
			}
			for _, s := range smaller {
				if s.MaxBytes != max(least, s.CutBytes/2) {
					t.Errorf("requests of %d bytes were cut, and are %d bytes now: neither half of that nor the least, %d bytes", s.CutBytes, s.MaxBytes, least)
				}
			}
		})
	}
}

// smaller is what the log says when requests have become smaller.
type smaller struct {
	CutBytes int `json:"cut_bytes"`
	MaxBytes int `json:"max_bytes"`
}

func smallerRequests(t *testing.T, log string) []smaller {
	t.Helper()
	var found []smaller
	for line := range strings.Lines(log) {
		var s smaller
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		if s.CutBytes > 0 {
			found = append(found, s)
		}
	}
	return found
}
