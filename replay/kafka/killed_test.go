package kafka

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	relaykafka "github.com/postrider/postrider/relay/kafka"
	"github.com/postrider/postrider/relay/kafka/kafkatest"
	"github.com/postrider/postrider/replay"
)

// The environment of a process that is to be killed.
const (
	envBrokers = "REPLAY_VICTIM_BROKERS"
	envFrom    = "REPLAY_VICTIM_FROM"
)

// victimBatch is how many messages are on their way at once, and so may be sent twice.
const victimBatch = 20

// victim is such a process: it replays, and says a line after each batch.
func victim() int {
	brokers := strings.Split(os.Getenv(envBrokers), ",")
	err := func() error {
		cluster, err := New(Config{Brokers: brokers, MaxRecords: victimBatch})
		if err != nil {
			return err
		}
		defer cluster.Close()
		publisher, err := relaykafka.NewPublisher(relaykafka.Config{Brokers: brokers})
		if err != nil {
			return err
		}
		defer publisher.Close()
		r, err := replay.New(replay.Config{Cluster: cluster, Publisher: publisher, Batch: victimBatch, Options: replay.Options{From: os.Getenv(envFrom)},
			Observer: func(p replay.Progress) {
				if !p.Planning {
					fmt.Println("batch")
				}
			}})
		if err != nil {
			return err
		}
		p, err := r.Plan(context.Background())
		if err != nil {
			return err
		}
		_, err = r.Run(context.Background(), p)
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runVictim kills a process with the last signal after so many batches, or lets it finish after none. It reports
// whether it was killed.
func runVictim(t *testing.T, b *kafkatest.Broker, from string, batches int) (killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envBrokers+"="+strings.Join(b.Addrs, ","), envFrom+"="+from)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := 0
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if said++; said == batches {
			killed = cmd.Process.Kill() == nil
		}
	}
	if err := cmd.Wait(); err != nil && !killed {
		t.Fatalf("the replay failed: %v\n%s", err, &stderr)
	}
	return killed
}

// TestKilled kills the replay ten times in the middle.
func TestKilled(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		from, to := b.Topic(t, 2, nil), b.Topic(t, 3, nil)
		const n, kills = 4000, 10
		produce(t, b, letters(from, to, 2, n)...)
		for i := range kills {
			if !runVictim(t, b, from, 1+rand.IntN(12)) {
				t.Fatalf("it was done before it was killed for the time %d", i+1)
			}
			if i == 0 { // after the replay began: not part of it
				produce(t, b, letter(from, to, 0, n, nil, []byte("late")))
			}
		}
		runVictim(t, b, from, 0)
		ids, last := map[string]string{}, map[string]int{}
		all := b.ReadAll(t, to, n)
		for _, r := range all {
			value, id := string(r.Value), header(r, "replay_id")
			before, again := ids[value]
			switch {
			case value == "late":
				t.Error("what was written later was sent")
			case again && before != id:
				t.Errorf("%s has the ids %s and %s", value, before, id)
			case !again:
				ids[value] = id
				last[string(r.Key)] = inOrder(t, r, last)
			}
		}
		if len(ids) != n {
			t.Errorf("%d of %d letters were sent", len(ids), n)
		}
		if twice := len(all) - n; twice > kills*victimBatch {
			t.Errorf("%d were sent twice, with %d on their way at each of %d deaths", twice, victimBatch, kills)
		}
	})
}

// inOrder checks the first occurrences of a key, and returns the number of this one.
func inOrder(t *testing.T, r *kgo.Record, last map[string]int) int {
	t.Helper()
	var i int
	if _, err := fmt.Sscan(string(r.Value), &i); err != nil {
		t.Fatal(err)
	}
	if before, known := last[string(r.Key)]; known && before > i {
		t.Errorf("%s: %d after %d", r.Key, i, before)
	}
	return i
}
