package cli

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/message"
)

// TestFetchByHand: with the rights of operators, what letters point to is fetched from its topic, or it is said why not,
// and sending again does so by itself where there are brokers.
func TestFetchByHand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 1)
	b := kafkatest.Kfake(t)
	topic := b.Topic(t, 1, map[string]string{"retention.ms": "3600000"})
	client := b.Client(t)
	for i := range 3 {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("found " + strconv.Itoa(i))}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	store, err := app.NewServices(d.db.Pool(t), config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pointing := func(topic string, offset int64) string {
		t.Helper()
		h := func(name, value string) message.Header { return message.Header{Name: name, Value: []byte(value)} }
		l := dlq.Decode(dlq.Record{Topic: "share-dlq", Offset: offset + int64(len(topic)), Timestamp: time.Now(), Headers: []message.Header{h("__dlq.errors.topic", topic),
			h("__dlq.errors.partition", "0"), h("__dlq.errors.offset", strconv.FormatInt(offset, 10)), h("__dlq.errors.group", "g")}})
		l.OriginalRecord = dlq.OriginalUnanswered
		if _, err := store.Store.RecordLetters(t.Context(), []dlq.Letter{l}); err != nil {
			t.Fatal(err)
		}
		return investigationOf(t, store, l)
	}
	run := func(code int, command string, want ...string) string {
		t.Helper()
		r := postrider(t, []string{"DATABASE_URL=" + d.operator, "KAFKA_BROKERS=" + strings.Join(b.Addrs, ",")}, strings.Fields(command)...)
		if r.code != code {
			t.Fatalf("%s: exit code %d, want %d: %s%s", command, r.code, code, r.stdout, r.stderr)
		}
		contains(t, r.stdout+r.stderr, want...)
		return r.stdout
	}
	one, two, gone := pointing(topic, 0), pointing(topic, 1), pointing(topic+".other", 0)
	d.run(ExitUsage, "dlq fetch "+one, "kafka.brokers")
	run(ExitUsage, "dlq fetch x", "not the id")
	run(ExitPartly, "dlq fetch "+one+" "+gone+" "+d.entries[0], "fetched", "the topic keeps it until", "no_topic", "gone: there is no topic "+topic+".other", "nothing to fetch")
	run(ExitOK, "dlq fetch "+one, "nothing to fetch")
	run(ExitOK, "dlq show "+one, "found 0")
	views := decode[api.List[api.Fetched]](t, run(ExitPartly, "dlq fetch "+gone+" -o json")).Items
	if len(views) != 1 || *views[0].State != "no_topic" || views[0].GoneAt != nil || views[0].Error == nil {
		t.Errorf("%+v", views)
	}
	d.run(ExitUsage, "dlq requeue "+two+" --max-hops 0", "--max-hops is 0")
	d.run(ExitPartly, "dlq requeue "+two, "payload_gone", "dlq fetch")
	run(ExitOK, "dlq requeue "+two, "1 on their way")
	run(ExitPartly, "dlq requeue "+gone, "payload_gone")
	if got := d.ask(`select convert_from(payload, 'UTF8') || ' ' || topic from postrider.outbox_event where headers::text like '%replay_id%'`); got != "found 1 "+topic {
		t.Errorf("sent: %s", got)
	}
	if got := d.ask(`select count(*)::text from postrider.access_audit where action = 'dlq.fetch'`); got != "3" {
		t.Errorf("%s rows in the audit log", got)
	}
}
