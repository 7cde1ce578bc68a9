package interop

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

// TestStreams lets an application of Kafka Streams meet a value that it cannot read, and one that it fails at.
func TestStreams(t *testing.T) {
	t.Parallel()
	b := kafkatest.OnlyReal(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cp := classpath(ctx, t, "streams")
	classes := compile(ctx, t, cp, filepath.Join("testdata", "streams", "interop", "Main.java"))
	topic := b.Topic(t, 1, nil)
	b.CreateTopic(t, topic+"-dlq", 1, nil)
	b.CreateTopic(t, topic+"-out", 1, nil)
	d := collect(t, b, `\Q`+topic+`\E-dlq`)
	records := produce(ctx, t, b, topic, "fine", "unreadable", "also fine", "poison")
	p := start(ctx, t, classes+string(filepath.ListSeparator)+cp, "-Dinterop.brokers="+strings.Join(b.Addrs, ","),
		"-Dinterop.topic="+topic, "-Dinterop.state="+t.TempDir(), "interop.Main")

	letters := d.investigations(ctx, t, p, topic, 2)
	for r, want := range map[int]struct{ code, says string }{
		1: {"org.apache.kafka.common.errors.SerializationException", "no such schema: 4"},
		3: {"java.lang.IllegalStateException", "no such account: 17"},
	} {
		l := letters[string(records[r].Value)]
		check(t, l, records[r], dlq.Letter{Dialect: dlq.DialectStreams, ErrorCode: want.code})
		opened, err := d.Investigations.Show(ctx, l.EntryUUID)
		if err != nil {
			t.Fatal(err)
		}
		if e := opened.Entry; !strings.Contains(l.ErrorMessage, want.says) || !strings.HasPrefix(e.RootFrame, "interop.Main.") {
			t.Errorf("message %q, failed in %q", l.ErrorMessage, e.RootFrame)
		}
	}
	for payload, hs := range d.redriven(ctx, t, topic, letters) {
		if !slices.Equal(names(hs), []string{"own", dlq.HeaderReplayOf, dlq.HeaderReplayID, dlq.HeaderReplayOrigin, message.HeaderHops, message.HeaderRedriveOf}) {
			t.Errorf("%s is sent again with %v", payload, names(hs))
		}
	}
}
