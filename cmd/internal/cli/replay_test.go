package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/replay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// replays is a broker with dead letters, and a database that no command may open.
type replays struct {
	*testing.T
	broker   *kafkatest.Broker
	from, to string
	database string
	opened   atomic.Int32
}

// hostile is what a letter may have anywhere.
const hostile = "\x1b[2J\x1b]0;title\x07\u202e\x00"

// newReplays writes n letters in the dialect of SmallRye, with hostile texts.
func newReplays(t *testing.T, n int) *replays {
	t.Helper()
	r := &replays{T: t, broker: kafkatest.Kfake(t)}
	r.from, r.to = r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.opened.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
		if n := r.opened.Load(); n > 0 {
			t.Errorf("the database was opened %d times", n)
		}
	})
	r.database = "postgres://u:s3ntinel@" + listener.Addr().String() + "/d"
	for i := range n {
		r.letter(int32(i%2), strconv.Itoa(i), r.to)
	}
	return r
}

func (r *replays) letter(partition int32, value, origin string) {
	r.Helper()
	client := r.broker.Client(r.T, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Minute)
	defer cancel()
	h := func(name, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: name, Value: []byte(value)} }
	record := &kgo.Record{Topic: r.from, Partition: partition, Key: []byte(hostile + value), Value: []byte(hostile + value), Headers: []kgo.RecordHeader{
		h(hostile, hostile), h("dead-letter-topic", origin), h("dead-letter-partition", "0"), h("dead-letter-offset", value),
		h("dead-letter-reason", hostile), h("dead-letter-cause-class-name", hostile)}}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		r.Fatal(err)
	}
}

// run runs postrider replay --from the letters, and demands its exit code and what it says on either stream.
func (r *replays) run(code int, args string, want ...string) result {
	r.Helper()
	all := append([]string{"replay", "--from", r.from}, strings.Fields(args)...)
	got := postrider(r.T, []string{"DATABASE_URL=" + r.database, "KAFKA_BROKERS=" + strings.Join(r.broker.Addrs, ",")}, all...)
	if got.code != code {
		r.Fatalf("replay %s: exit code %d, want %d:\n%s%s", args, got.code, code, got.stdout, got.stderr)
	}
	contains(r.T, got.stdout+got.stderr, want...)
	if strings.ContainsAny(got.stdout+got.stderr, "\x1b\u202e\x00\x07") || strings.Contains(got.stdout+got.stderr, "s3ntinel") {
		r.Errorf("replay %s: control characters or a password in %q", args, got.stdout+got.stderr)
	}
	return got
}

func TestReplay(t *testing.T) {
	t.Parallel()
	r := newReplays(t, 20)
	r.letter(0, "7", hostile) // says no topic
	plan := decode[replayView](t, r.run(ExitOK, "--dry-run -o json").stdout)
	if p := plan.Plan; p.Sending != 20 || p.Targets[r.to] != 20 || p.Skipped[replay.NoTarget] != 1 || !plan.DryRun || plan.Result != nil || p.Round != replay.First {
		t.Errorf("plan %+v", plan)
	}
	r.run(ExitOK, "--dry-run", "20 messages, ", "SKIPPED", "no_target", "postrider-replay-"+plan.Plan.Run, "this is a dry run", r.to)
	r.run(ExitUsage, "", "Sending", "standard input is no terminal", "--yes")
	if n := len(r.broker.ReadAll(t, r.to, 0)); n > 0 {
		t.Fatalf("%d messages were sent without being asked for", n)
	}
	r.run(ExitOK, "--yes --max 5", "5 messages are sent", "the same command goes on")
	r.run(ExitPartly, "--yes --rate 1000", "goes on: 5 were sent", "15 messages are sent, 1 dead letter skipped")
	r.run(ExitOK, "--yes", "Everything was replayed before; --again")
	again := decode[replayView](t, r.run(ExitPartly, "--again --yes -o json").stdout)
	if again.Result.Sent != 20 || again.Plan.Round != replay.Again || again.Result.Remaining != 0 {
		t.Errorf("again: %+v", again)
	}
	ids := map[string]int{}
	for _, m := range r.broker.ReadAll(t, r.to, 40) {
		for _, h := range m.Headers {
			if h.Key == dlq.HeaderReplayID {
				ids[string(h.Value)]++
			}
		}
	}
	if len(ids) != 40 {
		t.Errorf("%d replay ids", len(ids))
	}
}

func TestReplayOfSome(t *testing.T) {
	t.Parallel()
	r := newReplays(t, 10)
	for args, want := range map[string]string{
		"--match key=*3":                  "1 message, ",
		"--match key!=*3":                 "9 messages, ",
		"--match key=*3 --match key=*4":   "Nothing was sent",
		`--match error=*2J*`:              "10 messages, ",
		"--match topic=" + r.to:           "10 messages, ",
		"--match topic=orders":            "0 messages, ",
		"--partition 1":                   "5 messages, ",
		"--partition 0 --offsets 1-3":     "3 messages, ",
		"--since 1h":                      "10 messages, ",
		"--until 1h":                      "0 messages, ",
		"--since 2026-01-31T12:00:00Z":    "10 messages, ",
		"--to retry":                      "no_retry_topic",
		"--run incident-7 --to " + r.to:   "postrider-replay-incident-7",
		"--group mine":                    "mine",
		"--partition 0,1 --max-hops 1000": "10 messages, ",
	} {
		r.run(ExitOK, "--dry-run "+args, want)
	}
}

