package kafka

import (
	"bytes"
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

// TestOneSilentRecordKeepsNoOthers: a record without an answer stays in the client, perhaps for long. The payloads and
// headers of the other records of its batch are free as soon as these have an outcome.
func TestOneSilentRecordKeepsNoOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := kafkatest.Virtual(t)
		landing, silent := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		p := newPublisher(t, b, nil)
		fault(b, kmsg.Produce, silent, kerr.NotLeaderForPartition, 0)
		var payloads, headers []weak.Pointer[byte]
		func() {
			ms := append(messages(silent, 1, "k"), messages(landing, 20, "k")...)
			for i := range ms {
				ms[i].Value = bytes.Repeat([]byte{byte(i)}, 10_000)
				payloads = append(payloads, weak.Make(&ms[i].Value[0]))
				value := bytes.Repeat([]byte{byte(i)}, 1000)
				ms[i].Headers = []message.Header{{Name: "h", Value: value}}
				headers = append(headers, weak.Make(&value[0]))
			}
			wantAll(t, publish(t, p, ms...), relay.Delivered, 0)
		}()
		runtime.GC()
		for i, v := range payloads[1:] {
			if v.Value() != nil {
				t.Errorf("the payload of message %d is still in memory", i+1)
			}
			if headers[i+1].Value() != nil {
				t.Errorf("the header of message %d is still in memory", i+1)
			}
		}
		if payloads[0].Value() == nil {
			t.Error("the payload that has yet to arrive is gone")
		}
	})
}
