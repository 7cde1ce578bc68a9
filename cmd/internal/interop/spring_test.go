package interop

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

// TestSpring lets two listeners of a Spring application fail: one with DeadLetterPublishingRecoverer, one with
// @RetryableTopic.
func TestSpring(t *testing.T) {
	t.Parallel()
	b := kafkatest.OnlyReal(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cp := classpath(ctx, t, "spring")
	classes := compile(ctx, t, cp, filepath.Join("testdata", "spring", "interop", "Main.java"))
	recovered, retried := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
	for _, name := range []string{recovered + "-dlt", retried + "-retry", retried + "-dlt"} {
		b.CreateTopic(t, name, 1, nil)
	}
	d := collect(t, b, `(\Q`+recovered+`\E|\Q`+retried+`\E)-dlt`)
	group := recovered
	p := start(ctx, t, classes+string(filepath.ListSeparator)+cp, "-Dinterop.brokers="+strings.Join(b.Addrs, ","),
		"-Dinterop.recovered="+recovered, "-Dinterop.retried="+retried, "-Dinterop.group="+group, "interop.Main")

	for _, test := range []struct {
		topic, group string
		dialect      dlq.Dialect
	}{
		{recovered, group, dlq.DialectSpring},
		{retried, group + "-retried", dlq.DialectSpringRetry},
	} {
		records := produce(ctx, t, b, test.topic, "fine", "poison 1", "also fine", "poison 2")
		letters := d.investigations(ctx, t, p, test.topic, 2)
		for _, r := range []*kgo.Record{records[1], records[3]} {
			l := letters[string(r.Value)]
			check(t, l, r, dlq.Letter{Dialect: test.dialect, ConsumerGroup: test.group, ErrorCode: "java.lang.IllegalStateException"})
			if !strings.Contains(l.ErrorMessage, "no such account: 17") {
				t.Errorf("message %q", l.ErrorMessage)
			}
			if l.Attempts == nil || *l.Attempts != 3 {
				t.Errorf("%s: attempts %d, want 3", test.dialect, *l.Attempts)
			}
		}
		for payload, hs := range d.redriven(ctx, t, test.topic, letters) {
			if !slices.Equal(names(hs), []string{"own", dlq.HeaderReplayOf, dlq.HeaderReplayID, dlq.HeaderReplayOrigin, message.HeaderHops, message.HeaderRedriveOf, message.HeaderRedriveFor}) {
				t.Errorf("%s is sent again with %v", payload, names(hs))
			}
		}
	}
}