func TestReplayRefuses(t *testing.T) {
	t.Parallel()
	r := newReplays(t, 3)
	for args, want := range map[string]string{
		"--to " + r.from:              "is read and would be sent to",
		"--to a/b":                    "a/b",
		"--to gone.topic":             "topic gone.topic does not exist, and is not created",
		"--match erorr=x":             `"erorr", which is not known`,
		"--match x":                   "has no =",
		"--since yesterday":           `--since is "yesterday"`,
		"--since 1h --until 2h":       "is not before",
		"--offsets 5":                 `--offsets is "5"`,
		"--offsets 5-4 --partition 0": `--offsets is "5-4"`,
		"--offsets 4-5":               "one partition",
		"--partition 9":               "has no partition 9; it has 2",
		"--partition x":               "--partition",
		"--run a/b":                   "a/b",
		"--rate -1":                   "the rate is -1",
		"--max -1":                    "must not be negative",
		"--max-hops 0":                "--max-hops is 0",
		"-o xml":                      `-o is "xml"`,
		"--offset 1":                  "unknown flag",
		"now":                         "takes no arguments",
	} {
		r.run(ExitUsage, "--yes "+args, want)
	}
	if got := postrider(t, nil, "replay", "--kafka-brokers", "127.0.0.1:1"); got.code != ExitUsage || !strings.Contains(got.stderr, "--from is not given") {
		t.Errorf("%+v", got)
	}
	if got := postrider(t, nil, "replay", "--from", "x"); got.code != ExitUsage || !strings.Contains(got.stderr, "kafka.brokers is not set") {
		t.Errorf("%+v", got)
	}
	r.letter(0, "9", "gone.topic")
	r.run(ExitUsage, "--yes", "1 letters would go to topics that do not exist", "does not exist", "topic!=gone.topic")
	r.run(ExitOK, "--yes --match topic!=gone.topic", "3 messages are sent")
}

// Ctrl-C ends a replay after the records in hand, and the output says how to go on.
func TestReplayIsStopped(t *testing.T) {
	t.Parallel()
	r := newReplays(t, 20)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		defer stop()
		r.broker.ReadAll(t, r.to, 3)
	}()
	var stdout, stderr strings.Builder
	code := Run(ctx, []string{"replay", "--from", r.from, "--yes", "--rate", "5", "--kafka-brokers", r.broker.Addrs[0]}, nil, &stdout, &stderr)
	if code != ExitFailure {
		t.Fatalf("exit code %d: %s%s", code, &stdout, &stderr)
	}
	contains(t, stderr.String(), "it was stopped", "the same command goes on")
	contains(t, stdout.String(), "offsets are left to read")
	r.run(ExitOK, "--yes", "goes on: ", "Sending")
	if n := len(r.broker.ReadAll(t, r.to, 20)); n != 20 {
		t.Errorf("%d messages", n)
	}
}

// TestReplayFetches: a letter of Kafka Streams about a failure to produce has no message and points to its record. The
// record is sent, with its own headers, as long as it is there.
func TestReplayFetches(t *testing.T) {
	t.Parallel()
	r := newReplays(t, 0)
	client := r.broker.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	origin := r.broker.Topic(t, 1, nil)
	letter := func(offset string) *kgo.Record {
		return &kgo.Record{Topic: r.from, Headers: []kgo.RecordHeader{{Key: "__streams.errors.exception", Value: []byte("RecordTooLargeException")},
			{Key: "__streams.errors.topic", Value: []byte(origin)}, {Key: "__streams.errors.partition", Value: []byte("0")}, {Key: "__streams.errors.offset", Value: []byte(offset)}}}
	}
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: origin, Key: []byte("k"), Value: []byte("large"), Headers: []kgo.RecordHeader{{Key: "own", Value: []byte("3")}}},
		letter("0"), letter("9")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.run(ExitOK, "--dry-run --to "+r.to, "1 of the messages are not in their letters", "payload_gone", "postrider dlq requeue")
	r.run(ExitPartly, "--yes --to "+r.to, "payload_gone")
	sent := r.broker.ReadAll(t, r.to, 1)
	if string(sent[0].Key) != "k" || string(sent[0].Value) != "large" || string(headersNamed(sent[0], "own")) != "3" {
		t.Errorf("sent %q %q %v", sent[0].Key, sent[0].Value, sent[0].Headers)
	}
}

func headersNamed(r *kgo.Record, name string) (value []byte) {
	for _, h := range r.Headers {
		if h.Key == name {
			value = append(value, h.Value...)
		}
	}
	return value
}

// TestReplayReadsHeadersOfTheSettings: dead letters of a program of the user's own go where they came from, without its
// headers.
func TestReplayReadsHeadersOfTheSettings(t *testing.T) {
	t.Parallel()
	r := newReplays(t, 0)
	client := r.broker.Client(t)
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: r.from, Value: []byte("v"), Headers: []kgo.RecordHeader{
		{Key: "x-topic", Value: []byte(r.to)}, {Key: "own", Value: []byte("3")}}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.run(ExitOK, "--dry-run", "undecodable")
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(file, []byte("collector: {headers: {topic: x-topic}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.run(ExitOK, "--yes --config "+file, "1 message is sent")
	sent := r.broker.ReadAll(t, r.to, 1)[0]
	if string(headersNamed(sent, "own")) != "3" || headersNamed(sent, "x-topic") != nil {
		t.Errorf("sent with %v", sent.Headers)
	}
}
