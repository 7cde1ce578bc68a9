package consumer

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/message"
)

// TestLogsNameTheMessage: log lines about a failed message name its trace, its event, its place, the attempt and the
// error.
func TestLogsNameTheMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]int{"orders": 1})
		bad := rec("orders", "k", "bad")
		bad.Headers = []message.Header{{Name: message.HeaderEventID, Value: []byte("e-1")},
			{Name: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}}
		f.write(bad)
		var log bytes.Buffer
		_, stop := run(t, f, Config{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Policy: Policy{Delays: []time.Duration{time.Second}}},
			HandlerFunc(func(context.Context, *Message) error { return errBroken }))
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		type said struct {
			Msg       string `json:"msg"`
			Component string `json:"component"`
			Group     string `json:"group"`
			Topic     string `json:"topic"`
			Partition int    `json:"partition"`
			Offset    int64  `json:"offset"`
			Attempt   int    `json:"retry_attempt"`
			Trace     string `json:"trace_id"`
			Event     string `json:"event_id"`
			Class     string `json:"error_class"`
			Code      string `json:"error_code"`
			Err       string `json:"err"`
			In        string `json:"in"`
		}
		want := said{Component: "consumer", Group: "g", Trace: "0af7651916cd43dd8448eb211c80319c", Event: "e-1", Class: "transient", Code: CodeFailed, Err: "broken"}
		first, last := want, want
		first.Msg, first.Topic, first.Attempt, first.In = "a message is tried again", "orders", 1, "1s"
		last.Msg, last.Topic, last.Attempt = "a message is given up", "orders.g.retry.1s", 2
		var got []said
		for lines := json.NewDecoder(&log); lines.More(); {
			var line said
			if err := lines.Decode(&line); err != nil {
				t.Fatal(err)
			}
			if line.Attempt > 0 {
				got = append(got, line)
			}
		}
		if len(got) != 2 || got[0] != first || got[1] != last {
			t.Errorf("said %+v\nwant %+v and %+v", got, first, last)
		}
	})
}
