package interop

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

// TestConnect lets a sink of Kafka Connect meet values that its converter cannot read.
func TestConnect(t *testing.T) {
	t.Parallel()
	b := kafkatest.OnlyReal(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cp := classpath(ctx, t, "connect")
	topic := b.Topic(t, 1, nil)
	b.CreateTopic(t, topic+"-dlq", 1, nil)
	d := collect(t, b, `.*\Q`+topic+`\E-dlq`)
	records := produce(ctx, t, b, topic, `{"fine": 1}`, "not JSON", `{"fine": 2}`, "{")

	dir := t.TempDir()
	write := func(name string, lines ...string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	worker := write("worker.properties",
		"bootstrap.servers="+strings.Join(b.Addrs, ","), "listeners=http://127.0.0.1:0", "plugin.discovery=service_load",
		"key.converter=org.apache.kafka.connect.storage.StringConverter",
		"value.converter=org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable=false",
		"offset.storage.file.filename="+filepath.Join(dir, "offsets"))
	sink := write("sink.properties",
		"name=interop-sink", "connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max=1",
		"topics="+topic, "file="+filepath.Join(dir, "out"), "consumer.override.auto.offset.reset=earliest", "errors.tolerance=all",
		"errors.deadletterqueue.topic.name="+topic+"-dlq", "errors.deadletterqueue.topic.replication.factor=1",
		"errors.deadletterqueue.context.headers.enable=true")
	p := start(ctx, t, cp, "org.apache.kafka.connect.cli.ConnectStandalone", worker, sink)

	letters := d.investigations(ctx, t, p, topic, 2)
	for _, r := range []int{1, 3} {
		l := letters[string(records[r].Value)]
		check(t, l, records[r], dlq.Letter{Dialect: dlq.DialectConnect, ConsumerGroup: "interop-sink", ErrorClass: "VALUE_CONVERTER",
			ErrorCode: "org.apache.kafka.connect.errors.DataException"})
		if !strings.Contains(l.ErrorMessage, "failed due to serialization error") {
			t.Errorf("message %q", l.ErrorMessage)
		}
		if !l.DLQRecordAt.Equal(records[r].Timestamp.UTC()) {
			t.Errorf("at %v, want the record's %v", l.DLQRecordAt, records[r].Timestamp)
		}
	}
	for payload, hs := range d.redriven(ctx, t, topic, letters) {
		if !slices.Equal(names(hs), []string{"own", dlq.HeaderReplayOf, dlq.HeaderReplayID, dlq.HeaderReplayOrigin, message.HeaderHops, message.HeaderRedriveOf, message.HeaderRedriveFor}) {
			t.Errorf("%s is sent again with %v", payload, names(hs))
		}
	}
	out, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil || strings.Count(string(out), "fine") != 2 {
		t.Errorf("the sink wrote %q, %v", out, err)
	}
}
