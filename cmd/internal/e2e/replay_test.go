package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestReplayWalk replays dead letters that kcat wrote, and reads with kcat what came of them. There is no database.
func TestReplayWalk(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		from, to := b.Topic(t, 1, nil), b.Topic(t, 1, nil)
		program := buildtest.Program(t, "cmd/postrider")
		write := func(key, value string, offset int) {
			t.Helper()
			writeRecord(t, b, from, key, value, "tenant=a=b", "dead-letter-topic="+to, "dead-letter-partition=0",
				fmt.Sprint("dead-letter-offset=", offset), "dead-letter-reason=it timed out")
		}
		write("k1", "one", 4)
		write("k1", "two", 5)
		write("k2", "three", 9)
		writeRecord(t, b, from, "k2", "not a letter", "x=y")

		replay := func(code int, args ...string) string {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), program, append([]string{"replay", "--from", from, "--yes"}, args...)...)
			cmd.Env = append(os.Environ(), "KAFKA_BROKERS="+strings.Join(b.Addrs, ","), "DATABASE_URL=postgres://nobody@127.0.0.1:1/none")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run()
			if got := cmd.ProcessState.ExitCode(); got != code {
				t.Fatalf("replay %v: exit code %d\n%s%s", args, got, &stdout, &stderr)
			}
			return stdout.String()
		}
		if out := replay(0, "--dry-run"); !strings.Contains(out, "3 messages") || !strings.Contains(out, "undecodable") {
			t.Errorf("the plan is\n%s", out)
		}
		replay(3)
		if out := replay(0); !strings.Contains(out, "Everything was replayed before") {
			t.Errorf("once more:\n%s", out)
		}
		want := []string{
			"2 k1 3 one tenant=a=b,replay_of=record:" + to + "/0/4,replay_id=ID:1,replay_origin=" + to + "/0/4,postrider-hops=1,postrider-redrive-of=record:" + to + "/0/4",
			"2 k1 3 two tenant=a=b,replay_of=record:" + to + "/0/5,replay_id=ID:1,replay_origin=" + to + "/0/5,postrider-hops=1,postrider-redrive-of=record:" + to + "/0/5",
			"2 k2 5 three tenant=a=b,replay_of=record:" + to + "/0/9,replay_id=ID:1,replay_origin=" + to + "/0/9,postrider-hops=1,postrider-redrive-of=record:" + to + "/0/9",
		}
		got := records(t, b, to, len(want))
		for i := range got {
			got[i] = regexp.MustCompile(`[0-9a-f-]{36}:1`).ReplaceAllString(got[i], "ID:1")
		}
		if !slices.Equal(got, want) {
			t.Errorf("records\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// writeRecord writes a record with kcat.
func writeRecord(t *testing.T, b *kafkatest.Broker, topic, key, value string, headers ...string) {
	t.Helper()
	kcat, found := kcatPath(t)
	if !found {
		r := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}
		for _, h := range headers {
			name, value, _ := strings.Cut(h, "=")
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		if err := b.Client(t).ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return
	}
	args := []string{"-q", "-b", strings.Join(b.Addrs, ","), "-t", topic, "-P", "-K", "\t"}
	for _, h := range headers {
		args = append(args, "-H", h)
	}
	cmd := exec.CommandContext(t.Context(), kcat, args...)
	cmd.Stdin = strings.NewReader(key + "\t" + value + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kcat: %v\n%s", err, out)
	}
}
